// Package foo has the kind of the sample controller, as a generated client
// would have it, and what all operators written in Go make of its objects.
package foo

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// Resource is what the kind is called in paths.
	Resource = "foos"
	// Kind is what the kind is called.
	Kind = "Foo"
	// Component is who operators say they are.
	Component = "sample-controller"
	// Synced is the reason of the event after each successful sync, and
	// SyncedNote what it says.
	Synced     = "Synced"
	SyncedNote = "Foo synced successfully"
	// ResourceExists is the reason of the event when a Deployment is
	// controlled by another owner, and ResourceExistsNote is its note.
	ResourceExists     = "ErrResourceExists"
	ResourceExistsNote = "Resource %q already exists and is not managed by Foo"
	// SyncedLine is what is logged after each successful sync.
	SyncedLine = "Successfully synced"
)

// GroupVersion is where the kind is.
var GroupVersion = schema.GroupVersion{Group: "samplecontroller.k8s.io", Version: "v1alpha1"}

// Foo wants a Deployment.
type Foo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status"`
}

// Spec is what is wanted.
type Spec struct {
	DeploymentName string `json:"deploymentName"`
	Replicas       *int32 `json:"replicas"`
}

// Status is what there is.
type Status struct {
	AvailableReplicas int32 `json:"availableReplicas"`
}

// FooList is a list of foos.
type FooList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Foo `json:"items"`
}

// AddToScheme makes the kind known.
func AddToScheme(scheme *runtime.Scheme) {
	scheme.AddKnownTypes(GroupVersion, &Foo{}, &FooList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
}

// DeepCopyInto copies the foo into another.
func (in *Foo) DeepCopyInto(out *Foo) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if in.Spec.Replicas != nil {
		out.Spec.Replicas = new(*in.Spec.Replicas)
	}
}

// DeepCopy copies the foo.
func (in *Foo) DeepCopy() *Foo {
	out := new(Foo)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject copies the foo.
func (in *Foo) DeepCopyObject() runtime.Object {
	return in.DeepCopy()
}

// DeepCopyObject copies the list.
func (in *FooList) DeepCopyObject() runtime.Object {
	out := new(FooList)
	*out = *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	if in.Items != nil {
		out.Items = make([]Foo, len(in.Items))
		for i := range in.Items {
			in.Items[i].DeepCopyInto(&out.Items[i])
		}
	}
	return out
}

// NewDeployment is the Deployment that a foo wants. All operators make the
// same.
func NewDeployment(foo *Foo) *appsv1.Deployment {
	labels := map[string]string{"app": "nginx", "controller": foo.Name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name:            foo.Spec.DeploymentName,
			Namespace:       foo.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(foo, GroupVersion.WithKind(Kind))},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: foo.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{Name: "nginx", Image: "nginx:latest"}},
				},
			},
		},
	}
}
