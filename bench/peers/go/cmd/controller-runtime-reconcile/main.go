// Command controller-runtime-reconcile runs the scenarios about reconcilers on
// controller-runtime.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"bowline.dev/bench/peers/go/measure"
	"bowline.dev/bench/peers/go/widget"
)

func main() {
	task := flag.String("task", "", "throughput or latency")
	endpoint := flag.String("endpoint", "", "the file that tells where the server is")
	n := flag.Int("n", 20_000, "how many objects the server has")
	workers := flag.Int("workers", 1, "how many of them are reconciled at once")
	rounds := flag.Int("rounds", 5, "how often each is reconciled once more")
	rate := flag.Int("rate", 2_000, "how many updates a second the server sends")
	warmup := flag.Int("warmup", 1_000, "how many updates do not count")
	samples := flag.Int("samples", 10_000, "how many updates count after that")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.WriteTo(io.Discard)))
	config, err := measure.Config(*endpoint)
	if err != nil {
		measure.Fail(err)
	}
	var metrics measure.Metrics
	switch *task {
	case "throughput":
		metrics, err = throughput(config, *workers, *n, *rounds)
	case "latency":
		metrics, err = latency(config, *workers, *n, *rate, *warmup, *samples)
	default:
		err = fmt.Errorf("unknown task %q", *task)
	}
	if err != nil {
		measure.Fail(err)
	}
	metrics.Print()
}

// throughput has each object reconciled this number of times after the first. Events
// come from outside the API server, of each object once a round, and the next
// round starts when all of one are reconciled.
func throughput(config *rest.Config, workers, n, rounds int) (measure.Metrics, error) {
	triggers := make(chan event.TypedGenericEvent[*widget.Widget])
	var entered atomic.Int64
	over := make(chan struct{}, 1)
	reconciler := func(cached client.Client) reconcile.Func {
		return func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
			var found widget.Widget
			if err := cached.Get(ctx, request.NamespacedName, &found); err != nil {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			if entered.Add(1)%int64(n) == 0 {
				over <- struct{}{}
			}
			return reconcile.Result{}, nil
		}
	}
	if err := start(config, workers, triggers, reconciler); err != nil {
		return nil, err
	}
	<-over
	widgets := make([]*widget.Widget, n)
	for i := range widgets {
		key := widget.Key(i)
		widgets[i] = &widget.Widget{}
		widgets[i].Namespace, widgets[i].Name = key.Namespace, key.Name
	}

	stopwatch := measure.Start()
	for range rounds {
		for _, one := range widgets {
			triggers <- event.TypedGenericEvent[*widget.Widget]{Object: one}
		}
		<-over
	}
	cpu, wall := stopwatch.Stop()

	if count := entered.Load(); count != int64(n*(rounds+1)) {
		return nil, fmt.Errorf("%d reconciles, not %d", count, n*(rounds+1))
	}
	return measure.Metrics{"reconciles_per_s": float64(n*rounds) / wall, "cpu_s": cpu}, nil
}

// latency measures from when the server sends an update until the reconciler
// is called for it.
func latency(config *rest.Config, workers, n, rate, warmup, samples int) (measure.Metrics, error) {
	var initial atomic.Int64
	ready, latencies := make(chan struct{}), make(chan time.Duration, warmup+samples)
	reconciler := func(cached client.Client) reconcile.Func {
		return func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
			now := time.Now().UnixNano()
			var found widget.Widget
			if err := cached.Get(ctx, request.NamespacedName, &found); err != nil {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			sent, err := strconv.ParseInt(found.Status.Sent, 10, 64)
			if err != nil {
				return reconcile.Result{}, err
			}
			if sent == 0 {
				if initial.Add(1) == int64(n) {
					close(ready)
				}
				return reconcile.Result{}, nil
			}
			select {
			case latencies <- time.Duration(now - sent):
			default:
			}
			return reconcile.Result{}, nil
		}
	}
	if err := start(config, workers, nil, reconciler); err != nil {
		return nil, err
	}
	<-ready
	if err := widget.GoStamped(config, rate); err != nil {
		return nil, err
	}
	all := make([]time.Duration, 0, samples)
	for i := range warmup + samples {
		if one := <-latencies; i >= warmup {
			all = append(all, one)
		}
	}
	slices.Sort(all)
	percentile := func(percent int) float64 {
		return float64(all[(len(all)-1)*percent/100].Nanoseconds()) / 1e6
	}
	return measure.Metrics{"p50": percentile(50), "p90": percentile(90)}, nil
}

// start runs a manager with one controller of widgets, as programs do. It
// knows the kind without asking: the server tells of nothing else.
func start(
	config *rest.Config,
	workers int,
	triggers chan event.TypedGenericEvent[*widget.Widget],
	reconciler func(client.Client) reconcile.Func,
) error {
	scheme := apiruntime.NewScheme()
	widget.AddToScheme(scheme)
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme,
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(widget.GroupVersion.WithKind("Widget"), meta.RESTScopeNamespace)
			return mapper, nil
		},
		// Metrics are recorded, and nobody serves them.
		Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	builder := ctrl.NewControllerManagedBy(manager).
		For(&widget.Widget{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers})
	if triggers != nil {
		builder = builder.WatchesRawSource(source.Channel(
			triggers, &handler.TypedEnqueueRequestForObject[*widget.Widget]{},
		))
	}
	if err := builder.Complete(reconciler(manager.GetClient())); err != nil {
		return err
	}
	go func() {
		if err := manager.Start(context.Background()); err != nil {
			measure.Fail(err)
		}
	}()
	return nil
}
