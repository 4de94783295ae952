package trtllm_test

import (
	"fmt"

	"github.com/llmgw/llmgw/engines/trtllm"
)

func Example() {
	c := trtllm.Metrics()
	fmt.Println(c.Path, c.Prefix)
	fmt.Println(c.Waiting.Names[0])
	fmt.Println("key needed:", c.NeedsKey)
	fmt.Println("checks model names:", trtllm.Capabilities().ChecksModel)
	// Output:
	// /prometheus/metrics trtllm_
	// trtllm_num_requests_waiting
	// key needed: false
	// checks model names: false
}
