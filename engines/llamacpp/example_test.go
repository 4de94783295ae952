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
	can := llamacpp.Capabilities()
	fmt.Println("checks model names:", can.ChecksModel)
	fmt.Println("leaving frees the slot:", can.AbortsOnDisconnect)
	fmt.Println("closes idle connections after", can.KeepAlive)
	// Output:
	// /metrics llamacpp:
	// llamacpp:requests_deferred
	// key needed: true
	// checks model names: false
	// leaving frees the slot: false
	// closes idle connections after 5s
}
