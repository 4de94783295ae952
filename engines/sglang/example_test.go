package sglang_test

import (
	"fmt"

	"github.com/llmgw/llmgw/engines/sglang"
)

func Example() {
	c := sglang.Metrics()
	fmt.Println(c.Path, c.Prefix)
	fmt.Println(c.Waiting.Names[0])
	fmt.Println("key needed:", c.NeedsKey)
	fmt.Println("checks model names:", sglang.Capabilities().ChecksModel)
	// Output:
	// /metrics sglang:
	// sglang:num_queue_reqs
	// key needed: false
	// checks model names: false
}
