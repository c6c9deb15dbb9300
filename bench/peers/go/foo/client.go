package foo

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Client is the part of a generated client that the sample controller uses.
type Client struct {
	rest       rest.Interface
	parameters runtime.ParameterCodec
}

// NewForConfig makes a client.
func NewForConfig(config *rest.Config) (*Client, error) {
	scheme := runtime.NewScheme()
	AddToScheme(scheme)
	typed := rest.CopyConfig(config)
	typed.GroupVersion = &GroupVersion
	typed.APIPath = "/apis"
	typed.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(typed)
	if err != nil {
		return nil, err
	}
	return &Client{rest: client, parameters: runtime.NewParameterCodec(scheme)}, nil
}

// Informer of all foos, indexed as that of a generated factory.
func (c *Client) Informer() cache.SharedIndexInformer {
	source := cache.NewListWatchFromClient(c.rest, Resource, metav1.NamespaceAll, fields.Everything())
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	return cache.NewSharedIndexInformer(source, &Foo{}, 0, indexers)
}

// UpdateStatus writes the status of the foo.
func (c *Client) UpdateStatus(ctx context.Context, foo *Foo, options metav1.UpdateOptions) (*Foo, error) {
	result := new(Foo)
	err := c.rest.Put().
		Namespace(foo.Namespace).
		Resource(Resource).
		Name(foo.Name).
		SubResource("status").
		VersionedParams(&options, c.parameters).
		Body(foo).
		Do(ctx).
		Into(result)
	return result, err
}
