// Package harness runs the workqueue workloads on any queue with client-go's
// typed interface, so that every Go subject does exactly the same work.
//
// Each run is one process: it takes the workload and the number of keys from
// the command line, and prints one line of JSON with what it measured.
package harness

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"bowline.dev/bench/peers/go/measure"
)

// Queue is what both peers offer.
type Queue = workqueue.TypedRateLimitingInterface[types.NamespacedName]

// Limiter decides the delays of rate-limited adds.
type Limiter = workqueue.TypedRateLimiter[types.NamespacedName]

// Subject is a queue, and the fastest way it has to take a frame of keys.
// A frame is not changed after it was added, so a queue may keep it.
type Subject struct {
	Queue          Queue
	Add            AddFrame
	AddRateLimited AddFrame
}

// AddFrame adds all keys of a frame, in their order.
type AddFrame func(frame []types.NamespacedName)

const (
	// frame is how many keys the -frames workloads add at a time: a page of
	// a list, the biggest burst that an informer hands to its handlers.
	frame         = 500
	adders        = 2
	workers       = 2
	duplicateKeys = 10_000
	namespaces    = 100
)

// Main runs the workload named on the command line and prints its metrics.
func Main(newSubject func(Limiter) Subject) {
	workload := flag.String("workload", "", "ping-pong, distinct, duplicates, rate-limited (these three also with -frames behind) or waiting")
	n := flag.Int("n", 1_000_000, "keys to push through the queue")
	flag.Parse()
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](5*time.Millisecond, 1000*time.Second)
	subject := newSubject(limiter)
	queue := subject.Queue
	empty := func(int64) bool { return queue.Len() == 0 }

	var metrics measure.Metrics
	switch *workload {
	case "ping-pong":
		metrics = pingPong(queue, *n)
	case "distinct":
		metrics = concurrently(queue, makeKeys(*n, *n), each(queue.Add), all(*n))
	case "distinct-frames":
		metrics = concurrently(queue, makeKeys(*n, *n), subject.Add, all(*n))
	case "duplicates":
		metrics = concurrently(queue, makeKeys(*n, duplicateKeys), each(queue.Add), empty)
	case "duplicates-frames":
		metrics = concurrently(queue, makeKeys(*n, duplicateKeys), subject.Add, empty)
	case "rate-limited":
		metrics = concurrently(queue, makeKeys(*n, *n), each(queue.AddRateLimited), all(*n))
	case "rate-limited-frames":
		metrics = concurrently(queue, makeKeys(*n, *n), subject.AddRateLimited, all(*n))
	case "waiting":
		metrics = waiting(queue, *n)
	default:
		fmt.Fprintf(os.Stderr, "unknown workload %q\n", *workload)
		os.Exit(2)
	}
	metrics.Print()
}

// each adds one key a call.
func each(add func(types.NamespacedName)) AddFrame {
	return func(frame []types.NamespacedName) {
		for _, key := range frame {
			add(key)
		}
	}
}

func all(n int) func(int64) bool {
	return func(handled int64) bool { return handled == int64(n) }
}

// makeKeys returns n keys with the given number of distinct ones: a namespace of 12
// characters out of a hundred, a name of 24.
func makeKeys(n, distinct int) []types.NamespacedName {
	pool := namespacePool()
	keys := make([]types.NamespacedName, n)
	for i := range keys {
		keys[i] = key(pool, i%distinct)
	}
	return keys
}

func namespacePool() []string {
	pool := make([]string, namespaces)
	for i := range pool {
		pool[i] = fmt.Sprintf("namespace-%02d", i)
	}
	return pool
}

func key(pool []string, i int) types.NamespacedName {
	return types.NamespacedName{Namespace: pool[i%namespaces], Name: fmt.Sprintf("deployment-web-%09d", i)}
}

func pingPong(queue Queue, n int) measure.Metrics {
	keys := makeKeys(1000, 1000)
	return measured(n, func() {
		for left := n; left > 0; left -= len(keys) {
			for _, key := range keys[:min(left, len(keys))] {
				queue.Add(key)
				item, _ := queue.Get()
				queue.Done(item)
			}
		}
	})
}

// concurrently times the adders and the workers running at once, from the
// first add until over says that the last hand-out is done.
func concurrently(queue Queue, keys []types.NamespacedName, add AddFrame, over func(handled int64) bool) measure.Metrics {
	frames := slices.Collect(slices.Chunk(keys, frame))
	runtime.GC()
	return measured(len(keys), func() {
		var working, adding sync.WaitGroup
		var handled atomic.Int64
		for range workers {
			working.Go(func() {
				for {
					item, shutdown := queue.Get()
					if shutdown {
						return
					}
					queue.Done(item)
					handled.Add(1)
				}
			})
		}
		for a := range adders {
			adding.Go(func() {
				for i := a; i < len(frames); i += adders {
					add(frames[i])
				}
			})
		}
		adding.Wait()
		for !over(handled.Load()) {
			time.Sleep(100 * time.Microsecond)
		}
		queue.ShutDown()
		working.Wait()
	})
}

func waiting(queue Queue, n int) measure.Metrics {
	pool := namespacePool()
	for i := range n {
		queue.Add(key(pool, i))
	}
	for queue.Len() < n {
		time.Sleep(time.Millisecond)
	}
	peak := measure.StatusMiB("VmHWM")
	settled := measure.SettledMiB()
	runtime.KeepAlive(queue)
	return measure.Metrics{"rss_settled_mib": settled, "rss_peak_mib": peak}
}

func measured(n int, work func()) measure.Metrics {
	stopwatch := measure.Start()
	work()
	cpu, wall := stopwatch.Stop()
	return measure.Metrics{"keys_per_s": float64(n) / wall, "cpu_s": cpu}
}
