package llamacpp_test

import (
	"fmt"

	"github.com/llmgw/llmgw/engines/llamacpp"
)

func Example() {
	c := llamacpp.Metrics()
	fmt.Println(c.Path, c.Prefix)
	fmt.Println(c.Waiting.Names[0])
	fmt.Println("key needed:", c.NeedsKey)
	fmt.Println("checks model names:", llamacpp.Capabilities().ChecksModel)
	// Output:
	// /metrics llamacpp:
	// llamacpp:requests_deferred
	// key needed: true
	// checks model names: false
}
