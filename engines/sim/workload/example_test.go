package workload_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/engines/sim/workload"
)

// A recorded trace, ten times as fast, and the prompt of one of its requests.
func Example() {
	trace, err := workload.Open("../../../examples/traces/mooncake_conversation.jsonl.gz", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	s := trace.Stats()
	share, _ := s.HitShare()
	fmt.Printf("%d requests in %v, %.0f and %.0f tokens, %.1f %% shared\n", s.Requests, s.Duration, s.Prompt.Mean, s.Output.Mean, 100*share)

	trace, err = trace.Speedup(10)
	if err != nil {
		fmt.Println(err)
		return
	}
	prompter := workload.NewPrompter(trace)
	r := &trace.Requests[3000]
	prompt := string(prompter.Append(nil, r))
	fmt.Println(r.At, r.PromptTokens, sim.CountTokens(prompt), prompt[:31])
	// Output:
	// 6000 requests in 31m12s, 12774 and 347 tokens, 35.3 % shared
	// 1m38.7s 12985 12985 ddeskp the red just large us wi
}

// 150 groups of 5 users; the users of a group share 8192 tokens.
func ExampleSynthesize() {
	cfg := workload.DefaultSynthetic()
	cfg.Requests, cfg.Groups, cfg.UsersPerGroup, cfg.PrefixTokens = 3000, 150, 5, 8192
	cfg.Arrivals = workload.Arrivals{Process: workload.Poisson, Rate: 20}
	trace, err := workload.Synthesize(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	s := trace.Stats()
	share, _ := s.HitShare()
	fmt.Printf("%d sessions, %v, at most %.0f %% from a cache\n", s.Sessions, s.Duration.Round(10*time.Second), 100*share)
	// Output: 750 sessions, 2m30s, at most 89 % from a cache
}

func ExampleParseLengths() {
	for _, text := range []string{"512", "100-2000", "lognormal:120:0.8:2048", "lognormal:120"} {
		lengths, err := workload.ParseLengths(text)
		fmt.Println(lengths, err)
	}
	// Output:
	// 512 <nil>
	// 100-2000 <nil>
	// lognormal:120:0.8:2048 <nil>
	//  lengths "lognormal:120": 1 numbers after lognormal; want such as 512, 100-2000, lognormal:120:0.8 or lognormal:120:0.8:2048
}

func ExampleRowError() {
	_, err := workload.Read(strings.NewReader(`{"timestamp":0,"input_length":600,"output_length":9,"hash_ids":[1]}`), "my.jsonl", "")
	fmt.Println(err)
	// Output: my.jsonl:1: hash_ids: 1 ids, want 2: 600 tokens in blocks of 512
}
