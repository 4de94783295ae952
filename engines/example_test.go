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

// What is known of an engine's metrics is data: an engine of one's own needs
// a contract and no code; gateway.Deps takes it.
func ExampleMetricContract() {
	contract := engines.MetricContract{
		Engine: "ours", Path: "/stats", Prefix: "ours_",
		Running: engines.Metric{Names: []string{"ours_running"}, Aggregate: engines.AggregateSum},
		Waiting: engines.Metric{Names: []string{"ours_queue", "ours_waiting"}, Aggregate: engines.AggregateSum},
	}
	fmt.Println(contract.Validate())
	fmt.Println("exports KV use:", contract.KVUsed.Exported())

	contract.Waiting.Aggregate = engines.AggregateUnset
	fmt.Println(contract.Validate())
	// Output:
	// <nil>
	// exports KV use: false
	// waiting: aggregation unset; want sum, max or mean
}

func ExampleName_Known() {
	for _, n := range []engines.Name{"vllm", "auto", "vlm"} {
		fmt.Println(n, n.Known(), n.Detected())
	}
	// Output:
	// vllm true false
	// auto false true
	// vlm false false
}
