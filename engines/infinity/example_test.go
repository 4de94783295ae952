package infinity_test

import (
	"fmt"

	"github.com/llmgw/llmgw/engines/infinity"
)

func Example() {
	can := infinity.Capabilities()
	fmt.Println("checks model names:", can.ChecksModel)
	fmt.Println("closes idle connections after", can.KeepAlive)
	// Output:
	// checks model names: true
	// closes idle connections after 5s
}
