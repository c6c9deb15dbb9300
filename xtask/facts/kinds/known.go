package main

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"bowline.dev/xtask/facts/scheme"
)

// A kind and the Go type that its objects are decoded into.
type knownKind struct {
	groupVersion string
	kind         string
	goType       reflect.Type
}

// The kinds of the groups that a kube-apiserver serves by default, in a fixed order.
//
// Those of meta/v1 that every group has (DeleteOptions and the like) are given once, under meta.k8s.io/v1, together
// with those that belong to no group (Status).
func knownKinds() []knownKind {
	metaPackage := reflect.TypeFor[metav1.ObjectMeta]().PkgPath()
	var kinds []knownKind
	for gvk, goType := range scheme.New().AllKnownTypes() {
		groupVersion := gvk.GroupVersion().String()
		if goType.PkgPath() == metaPackage {
			groupVersion = "meta.k8s.io/v1"
		}
		if gvk.Version == runtime.APIVersionInternal {
			continue
		}
		kinds = append(kinds, knownKind{groupVersion, gvk.Kind, goType})
	}
	slices.SortFunc(kinds, func(a, b knownKind) int {
		return cmp.Or(strings.Compare(a.groupVersion, b.groupVersion), strings.Compare(a.kind, b.kind))
	})
	return slices.Compact(kinds)
}
