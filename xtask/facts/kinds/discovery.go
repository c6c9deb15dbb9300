package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The groups of all discovery documents in a file, in their order.
func readDiscovery(name string) ([]apidiscoveryv2.APIGroupDiscovery, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var groups []apidiscoveryv2.APIGroupDiscovery
	for decoder := json.NewDecoder(file); ; {
		var list apidiscoveryv2.APIGroupDiscoveryList
		if err := decoder.Decode(&list); err == io.EOF {
			return groups, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if list.Kind != "APIGroupDiscoveryList" {
			return nil, fmt.Errorf("%s holds a %q, not aggregated discovery", name, list.Kind)
		}
		groups = append(groups, list.Items...)
	}
}

// One line for each resource, and one that starts with a space for each of its subresources.
func discoveredResources(name string, kinds []knownKind) ([]string, error) {
	groups, err := readDiscovery(name)
	if err != nil {
		return nil, err
	}
	var lines []string
	known := map[string]bool{}
	for _, kind := range kinds {
		known[kind.groupVersion+" "+kind.kind] = true
	}
	for _, group := range groups {
		for _, version := range group.Versions {
			groupVersion := metav1.GroupVersion{Group: group.Name, Version: version.Version}.String()
			for _, resource := range version.Resources {
				kind := kindOf(resource.ResponseKind, groupVersion)
				if !known[kind] {
					return nil, fmt.Errorf("resource %s of %s: its kind %s is not in the table of kinds", resource.Resource, groupVersion, kind)
				}
				scope := "cluster"
				if resource.Scope == apidiscoveryv2.ScopeNamespace {
					scope = "namespaced"
				}
				lines = append(lines, fmt.Sprintf("%s %s %s %s %s %s %s %s", groupVersion, resource.Resource, resource.SingularResource,
					strings.TrimPrefix(kind, groupVersion+" "), scope, listed(resource.ShortNames), listed(resource.Categories), listed(resource.Verbs)))
				for _, subresource := range resource.Subresources {
					kind := kindOf(subresource.ResponseKind, groupVersion)
					if !known[kind] {
						return nil, fmt.Errorf("subresource %s of %s of %s: its kind %s is not in the table of kinds", subresource.Subresource, resource.Resource, groupVersion, kind)
					}
					lines = append(lines, fmt.Sprintf(" %s %s %s", subresource.Subresource, kind, listed(subresource.Verbs)))
				}
			}
		}
	}
	return lines, nil
}

// The group, version and name of a kind; empty ones are those of the resource.
func kindOf(kind *metav1.GroupVersionKind, groupVersion string) string {
	if kind == nil {
		return "- -"
	}
	if kind.Group != "" || kind.Version != "" {
		groupVersion = metav1.GroupVersion{Group: kind.Group, Version: kind.Version}.String()
	}
	return groupVersion + " " + kind.Kind
}

func listed(names []string) string {
	if len(names) == 0 {
		return "-"
	}
	return strings.Join(names, ",")
}
