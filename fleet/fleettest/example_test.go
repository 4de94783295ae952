package fleettest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/llmgw/llmgw/fleet/control"
	"github.com/llmgw/llmgw/fleet/fleettest"
)

// Three agents come to a control plane, and one of them falls silent.
func Example() {
	plane, err := control.New(control.DefaultConfig(), control.Deps{Authority: leader{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle(plane.Handler())
	server := httptest.NewUnstartedServer(mux)
	control.Configure(server.Config)
	server.Start()
	fleet, err := fleettest.New(fleettest.Config{URL: server.URL, Nodes: 3})
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	var running sync.WaitGroup
	running.Go(func() { _ = plane.Run(ctx) })
	running.Go(func() { fleet.Run(ctx) })
	// The streams end before the server, whose Close waits for what is under way.
	defer server.Close()
	defer running.Wait()
	defer cancel()

	changes := plane.Watch()
	defer changes.Close()
	// until waits for what the plane makes of the agents' messages.
	until := func(so func() bool) {
		for !so() {
			if _, err := changes.Next(ctx); err != nil {
				fmt.Println(err)
				return
			}
		}
	}
	connected := func() (n int) {
		for _, node := range plane.Nodes() {
			if node.Connected {
				n++
			}
		}
		return n
	}
	until(func() bool { return connected() == 3 })
	fmt.Println(connected(), "are connected")

	fleet.Agent("node-2").Silence(true)
	fleet.Agent("node-2").Cut()
	until(func() bool { return connected() == 2 })
	node, _ := plane.Node("node-2")
	fmt.Println(node.ID, "has no stream, and is", node.State)
	// Output:
	// 3 are connected
	// node-2 has no stream, and is ready
}
