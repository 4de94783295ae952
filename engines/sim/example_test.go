package sim_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/llmgw/llmgw/engines/sim"
)

// An engine inside a unit test, without a network.
func Example() {
	engine, err := sim.New(sim.InstantConfig(), sim.Deps{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()

	r := httptest.NewRequest("POST", "/v1/chat/completions",
		strings.NewReader(`{"model":"sim-8b","messages":[{"role":"user","content":"Hello"}],"max_tokens":5}`))
	w := httptest.NewRecorder()
	engine.ServeHTTP(w, r)

	var answer struct {
		Choices []struct {
			Message struct{ Content string }
			Finish  string `json:"finish_reason"`
		}
		Usage struct {
			Completion int `json:"completion_tokens"`
		}
	}
	_ = json.Unmarshal(w.Body.Bytes(), &answer)
	tokens, whole := sim.CheckText(answer.Choices[0].Message.Content)
	fmt.Println(w.Code, answer.Choices[0].Finish, tokens == answer.Usage.Completion, whole)
	// Output: 200 length true true
}

// The core alone: two requests with a common beginning, no time passes.
func ExampleCore() {
	core, err := sim.NewCore(sim.DefaultConfig())
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	prompt := sim.BlockHashes(0, sim.Tokenize(nil, strings.Repeat("a long system prompt ", 500)), 16)
	for range 2 {
		s := core.Submit(now, sim.Request{PromptTokens: 2000, OutputTokens: 10, Blocks: prompt})
		for !s.Finished() {
			_, now = core.Step(now)
		}
		fmt.Printf("cached %d, TTFT %v\n", s.CachedTokens(), s.TTFT().Round(time.Millisecond))
		core.Step(now)
	}
	// Output:
	// cached 0, TTFT 78ms
	// cached 1984, TTFT 10ms
}

func ExampleText() {
	fmt.Println(sim.Text(7, 5))
	fmt.Println(sim.CheckText(sim.Text(7, 5)))
	fmt.Println(sim.CheckText(strings.Replace(sim.Text(7, 5), " ", "  ", 1)))
	// Output:
	// sozo lipi baga soho liri
	// 5 true
	// 1 false
}

func ExampleParseFaults() {
	f, err := sim.ParseFaults(sim.Faults{}, "split_bytes=1; reset_after_events=3")
	fmt.Println(f.SplitBytes, f.ResetAfterEvents, err)
	_, err = sim.ParseFaults(sim.Faults{}, "split_bytes=-1")
	fmt.Println(err)
	// Output:
	// 1 3 <nil>
	// faults.split_bytes: -1 is negative; want 0 (off) or more
}

// Faults come and go while the engine runs; this one is overloaded once.
func ExampleEngine_SetFaults() {
	engine, err := sim.New(sim.InstantConfig(), sim.Deps{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()
	if err := engine.SetFaults(sim.Faults{Script: []sim.Answer{{Status: 429, RetryAfter: "2"}}}); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		r := httptest.NewRequest("POST", "/v1/completions", strings.NewReader(`{"model":"sim-8b","prompt":"Hello","max_tokens":3}`))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		engine.ServeHTTP(w, r)
		fmt.Printf("%d, Retry-After %q\n", w.Code, w.Header().Get("Retry-After"))
	}
	fmt.Println(engine.Stats().GenerationTokens)
	// Output:
	// 429, Retry-After "2"
	// 200, Retry-After ""
	// 3
}
