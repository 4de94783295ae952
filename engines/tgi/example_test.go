package tgi_test

import (
	"fmt"

	"github.com/llmgw/llmgw/engines/tgi"
)

func Example() {
	c := tgi.Metrics()
	fmt.Println(c.Path, c.Prefix)
	fmt.Println(c.Waiting.Names[0])
	fmt.Println("key needed:", c.NeedsKey)
	fmt.Println("checks model names:", tgi.Capabilities().ChecksModel)
	// Output:
	// /metrics tgi_
	// tgi_queue_size
	// key needed: false
	// checks model names: false
}
