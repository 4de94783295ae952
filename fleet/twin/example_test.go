package twin_test

import (
	"context"
	"fmt"

	"github.com/llmgw/llmgw/engines/sim/workload"
	"github.com/llmgw/llmgw/fleet/twin"
)

func Example() {
	// 40 groups of 5 users; each group's prompts begin with the same 8,192 tokens.
	w := workload.DefaultSynthetic()
	w.Requests, w.Groups, w.UsersPerGroup, w.PrefixTokens = 400, 40, 5, 8192
	w.Arrivals = workload.Arrivals{Process: workload.Poisson, Rate: 12}
	trace, err := workload.Synthesize(w)
	if err != nil {
		panic(err)
	}
	cfg := twin.DefaultConfig()
	cfg.Groups[0].Engines = 4
	for _, p := range []twin.Policy{twin.Random, twin.Prefix} {
		t, err := twin.New(cfg, p, trace)
		if err != nil {
			panic(err)
		}
		r, err := t.Run(context.Background())
		if err != nil {
			panic(err)
		}
		fmt.Printf("%-6s %d completed, most of the prompts cached: %t\n", r.Policy, r.Completed, *r.HitShare > 0.6)
	}
	// Output:
	// random 400 completed, most of the prompts cached: false
	// prefix 400 completed, most of the prompts cached: true
}
