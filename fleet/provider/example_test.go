package provider_test

import (
	"fmt"
	"time"

	"github.com/llmgw/llmgw/fleet/provider"
)

// A provider is registered, answers, is silent, and is forgotten half an hour later.
func Example() {
	now := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	core := provider.NewCore(provider.DefaultConfig(), now, nil)
	step := func(ev provider.Event) {
		d, err := core.Step(now, ev)
		if err != nil {
			fmt.Println(err)
		}
		for _, n := range d.Notes {
			fmt.Printf("%s %s %v %q\n", now.Format("15:04:05"), n.Provider.Name, n.Change, n.Why)
		}
	}
	step(provider.Register{BaseURL: "http://10.0.0.7:8000/v1", Principal: "ada", Node: "gpu07", Name: "gpu07", NewID: "prov_1"})
	step(provider.Answered{ID: "prov_1", Models: []provider.Listed{{Name: "qwen3"}}})
	v, _ := core.View("prov_1")
	fmt.Println("qwen3 rotates:", v.Rotates("qwen3"))
	for range 2000 {
		now = now.Add(time.Second)
		step(provider.Tick{})
	}
	// Output:
	// 08:00:00 gpu07 registered ""
	// qwen3 rotates: true
	// 08:01:30 gpu07 degraded "its lease ended: node \"gpu07\" has not renewed it for 1m30s"
	// 08:31:30 gpu07 removed "not well since 2026-03-02T08:01:30Z: its lease ended: node \"gpu07\" has not renewed it for 1m30s"
}
