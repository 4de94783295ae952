package feed_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/llmgw/llmgw/fleet/feed"
	"github.com/llmgw/llmgw/placement/catalog"
)

// A control plane and a router in one process. Over a network the router's source
// is NewRemote, and the control plane mounts Publisher.Handler.
func Example() {
	publisher, err := feed.NewPublisher(feed.DefaultPublisherConfig(), feed.PublisherDeps{})
	if err != nil {
		panic(err)
	}
	cfg := feed.DefaultConfig()
	cfg.Router = "edge-1"
	router, err := feed.New(cfg, feed.Deps{Sources: []feed.Source{publisher.Local()}, Reporter: idle{}})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = publisher.Run(ctx) })
	running.Go(func() { _ = router.Run(ctx) })
	defer running.Wait()
	defer cancel()

	// The control plane leads, and says what is so.
	if err := publisher.Lead("prod", 1); err != nil {
		panic(err)
	}
	if err := publisher.SetModels([]catalog.Model{{Name: "qwen3-8b"}}); err != nil {
		panic(err)
	}
	err = publisher.SetEntries([]feed.Entry{{
		Model: "qwen3-8b", Instance: feed.Instance{Replica: "qwen3-8b-1", Generation: 1, Start: "x7"}, Address: "10.0.0.5:20000", Secret: "secret",
	}})
	if err != nil {
		panic(err)
	}

	// The router goes by it, and says so.
	state, changed := router.State()
	for !state.Known() {
		<-changed
		state, changed = router.State()
	}
	for _, e := range state.Entries {
		fmt.Println(e.Model, e.Instance, e.Address, e.Secret)
	}
	router.Applied(state.Version)
	// Output: qwen3-8b qwen3-8b-1/1/x7 10.0.0.5:20000 [redacted]
}
