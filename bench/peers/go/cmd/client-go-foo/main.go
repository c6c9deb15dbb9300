// Command client-go-foo is the sample controller on client-go alone. It runs
// until its stdin ends.
package main

import (
	"context"
	"flag"
	"io"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"bowline.dev/bench/peers/go/foo"
	"bowline.dev/bench/peers/go/measure"
)

func main() {
	endpoint := flag.String("endpoint", "", "the file that tells where the server is")
	workers := flag.Int("workers", 2, "how many foos are synced at once")
	flag.Parse()
	logToNowhere()
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

// logToNowhere makes lines as they are by default, and drops them.
func logToNowhere() {
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			measure.Fail(err)
		}
	}
	klog.SetOutput(io.Discard)
}

func start(ctx context.Context, config *rest.Config, workers int) error {
	foos, err := foo.NewForConfig(config)
	if err != nil {
		return err
	}
	builtin := rest.CopyConfig(config)
	builtin.ContentType = apiruntime.ContentTypeProtobuf
	builtin.AcceptContentTypes = apiruntime.ContentTypeProtobuf + "," + apiruntime.ContentTypeJSON
	kube, err := kubernetes.NewForConfig(builtin)
	if err != nil {
		return err
	}
	// The sample has a resync of half a minute, which would be more work
	// than others do.
	factory := informers.NewSharedInformerFactory(kube, 0)
	controller, err := newController(ctx, kube, foos, factory.Apps().V1().Deployments(), foos.Informer())
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	go controller.run(ctx, workers)
	return nil
}
