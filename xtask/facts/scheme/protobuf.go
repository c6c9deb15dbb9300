package scheme

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// IsKeptInProtobuf tells whether a kube-apiserver keeps objects of a kind in protobuf. All are but those of the two
// servers that are built into it, which are kept in JSON.
func IsKeptInProtobuf(gvk schema.GroupVersionKind) bool {
	return gvk.Group != "apiextensions.k8s.io" && gvk.Group != "apiregistration.k8s.io"
}

// ThroughProtobuf gives what is left of an object after it was kept in protobuf.
func ThroughProtobuf(kinds runtime.ObjectCreater, object runtime.Object, gvk schema.GroupVersionKind) (runtime.Object, error) {
	type message interface {
		Marshal() ([]byte, error)
		Unmarshal([]byte) error
	}
	from, ok := object.(message)
	if !ok {
		return nil, fmt.Errorf("%s is not known to protobuf", gvk)
	}
	bytes, err := from.Marshal()
	if err != nil {
		return nil, err
	}
	read, err := kinds.New(gvk)
	if err != nil {
		return nil, err
	}
	if err := read.(message).Unmarshal(bytes); err != nil {
		return nil, err
	}
	read.GetObjectKind().SetGroupVersionKind(gvk)
	return read, nil
}
