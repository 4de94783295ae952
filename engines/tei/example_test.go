package tei_test

import (
	"fmt"

	"github.com/llmgw/llmgw/engines/tei"
)

func Example() {
	c := tei.Metrics()
	fmt.Println(c.Path, c.Prefix)
	fmt.Println(c.Waiting.Names[0])
	fmt.Println("tells what runs:", c.Running.Exported())
	fmt.Println("checks model names:", tei.Capabilities().ChecksModel)
	// Output:
	// /metrics te_
	// te_queue_size
	// tells what runs: false
	// checks model names: false
}
