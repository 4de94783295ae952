package vllm_test

import (
	"fmt"

	"github.com/llmgw/llmgw/engines/vllm"
)

func Example() {
	c := vllm.Metrics()
	fmt.Println(c.Path, c.Prefix)
	fmt.Println(c.Waiting.Names[0])
	fmt.Println("key needed:", c.NeedsKey)
	fmt.Println("checks model names:", vllm.Capabilities().ChecksModel)
	// Output:
	// /metrics vllm:
	// vllm:num_requests_waiting
	// key needed: false
	// checks model names: true
}
