// Command controller-runtime runs the workqueue workloads on
// controller-runtime's priorityqueue.
package main

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"bowline.dev/bench/peers/go/harness"
)

func main() {
	harness.Main(func(limiter harness.Limiter) harness.Subject {
		// A queue without a name records no metrics: the fastest it can be.
		queue := priorityqueue.New("", func(o *priorityqueue.Opts[types.NamespacedName]) {
			o.RateLimiter = limiter
		})
		return harness.Subject{
			Queue: queue,
			Add: func(frame []types.NamespacedName) {
				queue.AddWithOpts(priorityqueue.AddOpts{}, frame...)
			},
			AddRateLimited: func(frame []types.NamespacedName) {
				queue.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, frame...)
			},
		}
	})
}
