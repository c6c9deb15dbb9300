// Command client-go-informer runs the informer scenarios on client-go's
// SharedIndexInformer.
package main

import (
	"flag"
	"fmt"
	"runtime"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"bowline.dev/bench/peers/go/measure"
	"bowline.dev/bench/peers/go/widget"
)

const handlers = 3

func main() {
	task := flag.String("task", "", "sync or events")
	endpoint := flag.String("endpoint", "", "the file that tells where the server is")
	resource := flag.String("resource", "pods", "what to sync: pods or configmaps")
	strip := flag.Bool("strip", false, "drop managedFields on the way in")
	n := flag.Int("n", 20_000, "how many objects the server has")
	updates := flag.Int("updates", 200_000, "how many updates the server sends")
	flag.Parse()
	config, err := measure.Config(*endpoint)
	if err != nil {
		measure.Fail(err)
	}
	var metrics measure.Metrics
	switch *task {
	case "sync":
		metrics, err = syncOnce(config, *resource, *strip, *n)
	case "events":
		metrics, err = events(config, *n, *updates)
	default:
		err = fmt.Errorf("unknown task %q", *task)
	}
	if err != nil {
		measure.Fail(err)
	}
	metrics.Print()
}

// syncOnce starts one informer and measures until it has all objects. It streams
// the list, as is the default, as protobuf, and has no handler.
func syncOnce(config *rest.Config, resource string, strip bool, n int) (measure.Metrics, error) {
	config.ContentType = apiruntime.ContentTypeProtobuf
	config.AcceptContentTypes = apiruntime.ContentTypeProtobuf + "," + apiruntime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	var informer cache.SharedIndexInformer
	switch resource {
	case "pods":
		informer = factory.Core().V1().Pods().Informer()
	case "configmaps":
		informer = factory.Core().V1().ConfigMaps().Informer()
	default:
		return nil, fmt.Errorf("unknown resource %q", resource)
	}
	if strip {
		if err := informer.SetTransform(stripManagedFields); err != nil {
			return nil, err
		}
	}
	before := measure.LiveBytes()

	stopwatch := measure.Start()
	factory.Start(nil)
	waitFor(informer.HasSynced)
	cpu, wall := stopwatch.Stop()

	peak := measure.StatusMiB("VmHWM")
	live := measure.LiveBytes() - before
	settled := measure.SettledMiB()
	if held := len(informer.GetStore().ListKeys()); held < n {
		return nil, fmt.Errorf("%d %s in the store, not %d", held, resource, n)
	}
	runtime.KeepAlive(informer)
	return measure.Metrics{
		"cpu_s": cpu, "wall_s": wall, "rss_peak_mib": peak, "rss_settled_mib": settled,
		"live_bytes_per_object": live / float64(n),
	}, nil
}

// events has handlers count the updates that the replay server sends, and
// measures from the word go until the last handler has seen the last. Widgets
// are decoded from JSON into their struct, as a generated client does.
func events(config *rest.Config, n, updates int) (measure.Metrics, error) {
	scheme := apiruntime.NewScheme()
	widget.AddToScheme(scheme)
	typed := rest.CopyConfig(config)
	typed.GroupVersion = &widget.GroupVersion
	typed.APIPath = "/apis"
	typed.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(typed)
	if err != nil {
		return nil, err
	}
	source := cache.NewListWatchFromClient(client, widget.Resource, "", fields.Everything())
	informer := cache.NewSharedIndexInformer(source, &widget.Widget{}, 0, cache.Indexers{})
	var over sync.WaitGroup
	var synced []func() bool
	counts, changes := make([]int, handlers), make([]int64, handlers)
	for i := range handlers {
		over.Add(1)
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			UpdateFunc: func(_, object any) {
				changes[i] += object.(*widget.Widget).Status.Change
				counts[i]++
				if counts[i] == updates {
					over.Done()
				}
			},
		})
		if err != nil {
			return nil, err
		}
		synced = append(synced, registration.HasSynced)
	}
	go informer.Run(nil)
	for _, hasSynced := range synced {
		waitFor(hasSynced)
	}
	if held := len(informer.GetStore().ListKeys()); held != n {
		return nil, fmt.Errorf("%d widgets in the store, not %d", held, n)
	}

	stopwatch := measure.Start()
	if err := widget.Go(config, 0); err != nil {
		return nil, err
	}
	over.Wait()
	cpu, wall := stopwatch.Stop()

	callbacks, rounds := 0, int64(updates/n)
	for i := range handlers {
		callbacks += counts[i]
		if wanted := int64(n) * rounds * (rounds + 1) / 2; changes[i] != wanted {
			return nil, fmt.Errorf("handler %d saw changes that sum up to %d, not %d", i, changes[i], wanted)
		}
	}
	peak := measure.StatusMiB("VmHWM")
	settled := measure.SettledMiB()
	runtime.KeepAlive(informer)
	return measure.Metrics{
		"events_per_s": float64(updates) / wall, "cpu_s": cpu, "callbacks": float64(callbacks),
		"rss_peak_mib": peak, "rss_settled_mib": settled,
	}, nil
}

func stripManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

// waitFor looks often, unlike cache.WaitForCacheSync, which does so ten times
// a second.
func waitFor(condition func() bool) {
	for !condition() {
		time.Sleep(time.Millisecond)
	}
}
