package exposition_test

import (
	"fmt"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/exposition"
	"github.com/llmgw/llmgw/engines/llamacpp"
	"github.com/llmgw/llmgw/engines/vllm"
)

func Example() {
	page := []byte(`# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 3
# TYPE llamacpp:requests_deferred gauge
llamacpp:requests_deferred 1
`)
	contract, ok := exposition.Detect(page, []engines.MetricContract{vllm.Metrics(), llamacpp.Metrics()})
	if !ok {
		fmt.Println("no engine that we know")
		return
	}
	load, err := exposition.Read(page, contract)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("engine: ", contract.Engine)
	fmt.Println("running:", load.Running)
	fmt.Println("waiting:", load.Waiting)
	fmt.Println("kv used:", load.KVUsedRatio)
	// Output:
	// engine:  llamacpp
	// running: 3
	// waiting: 1
	// kv used: unknown
}
