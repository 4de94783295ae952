package simtest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/engines/sim/simtest"
)

// An engine and its client without sockets.
func ExampleNetwork() {
	var network simtest.Network
	l, err := network.Listen("engine:80")
	if err != nil {
		fmt.Println(err)
		return
	}
	engine, err := sim.New(sim.InstantConfig(), sim.Deps{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = engine.Close() }()
	server := &http.Server{Handler: engine}
	go func() { _ = server.Serve(l) }()
	defer func() { _ = server.Close() }()

	client := &http.Client{Transport: &http.Transport{DialContext: network.Dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://engine/health", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, resp.Body)
	fmt.Println(resp.StatusCode, err)
	// Output: 200 <nil>
}
