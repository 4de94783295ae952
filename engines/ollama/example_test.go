package ollama_test

import (
	"fmt"

	"github.com/llmgw/llmgw/engines/ollama"
)

func Example() {
	fmt.Println("checks model names:", ollama.Capabilities().ChecksModel)
	// Output:
	// checks model names: true
}
