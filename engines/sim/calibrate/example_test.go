package calibrate_test

import (
	"fmt"
	"math"
	"time"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/engines/sim/calibrate"
)

// Samples from elsewhere can be fitted too: here a table of published figures,
// the time to the first token by length of the prompt and the time between
// tokens by sequences.
func ExampleFit() {
	var s calibrate.Samples
	s.Told.Model = "published-8b"
	for _, row := range []struct {
		tokens int
		ttft   time.Duration
	}{{256, 30 * time.Millisecond}, {1024, 62 * time.Millisecond}, {4096, 190 * time.Millisecond}} {
		s.Prefills = append(s.Prefills, calibrate.Prefill{
			PromptTokens: row.tokens, EnginePromptTokens: row.tokens, TTFTSeconds: row.ttft.Seconds(),
		})
	}
	for _, row := range []struct {
		sequences int
		itl       time.Duration
	}{{1, 10 * time.Millisecond}, {8, 11 * time.Millisecond}, {32, 14 * time.Millisecond}} {
		s.Decodes = append(s.Decodes, calibrate.Decode{
			Sequences: row.sequences, ContextTokens: 300, IntervalSeconds: row.itl.Seconds(),
		})
	}
	m, err := calibrate.Fit(s)
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg := m.Apply(sim.DefaultConfig())
	fmt.Println(cfg.Model, cfg.Timing.Step.Round(time.Millisecond), math.Round(cfg.Timing.PrefillTokensPerSecond/1000), "thousand tokens/s")
	fmt.Println(m.Unknown[0])
	// Output:
	// published-8b 10ms 24 thousand tokens/s
	// max_num_seqs: no waves were measured
}
