// Package widget has the kind that the replay server serves, as a generated
// client would have it.
package widget

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// namespaces is over how many of them widgets are spread.
const namespaces = 20

// Resource is what the kind is called in paths.
const Resource = "widgets"

// GroupVersion is where the kind is.
var GroupVersion = schema.GroupVersion{Group: "bench.bowline.dev", Version: "v1"}

// Widget is an object of about a kilobyte.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status"`
}

// Spec is what is wanted. A hundred widgets are of one group.
type Spec struct {
	Group    string            `json:"group"`
	Image    string            `json:"image"`
	Replicas int32             `json:"replicas"`
	Settings map[string]string `json:"settings"`
	Ports    []Port            `json:"ports"`
}

// Port is a port with a name.
type Port struct {
	Name string `json:"name"`
	Port int32  `json:"port"`
}

// Status is what there is. Change counts the updates of the widget; Sent is
// when the server sent it, where it was asked to tell.
type Status struct {
	Change     int64       `json:"change"`
	Sent       string      `json:"sent"`
	Conditions []Condition `json:"conditions"`
}

// Condition is something that holds, or does not.
type Condition struct {
	Type               string      `json:"type"`
	Status             string      `json:"status"`
	Reason             string      `json:"reason"`
	Message            string      `json:"message"`
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
}

// WidgetList is a list of widgets.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Widget `json:"items"`
}

// AddToScheme makes the kind known.
func AddToScheme(scheme *runtime.Scheme) {
	scheme.AddKnownTypes(GroupVersion, &Widget{}, &WidgetList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
}

// DeepCopyInto copies the widget into another.
func (in *Widget) DeepCopyInto(out *Widget) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Settings = maps.Clone(in.Spec.Settings)
	out.Spec.Ports = slices.Clone(in.Spec.Ports)
	out.Status.Conditions = slices.Clone(in.Status.Conditions)
	for i := range out.Status.Conditions {
		in.Status.Conditions[i].LastTransitionTime.DeepCopyInto(&out.Status.Conditions[i].LastTransitionTime)
	}
}

// DeepCopyObject copies the widget.
func (in *Widget) DeepCopyObject() runtime.Object {
	out := new(Widget)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject copies the list.
func (in *WidgetList) DeepCopyObject() runtime.Object {
	out := new(WidgetList)
	*out = *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	if in.Items != nil {
		out.Items = make([]Widget, len(in.Items))
		for i := range in.Items {
			in.Items[i].DeepCopyInto(&out.Items[i])
		}
	}
	return out
}

// Go tells the replay server to stream updates to those who watch now: so
// many a second, or with 0 as fast as they take them.
func Go(config *rest.Config, perSecond int) error {
	return say(config, fmt.Sprintf("/go?rate=%d", perSecond))
}

// GoStamped tells the replay server how many updates a second to stream, and
// to tell in each when it is sent.
func GoStamped(config *rest.Config, perSecond int) error {
	return say(config, fmt.Sprintf("/go?rate=%d&stamped=true", perSecond))
}

func say(config *rest.Config, path string) error {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	response, err := client.Post(config.Host+path, "", nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("POST %s: %s", path, response.Status)
	}
	return nil
}

// Key of the widget with this number.
func Key(number int) types.NamespacedName {
	return types.NamespacedName{
		Namespace: fmt.Sprintf("bench-%02d", number%namespaces),
		Name:      fmt.Sprintf("widget-%06d", number),
	}
}
