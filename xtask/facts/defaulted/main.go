// Command defaulted writes what a kube-apiserver makes of objects until it hands them to validation and storage: it
// decodes them, sets the defaults of their version, converts them to the type that the server works with, and back
// when they are stored. `cargo xtask facts` runs it.
//
//	go run . < objects.jsonl > defaulted.jsonl
//
// There is one object on each line of the input, and what became of it on the same line of the output. Feature gates
// have their defaults. Values of registries and admission are absent: uid, generation, status, cluster IPs.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"

	"bowline.dev/xtask/facts/scheme"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, file io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	out := bufio.NewWriter(file)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for number := 1; lines.Scan(); number++ {
		object, err := defaulted(lines.Bytes())
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if err := encoder.Encode(object); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return out.Flush()
}

func defaulted(line []byte) (runtime.Object, error) {
	gvk, err := serializer.DefaultMetaFactory.Interpret(line)
	if err != nil {
		return nil, err
	}
	kinds := schemeOf(gvk.Group)
	decoder := serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, kinds, kinds, serializer.SerializerOptions{})
	object, _, err := decoder.Decode(line, nil, nil)
	if err != nil {
		return nil, err
	}
	kinds.Default(object)
	internal, err := kinds.ConvertToVersion(object, schema.GroupVersion{Group: gvk.Group, Version: runtime.APIVersionInternal})
	if err != nil {
		return nil, err
	}
	stored, err := kinds.ConvertToVersion(internal, gvk.GroupVersion())
	if err != nil {
		return nil, err
	}
	if scheme.IsKeptInProtobuf(*gvk) {
		if stored, err = scheme.ThroughProtobuf(kinds, stored, *gvk); err != nil {
			return nil, err
		}
	}
	// An object that is read from storage is defaulted again, converted, and converted back for the answer.
	kinds.Default(stored)
	if internal, err = kinds.ConvertToVersion(stored, schema.GroupVersion{Group: gvk.Group, Version: runtime.APIVersionInternal}); err != nil {
		return nil, err
	}
	return kinds.ConvertToVersion(internal, gvk.GroupVersion())
}
