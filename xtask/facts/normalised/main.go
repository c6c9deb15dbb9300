// Command normalised writes what a kube-apiserver makes of objects before it sets defaults: it decodes them into the Go
// types of their kinds, strictly, and encodes them again. `cargo xtask facts` runs it.
//
//	go run ./normalised < objects.jsonl > normalised.jsonl
//
// There is one object on each line of the input, and on the same line of the output {"value":…,"unknownFields":[…]},
// or {"error":…}. Kinds that a server stores in protobuf pass through protobuf in between, since that tells no empty list
// from none.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"

	"bowline.dev/xtask/facts/scheme"
)

// Output line for one object.
type result struct {
	Value         runtime.Object `json:"value,omitempty"`
	UnknownFields []string       `json:"unknownFields,omitempty"`
	Error         string         `json:"error,omitempty"`
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, file io.Writer) error {
	kinds := scheme.New()
	strict := serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, kinds, kinds, serializer.SerializerOptions{Strict: true})
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	out := bufio.NewWriter(file)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for number := 1; lines.Scan(); number++ {
		result, err := normalised(strict, kinds, lines.Bytes())
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if err := encoder.Encode(result); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return out.Flush()
}

func normalised(strict runtime.Decoder, kinds *runtime.Scheme, line []byte) (*result, error) {
	object, gvk, err := strict.Decode(line, nil, nil)
	var result result
	switch strictly, ok := runtime.AsStrictDecodingError(err); {
	case ok:
		for _, err := range strictly.Errors() {
			result.UnknownFields = append(result.UnknownFields, err.Error())
		}
	case gvk == nil || runtime.IsMissingKind(err) || runtime.IsNotRegisteredError(err):
		return nil, errors.Join(errors.New("not an object of a known kind"), err)
	case err != nil:
		result.Error = err.Error()
		return &result, nil
	}
	if scheme.IsKeptInProtobuf(*gvk) {
		stored, err := scheme.ThroughProtobuf(kinds, object, *gvk)
		if err != nil {
			return nil, err
		}
		object = stored
	}
	result.Value = object
	return &result, nil
}
