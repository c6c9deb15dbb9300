// Command controller-runtime-cache reads from controller-runtime's cached
// client while the replay server sends updates.
package main

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"bowline.dev/bench/peers/go/measure"
	"bowline.dev/bench/peers/go/widget"
)

const (
	groupField = "spec.group"
	// stride is between what is read one after another, apart is how far
	// apart readers start, and batch is the number of reads between two readings of
	// the time. The readers written in Rust do the same.
	stride = 7_919
	apart  = 1_000_003
	reads  = 64
)

func main() {
	task := flag.String("task", "", "get or index")
	endpoint := flag.String("endpoint", "", "the file that tells where the server is")
	n := flag.Int("n", 20_000, "how many objects the server has")
	group := flag.Int("group", 100, "how many of them are of one group")
	readers := flag.Int("readers", 2, "how many read at once")
	rate := flag.Int("rate", 2_000, "how many updates a second the server sends")
	milliseconds := flag.Int("milliseconds", 3_000, "how long to read")
	flag.Parse()
	log.SetLogger(logr.Discard())
	config, err := measure.Config(*endpoint)
	if err != nil {
		measure.Fail(err)
	}
	cached, err := synced(context.Background(), config)
	if err != nil {
		measure.Fail(err)
	}
	keys, err := keys(cached, *n)
	if err != nil {
		measure.Fail(err)
	}
	var read func(i int) error
	switch *task {
	case "get":
		read = func(i int) error {
			var found widget.Widget
			return cached.Get(context.Background(), keys[pick(i, len(keys))], &found)
		}
	case "index":
		groups := make([]string, *n / *group)
		for i := range groups {
			groups[i] = fmt.Sprintf("group-%04d", i)
		}
		read = func(i int) error {
			var found widget.WidgetList
			of := client.MatchingFields{groupField: groups[pick(i, len(groups))]}
			if err := cached.List(context.Background(), &found, of); err != nil {
				return err
			}
			if len(found.Items) != *group {
				return fmt.Errorf("%d widgets in a group, not %d", len(found.Items), *group)
			}
			return nil
		}
	default:
		measure.Fail(fmt.Errorf("unknown task %q", *task))
	}
	if err := widget.Go(config, *rate); err != nil {
		measure.Fail(err)
	}
	reads, err := readAll(*readers, time.Duration(*milliseconds)*time.Millisecond, read)
	if err != nil {
		measure.Fail(err)
	}
	var first widget.Widget
	if err := cached.Get(context.Background(), keys[0], &first); err != nil {
		measure.Fail(err)
	}
	if first.Status.Change == 0 {
		measure.Fail(fmt.Errorf("no update was seen while reading"))
	}
	measure.Metrics{"reads_per_s": reads}.Print()
}

// synced gives the client that a manager would give, which reads from a cache
// that has all widgets, and an index of their groups.
func synced(ctx context.Context, config *rest.Config) (client.Client, error) {
	scheme := apiruntime.NewScheme()
	widget.AddToScheme(scheme)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(widget.GroupVersion.WithKind("Widget"), meta.RESTScopeNamespace)
	informers, err := cache.New(config, cache.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, err
	}
	byGroup := func(object client.Object) []string { return []string{object.(*widget.Widget).Spec.Group} }
	if err := informers.IndexField(ctx, &widget.Widget{}, groupField, byGroup); err != nil {
		return nil, err
	}
	go func() {
		if err := informers.Start(ctx); err != nil {
			measure.Fail(err)
		}
	}()
	if !informers.WaitForCacheSync(ctx) {
		return nil, fmt.Errorf("the cache did not sync")
	}
	options := client.Options{Scheme: scheme, Mapper: mapper, Cache: &client.CacheOptions{Reader: informers}}
	return client.New(config, options)
}

// keys of all widgets, by their numbers.
func keys(cached client.Client, n int) ([]types.NamespacedName, error) {
	var all widget.WidgetList
	if err := cached.List(context.Background(), &all); err != nil {
		return nil, err
	}
	if len(all.Items) != n {
		return nil, fmt.Errorf("%d widgets in the cache, not %d", len(all.Items), n)
	}
	keys := make([]types.NamespacedName, n)
	for i := range keys {
		keys[i] = widget.Key(i)
	}
	return keys, nil
}

// readAll has all readers read for so long, and gives how often they did in a
// second.
func readAll(readers int, long time.Duration, read func(i int) error) (float64, error) {
	var reading sync.WaitGroup
	rates, errs := make([]float64, readers), make([]error, readers)
	for reader := range readers {
		reading.Go(func() {
			start, count := time.Now(), 0
			for {
				for range reads {
					if err := read(reader*apart + count); err != nil {
						errs[reader] = err
						return
					}
					count++
				}
				if passed := time.Since(start); passed >= long {
					rates[reader] = float64(count) / passed.Seconds()
					return
				}
			}
		})
	}
	reading.Wait()
	sum := 0.0
	for reader := range readers {
		if errs[reader] != nil {
			return 0, errs[reader]
		}
		sum += rates[reader]
	}
	return sum, nil
}

// pick is the index that read number i reads, below n.
func pick(read, many int) int {
	return read % many * stride % many
}
