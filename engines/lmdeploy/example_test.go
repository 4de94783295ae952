package lmdeploy_test

import (
	"fmt"

	"github.com/llmgw/llmgw/engines/lmdeploy"
)

func Example() {
	c := lmdeploy.Metrics()
	fmt.Println(c.Path, c.Prefix)
	fmt.Println(c.Waiting.Names[0])
	fmt.Println("key needed:", c.NeedsKey)
	fmt.Println("checks model names:", lmdeploy.Capabilities().ChecksModel)
	// Output:
	// /metrics lmdeploy:
	// lmdeploy:num_requests_waiting
	// key needed: false
	// checks model names: true
}
