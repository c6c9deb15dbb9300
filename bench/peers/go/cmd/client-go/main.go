// Command client-go runs the workqueue workloads on client-go's util/workqueue.
package main

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"bowline.dev/bench/peers/go/harness"
)

func main() {
	harness.Main(func(limiter harness.Limiter) harness.Subject {
		// A queue without a name records no metrics: the fastest it can be.
		queue := workqueue.NewTypedRateLimitingQueue(limiter)
		// It takes keys one at a time only.
		return harness.Subject{
			Queue: queue,
			Add: func(frame []types.NamespacedName) {
				for _, key := range frame {
					queue.Add(key)
				}
			},
			AddRateLimited: func(frame []types.NamespacedName) {
				for _, key := range frame {
					queue.AddRateLimited(key)
				}
			},
		}
	})
}
