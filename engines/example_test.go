package engines_test

import (
	"fmt"

	"github.com/llmgw/llmgw/engines"
)

// A missing measurement is not a measurement of zero.
func ExampleReading() {
	load := engines.Load{Running: engines.Read(0)}
	fmt.Println("running:", load.Running)
	fmt.Println("waiting:", load.Waiting)
	// Output:
	// running: 0
	// waiting: unknown
}
