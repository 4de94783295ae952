package controlplane_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/control"
	"github.com/llmgw/llmgw/fleet/controlplane"
	"github.com/llmgw/llmgw/fleet/fleettest"
	"github.com/llmgw/llmgw/storage/sqlite"
)

// A program that is a control plane: agents dial it, and it orders one of them to
// start an engine, sees it ready, and orders its end.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "fleet-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	storing := sqlite.DefaultConfig()
	storing.Path = filepath.Join(dir, "fleet.db")
	store, err := sqlite.New(storing, sqlite.Deps{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := store.Open(ctx); err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()
	cfg := controlplane.DefaultConfig()
	cfg.Cluster = "prod"
	// Verify and a listener with TLS hold agents to their certificates: package pki.
	plane, err := controlplane.New(cfg, controlplane.Deps{Store: store, Holder: "an example"})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle(plane.Handler())
	server := &http.Server{Handler: mux} //nolint:gosec // Configure sets the timeouts
	control.Configure(server)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	// In earnest: llmgw agent, with servers: [http://…]. This one starts no process.
	agents, err := fleettest.New(fleettest.Config{URL: "http://" + listener.Addr().String(), Nodes: 1})
	if err != nil {
		fmt.Println(err)
		return
	}

	var running sync.WaitGroup
	running.Go(func() { _ = store.Run(ctx) })
	running.Go(func() { _ = server.Serve(listener) })
	running.Go(func() { _ = plane.Run(ctx) })
	running.Go(func() { agents.Run(ctx) })
	defer running.Wait()
	defer func() { _ = server.Close() }()
	defer cancel() // first: it ends Run, and with it the streams

	changes := plane.Control().Watch()
	defer changes.Close()
	// until waits for what the node's messages bring.
	until := func(so func(control.Node) bool) error {
		for {
			if node, there := plane.Control().Node("node-1"); there && so(node) {
				return nil
			}
			if _, err := changes.Next(ctx); err != nil {
				return err
			}
		}
	}
	if err := until(func(n control.Node) bool { return n.Connected }); err != nil {
		fmt.Println(err)
		return
	}

	chat := engines.ShardID{Replica: "chat-1"}
	answer, err := plane.Control().Start(ctx, "node-1", engines.ShardSpec{
		ID: chat, Generation: 1, // one higher for every start of the replica
		Profile: engines.Profile{Engine: engines.Sim, Model: "qwen-32b", ServedNames: []string{"qwen-32b"}},
	})
	if err != nil { // *control.RefusedError says why, and what to do
		fmt.Println(err)
		return
	}
	fmt.Println("begun in term", answer.Term)
	is := func(want engines.ShardState) func(control.Node) bool {
		return func(n control.Node) bool {
			shard, there := n.Shard(chat)
			return there && shard.State == want
		}
	}
	if err := until(is(engines.ShardReady)); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("ready") // the status has the address at which it serves

	stop := control.Stop{Shard: chat, Generation: 1, Reason: "enough", Drain: time.Minute}
	if _, err := plane.Control().Stop(ctx, "node-1", stop); err != nil {
		fmt.Println(err)
		return
	}
	if err := until(is(engines.ShardStopped)); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("stopped")
	// Output:
	// begun in term 1
	// ready
	// stopped
}
