package plugin_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/plugin"
)

// The main of an adapter's program.
func ExampleServe() {
	plugin.Serve(&adapter{})
}

// A program that runs adapters.
func ExampleHost() {
	cfg := plugin.DefaultConfig()
	cfg.Dir = "/usr/lib/llmgw/adapters"
	host, err := plugin.New(cfg, plugin.Deps{})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = host.Run(ctx) })
	defer running.Wait()
	defer cancel()

	ours, err := host.Adapter("ours")
	if err != nil {
		log.Print(err) // says what to do
		return
	}
	shape, err := ours.Validate(ctx, engines.Profile{Engine: "ours", Model: "/models/m", ServedNames: []string{"m"}})
	log.Print(shape, err)
}

// An adapter as hosts see it, without a process.
func ExampleLoopback() {
	far, stop, err := plugin.Loopback(&adapter{})
	if err != nil {
		log.Fatal(err)
	}
	defer stop()
	d, err := far.Describe(context.Background())
	fmt.Println(d.Title, err)
	_, err = far.Validate(context.Background(), engines.Profile{Engine: "ours", Model: "m"})
	fmt.Println(err)
	// Output:
	// Ours <nil>
	// ours: profile cannot run: served_names: is empty; name what callers ask for, such as the model's name in the catalog
}
