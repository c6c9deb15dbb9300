// Command controller-runtime-foo is the sample controller on
// controller-runtime. It runs until its stdin ends.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"bowline.dev/bench/peers/go/foo"
	"bowline.dev/bench/peers/go/measure"
)

func main() {
	endpoint := flag.String("endpoint", "", "the file that tells where the server is")
	workers := flag.Int("workers", 2, "how many foos are reconciled at once")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.WriteTo(io.Discard)))
	config, err := measure.Config(*endpoint)
	if err != nil {
		measure.Fail(err)
	}
	if err := start(context.Background(), config, *workers); err != nil {
		measure.Fail(err)
	}
	metrics, err := measure.UntilStdinEnds()
	if err != nil {
		measure.Fail(err)
	}
	metrics.Print()
}

func start(ctx context.Context, config *rest.Config, workers int) error {
	scheme := apiruntime.NewScheme()
	if err := clientscheme.AddToScheme(scheme); err != nil {
		return err
	}
	foo.AddToScheme(scheme)
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme,
		// Metrics are recorded, and nobody serves them.
		Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).
		For(&foo.Foo{}).
		Owns(&appsv1.Deployment{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(&reconciler{client: manager.GetClient(), recorder: manager.GetEventRecorder(foo.Component)})
	if err != nil {
		return err
	}
	go func() {
		if err := manager.Start(ctx); err != nil {
			measure.Fail(err)
		}
	}()
	return nil
}

type reconciler struct {
	client   client.Client
	recorder events.EventRecorder
}

// Reconcile does what the sample controller does. Unlike that, it writes a
// status only when it differs.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var owner foo.Foo
	if err := r.client.Get(ctx, request.NamespacedName, &owner); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	deployment := new(appsv1.Deployment)
	key := client.ObjectKey{Namespace: owner.Namespace, Name: owner.Spec.DeploymentName}
	err := r.client.Get(ctx, key, deployment)
	if errors.IsNotFound(err) {
		deployment = foo.NewDeployment(&owner)
		err = r.client.Create(ctx, deployment, client.FieldOwner(foo.Component))
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if !metav1.IsControlledBy(deployment, &owner) {
		message := fmt.Sprintf(foo.ResourceExistsNote, deployment.Name)
		r.recorder.Eventf(&owner, nil, corev1.EventTypeWarning, foo.ResourceExists, "Sync", message)
		return ctrl.Result{}, fmt.Errorf("%s", message)
	}
	if owner.Spec.Replicas != nil && *owner.Spec.Replicas != *deployment.Spec.Replicas {
		deployment.Spec.Replicas = owner.Spec.Replicas
		if err := r.client.Update(ctx, deployment, client.FieldOwner(foo.Component)); err != nil {
			return ctrl.Result{}, err
		}
	}
	if owner.Status.AvailableReplicas != deployment.Status.AvailableReplicas {
		owner.Status.AvailableReplicas = deployment.Status.AvailableReplicas
		if err := r.client.Status().Update(ctx, &owner, client.FieldOwner(foo.Component)); err != nil {
			return ctrl.Result{}, err
		}
	}
	r.recorder.Eventf(&owner, nil, corev1.EventTypeNormal, foo.Synced, "Sync", foo.SyncedNote)
	log.FromContext(ctx).Info(foo.SyncedLine)
	return ctrl.Result{}, nil
}
