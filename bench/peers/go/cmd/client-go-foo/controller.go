package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"bowline.dev/bench/peers/go/foo"
)

// controller is the sample controller. Unlike that, it writes a status only
// when it differs.
type controller struct {
	kube        kubernetes.Interface
	foos        *foo.Client
	deployments appslisters.DeploymentLister
	informer    cache.SharedIndexInformer
	synced      []cache.InformerSynced
	queue       workqueue.TypedRateLimitingInterface[cache.ObjectName]
	recorder    record.EventRecorder
}

func newController(
	ctx context.Context,
	kube kubernetes.Interface,
	foos *foo.Client,
	deployments appsinformers.DeploymentInformer,
	informer cache.SharedIndexInformer,
) (*controller, error) {
	scheme := apiruntime.NewScheme()
	foo.AddToScheme(scheme)
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: kube.CoreV1().Events("")})
	c := &controller{
		kube:        kube,
		foos:        foos,
		deployments: deployments.Lister(),
		informer:    informer,
		synced:      []cache.InformerSynced{deployments.Informer().HasSynced, informer.HasSynced},
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](5*time.Millisecond, 1000*time.Second),
		),
		recorder: broadcaster.NewRecorder(scheme, corev1.EventSource{Component: foo.Component}),
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.enqueue,
		UpdateFunc: func(_, new any) { c.enqueue(new) },
	}); err != nil {
		return nil, err
	}
	_, err := deployments.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: c.enqueueOwner,
		UpdateFunc: func(old, new any) {
			if old.(metav1.Object).GetResourceVersion() != new.(metav1.Object).GetResourceVersion() {
				c.enqueueOwner(new)
			}
		},
		DeleteFunc: c.enqueueOwner,
	})
	return c, err
}

// run starts the workers when the caches are filled.
func (c *controller) run(ctx context.Context, workers int) {
	go c.informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		return
	}
	for range workers {
		go wait.UntilWithContext(ctx, c.work, time.Second)
	}
}

func (c *controller) enqueue(object any) {
	if name, err := cache.ObjectToName(object); err == nil {
		c.queue.Add(name)
	}
}

// enqueueOwner enqueues the foo that controls an object.
func (c *controller) enqueueOwner(object any) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	owned, ok := object.(metav1.Object)
	if !ok {
		return
	}
	owner := metav1.GetControllerOf(owned)
	if owner == nil || owner.Kind != foo.Kind {
		return
	}
	if owning, exists, err := c.informer.GetIndexer().GetByKey(owned.GetNamespace() + "/" + owner.Name); err == nil && exists {
		c.enqueue(owning)
	}
}

func (c *controller) work(ctx context.Context) {
	for c.next(ctx) {
	}
}

func (c *controller) next(ctx context.Context) bool {
	name, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(name)
	logger := klog.FromContext(ctx)
	if err := c.sync(ctx, name); err != nil {
		logger.Error(err, "Error syncing; requeuing for later retry", "objectReference", name)
		c.queue.AddRateLimited(name)
		return true
	}
	c.queue.Forget(name)
	logger.Info(foo.SyncedLine, "objectName", name)
	return true
}

func (c *controller) sync(ctx context.Context, name cache.ObjectName) error {
	found, exists, err := c.informer.GetIndexer().GetByKey(name.String())
	if err != nil || !exists {
		return err
	}
	owner := found.(*foo.Foo)
	deployment, err := c.deployments.Deployments(owner.Namespace).Get(owner.Spec.DeploymentName)
	if errors.IsNotFound(err) {
		options := metav1.CreateOptions{FieldManager: foo.Component}
		deployment, err = c.kube.AppsV1().Deployments(owner.Namespace).Create(ctx, foo.NewDeployment(owner), options)
	}
	if err != nil {
		return err
	}
	if !metav1.IsControlledBy(deployment, owner) {
		message := fmt.Sprintf(foo.ResourceExistsNote, deployment.Name)
		c.recorder.Event(owner, corev1.EventTypeWarning, foo.ResourceExists, message)
		return fmt.Errorf("%s", message)
	}
	if owner.Spec.Replicas != nil && *owner.Spec.Replicas != *deployment.Spec.Replicas {
		options := metav1.UpdateOptions{FieldManager: foo.Component}
		deployment, err = c.kube.AppsV1().Deployments(owner.Namespace).Update(ctx, foo.NewDeployment(owner), options)
		if err != nil {
			return err
		}
	}
	if owner.Status.AvailableReplicas != deployment.Status.AvailableReplicas {
		changed := owner.DeepCopy()
		changed.Status.AvailableReplicas = deployment.Status.AvailableReplicas
		options := metav1.UpdateOptions{FieldManager: foo.Component}
		if _, err := c.foos.UpdateStatus(ctx, changed, options); err != nil {
			return err
		}
	}
	c.recorder.Event(owner, corev1.EventTypeNormal, foo.Synced, foo.SyncedNote)
	return nil
}
