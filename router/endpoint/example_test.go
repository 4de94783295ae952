package endpoint_test

import (
	"fmt"
	"time"

	"github.com/llmgw/llmgw/router/endpoint"
)

func Example() {
	set, err := endpoint.NewSet(endpoint.DefaultConfig(), endpoint.Deps{})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = set.Replace([]endpoint.Spec{
		{ID: "gpu-1", URL: "http://10.0.0.5:8000", Models: []endpoint.Model{{Name: "chat", Upstream: "Qwen/Qwen3-32B"}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Now()
	e := set.Snapshot().ForModel("chat")[0]
	held, err := e.Begin(now)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.ID(), "serves", e.UpstreamModel("chat"), "with", e.InFlight(), "in flight")
	e.CoolDown(now, 5*time.Second) // it answered 429, Retry-After: 5
	held.Release()
	fmt.Println(e.State(now), "with", e.InFlight(), "in flight")
	fmt.Println(e.State(now.Add(5 * time.Second)))
	// Output:
	// gpu-1 serves Qwen/Qwen3-32B with 1 in flight
	// cooling with 0 in flight
	// half-open
}
