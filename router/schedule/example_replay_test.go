package schedule_test

import (
	"fmt"
	"time"

	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/schedule"
)

// A decision is written down, and asked later what load alone would have picked.
func ExampleScheduler_Replay() {
	set, err := endpoint.NewSet(endpoint.DefaultConfig(), endpoint.Deps{})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = set.Replace([]endpoint.Spec{
		{ID: "warm", URL: "http://10.0.0.5:8000", Models: []endpoint.Model{{Name: "chat"}}},
		{ID: "idle", URL: "http://10.0.0.6:8000", Models: []endpoint.Model{{Name: "chat"}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	pool := set.Snapshot().ForModel("chat")
	pool[0].Reserve()

	byLoad := schedule.Profile{
		Name:    "by-load",
		Scorers: []schedule.Weighted{{Scorer: schedule.LeastLoaded{Target: 8}, Weight: 1}},
		Picker:  schedule.MaxScore{},
	}
	s, err := schedule.New(schedule.DefaultConfig(), schedule.Deps{
		Profiles: []schedule.Profile{byLoad},
		Prefixes: holding{{Endpoint: pool[0], Bytes: 18000}}, // of 20,000
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	var rec schedule.Decision
	req := &schedule.Request{Model: "chat", Prompt: new("the index's own"), Now: time.Now()}
	e, held, err := s.Decide(schedule.Chat, req, pool, nil, &rec)
	if err != nil {
		fmt.Println(err)
		return
	}
	held.Release()
	fmt.Println("went to", e.ID())
	log, err := rec.AppendBinary(nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	var read schedule.Decision
	if err := read.UnmarshalBinary(log); err != nil {
		fmt.Println(err)
		return
	}
	for _, profile := range []string{"", "by-load"} {
		i, err := s.Replay(profile, &read)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(read.Profile, "picks", pool[i].ID()) // both were candidates, in the pool's order
	}
	// Output:
	// went to warm
	// chat picks warm
	// by-load picks idle
}
