package main

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Types that read and write their JSON themselves. The reader of the table knows each of them by its name.
var ownJSON = map[reflect.Type]bool{
	reflect.TypeFor[resource.Quantity]():                            true,
	reflect.TypeFor[intstr.IntOrString]():                           true,
	reflect.TypeFor[metav1.Time]():                                  true,
	reflect.TypeFor[metav1.MicroTime]():                             true,
	reflect.TypeFor[metav1.FieldsV1]():                              true,
	reflect.TypeFor[runtime.RawExtension]():                         true,
	reflect.TypeFor[apiextensionsv1.JSON]():                         true,
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrArray]():       true,
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrBool]():        true,
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrStringArray](): true,
}

// One line for each named type that is reached from the kinds, sorted by its name.
func reachedTypes(kinds []knownKind) ([]string, error) {
	lines := map[string]string{}
	var walk func(reflect.Type) error
	walk = func(goType reflect.Type) error {
		switch goType.Kind() {
		case reflect.Pointer, reflect.Slice:
			if goType.Name() == "" {
				return walk(goType.Elem())
			}
		case reflect.Map:
			if goType.Key().Kind() != reflect.String {
				return fmt.Errorf("%s: only strings are expected as keys", goType)
			}
			if goType.Name() == "" {
				return walk(goType.Elem())
			}
		}
		name := nameOf(goType)
		if _, seen := lines[name]; seen || goType.PkgPath() == "" || ownJSON[goType] {
			return nil
		}
		if writesItself(goType) {
			return fmt.Errorf("%s reads or writes its JSON itself: teach the reader of the table, then add it to ownJSON", goType)
		}
		lines[name] = ""
		switch goType.Kind() {
		case reflect.Struct:
			fields, err := fieldsOf(goType, nil, "")
			if err != nil {
				return fmt.Errorf("%s: %w", goType, err)
			}
			line := name + " {"
			for _, field := range fields {
				line += " " + field.String()
				if err := walk(field.goType); err != nil {
					return fmt.Errorf("%s.%s: %w", goType, field.name, err)
				}
			}
			lines[name] = line
		case reflect.Slice:
			lines[name] = name + " []" + nameOf(goType.Elem())
			return walk(goType.Elem())
		case reflect.Map:
			lines[name] = name + " map[" + nameOf(goType.Key()) + "]" + nameOf(goType.Elem())
			return walk(goType.Elem())
		default:
			lines[name] = name + " " + goType.Kind().String()
		}
		return nil
	}
	for _, kind := range kinds {
		if err := walk(kind.goType); err != nil {
			return nil, err
		}
	}
	sorted := make([]string, 0, len(lines))
	for _, line := range lines {
		sorted = append(sorted, line)
	}
	slices.SortFunc(sorted, func(a, b string) int {
		// The reader searches by name, and a space sorts before whatever may follow in a name.
		return strings.Compare(a[:strings.IndexByte(a, ' ')], b[:strings.IndexByte(b, ' ')])
	})
	return sorted, nil
}

func writesItself(goType reflect.Type) bool {
	pointer := reflect.PointerTo(goType)
	for _, method := range []reflect.Type{
		reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.Unmarshaler](),
		reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
	} {
		if pointer.Implements(method) {
			return true
		}
	}
	return false
}

// A field as JSON sees it: those of embedded structs are among those of the struct they are embedded in.
type field struct {
	name      string
	goType    reflect.Type
	pointer   bool
	omitempty bool
	omitzero  bool
	tags      []string
	strategy  string
	mergeKey  string
	embedded  string
}

func (f field) String() string {
	flags := ""
	for _, flag := range []struct {
		letter string
		set    bool
	}{{"p", f.pointer}, {"o", f.omitempty}, {"z", f.omitzero}} {
		if flag.set {
			flags += flag.letter
		}
	}
	text := f.name + ":" + flags + ":" + strings.Join(f.tags, ".") + ":" + nameOf(f.goType)
	if f.strategy != "" || f.mergeKey != "" {
		text += "~" + f.strategy + "@" + f.mergeKey
	}
	if f.embedded != "" {
		text += "^" + f.embedded
	}
	return text
}

func fieldsOf(goType reflect.Type, tags []string, embedded string) ([]field, error) {
	var fields []field
	for i := range goType.NumField() {
		goField := goType.Field(i)
		if !goField.IsExported() {
			continue
		}
		name, options, _ := strings.Cut(goField.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		var fieldTags []string
		if parts := strings.Split(goField.Tag.Get("protobuf"), ","); len(parts) > 1 {
			fieldTags = append(slices.Clone(tags), parts[1])
		}
		if goField.Anonymous && name == "" {
			if goField.Type.Kind() != reflect.Struct {
				return nil, fmt.Errorf("embedded field %s is not a struct", goField.Name)
			}
			inner, err := fieldsOf(goField.Type, fieldTags, strings.TrimPrefix(embedded+"."+goField.Name, "."))
			if err != nil {
				return nil, err
			}
			if fieldTags == nil {
				// A type outside protobuf bodies contains no type of one.
				for i := range inner {
					inner[i].tags = nil
				}
			}
			fields = append(fields, inner...)
			continue
		}
		if name == "" {
			name = goField.Name
		}
		options = "," + options + ","
		if strings.Contains(options, ",string,") {
			return nil, fmt.Errorf("field %s: numbers in strings are not expected", goField.Name)
		}
		f := field{
			name: name, goType: goField.Type, tags: fieldTags, embedded: embedded,
			omitempty: strings.Contains(options, ",omitempty,"), omitzero: strings.Contains(options, ",omitzero,"),
			strategy: goField.Tag.Get("patchStrategy"), mergeKey: goField.Tag.Get("patchMergeKey"),
		}
		if f.goType.Kind() == reflect.Pointer {
			f.pointer, f.goType = true, f.goType.Elem()
		}
		if f.omitzero && (f.pointer || f.goType != reflect.TypeFor[metav1.Time]()) {
			return nil, fmt.Errorf("field %s: the reader knows the zero of Time alone", goField.Name)
		}
		for _, other := range fields {
			if other.name == f.name {
				return nil, fmt.Errorf("two fields are called %s", f.name)
			}
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// A type's name with the last two elements of its package's path, or the last where that is enough to tell whose it
// is: core/v1.Pod, resource.Quantity. Go's error texts use the part after the last slash.
func nameOf(goType reflect.Type) string {
	if goType.Name() == "" {
		switch goType.Kind() {
		case reflect.Pointer:
			return "*" + nameOf(goType.Elem())
		case reflect.Slice:
			return "[]" + nameOf(goType.Elem())
		case reflect.Map:
			return "map[" + nameOf(goType.Key()) + "]" + nameOf(goType.Elem())
		case reflect.Interface:
			return "any"
		}
	}
	elements := strings.Split(goType.PkgPath(), "/")
	if last := len(elements) - 1; last > 0 && elements[last][0] == 'v' && len(elements[last]) <= len("v1beta1") {
		return elements[last-1] + "/" + elements[last] + "." + goType.Name()
	}
	if goType.PkgPath() == "" {
		return goType.Name()
	}
	return elements[len(elements)-1] + "." + goType.Name()
}
