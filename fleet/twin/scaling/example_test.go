package scaling_test

import (
	"context"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/fleet/twin/scaling"
)

func Example() {
	// A model that is asked for once a second, for ten minutes of a day.
	rates := scaling.NewRates("made", map[string][]scaling.Window{"office": {{Start: 9 * time.Hour, PerSecond: 1, CV: 1}}})
	cfg := scaling.DefaultConfig()
	cfg.Engine.MaxModelLen = 8192
	cfg.Sizes = []scaling.Size{{Name: "8b", Cards: 1, LoadTime: time.Minute, Speed: 1}}
	cfg.Models = []scaling.Model{{Name: "chat", Client: "office", Size: "8b", Static: 1, Max: 1}}
	for _, p := range []scaling.Policy{scaling.Static, scaling.OnDemand} {
		t, err := scaling.New(cfg, p, rates)
		if err != nil {
			panic(err)
		}
		r, err := t.Run(context.Background())
		if err != nil {
			panic(err)
		}
		fmt.Printf("%-9s %4.1f card-hours, %d loads, most in time: %t\n", r.Policy, r.CardHours, r.Loads, *r.GoodShare >= 0.85)
	}
	// Output:
	// static    24.0 card-hours, 0 loads, most in time: true
	// on-demand  0.4 card-hours, 1 loads, most in time: true
}
