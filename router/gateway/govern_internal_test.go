package gateway

import (
	"net/http"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/openai"
	"github.com/llmgw/llmgw/storage"
)

func TestCountTokens(t *testing.T) {
	const chat = "/v1/chat/completions"
	used := func(prompt, completion int64) openai.Usage {
		return openai.Usage{PromptTokens: openai.CountOf(prompt), CompletionTokens: openai.CountOf(completion)}
	}
	tests := []struct {
		name          string
		o             router.Outcome
		source        storage.Source
		input, output int64
	}{
		{"whole, said", router.Outcome{Result: router.ResultOK, Usage: used(7, 2), HasUsage: true, Events: 9}, storage.SourceEngine, 7, 2},
		{"left, said so far", router.Outcome{Result: router.ResultCanceled, Usage: used(7, 150), HasUsage: true, Events: 151}, storage.SourcePartial, 7, 150},
		{"left, said at its begin", router.Outcome{Result: router.ResultCanceled, Usage: used(7, 1), HasUsage: true, Events: 151}, storage.SourceCounted, 7, 150},
		{"cut, not said", router.Outcome{Result: router.ResultCut, Events: 151, PromptBytes: 40}, storage.SourceCounted, 10, 150},
		{"whole, not said", router.Outcome{Result: router.ResultOK, Events: 153, PromptBytes: 40}, storage.SourceCounted, 10, 150},
		{"a document, not said", router.Outcome{Result: router.ResultOK, TextBytes: 400, PromptBytes: 41}, storage.SourceEstimated, 11, 100},
		{"sound", router.Outcome{Result: router.ResultOK, BytesOut: 400, PromptBytes: 40}, storage.SourceEstimated, 10, 0},
		{"left before anything came", router.Outcome{Result: router.ResultCanceled, PromptBytes: 40}, storage.SourceEstimated, 10, 0},
		{"embeddings", router.Outcome{Work: router.WorkRead, Result: router.ResultOK, TextBytes: 4000, PromptBytes: 40}, storage.SourceEstimated, 10, 0},
		{"embeddings, said", router.Outcome{Work: router.WorkRead, Result: router.ResultOK, Usage: openai.Usage{TotalTokens: openai.CountOf(9)}, HasUsage: true}, storage.SourceEngine, 9, 0},
		{"no answer said", router.Outcome{Result: router.ResultOK, Usage: openai.Usage{PromptTokens: openai.CountOf(7)}, HasUsage: true, TextBytes: 400}, storage.SourceEstimated, 7, 100},
		{"no answer said, of pieces", router.Outcome{Result: router.ResultOK, Usage: openai.Usage{PromptTokens: openai.CountOf(7)}, HasUsage: true, Events: 153}, storage.SourceCounted, 7, 150},
		{"no prompt said", router.Outcome{Result: router.ResultOK, Usage: openai.Usage{CompletionTokens: openai.CountOf(2)}, HasUsage: true, Events: 153, PromptBytes: 40}, storage.SourceEstimated, 10, 2},
		{"nothing but a sum", router.Outcome{Result: router.ResultOK, Usage: openai.Usage{TotalTokens: openai.CountOf(9)}, HasUsage: true, TextBytes: 400, PromptBytes: 40}, storage.SourceEstimated, 10, 100},
		{"a part and the sum", router.Outcome{Result: router.ResultOK, Usage: openai.Usage{PromptTokens: openai.CountOf(7), TotalTokens: openai.CountOf(9)}, HasUsage: true, TextBytes: 400}, storage.SourceEngine, 7, 2},
		{"a sum that is none", router.Outcome{Result: router.ResultOK, Usage: openai.Usage{PromptTokens: openai.CountOf(7), TotalTokens: openai.CountOf(2)}, HasUsage: true, TextBytes: 400}, storage.SourceEstimated, 7, 100},
		{"embeddings, nonsense said", router.Outcome{Work: router.WorkRead, Result: router.ResultOK, Usage: openai.Usage{CompletionTokens: openai.CountOf(0)}, HasUsage: true, PromptBytes: 40}, storage.SourceEstimated, 10, 0},
		{"counting tokens", router.Outcome{Work: router.WorkNone, Result: router.ResultOK, TextBytes: 400, PromptBytes: 40}, storage.SourceNone, 0, 0},
		{"the engine refused", router.Outcome{Result: router.ResultEngineRefused, PromptBytes: 40}, storage.SourceNone, 0, 0},
		{"engines failed", router.Outcome{Result: router.ResultFailed, PromptBytes: 40}, storage.SourceNone, 0, 0},
		{"refused here", router.Outcome{Result: router.ResultRefused, Attempts: -1, PromptBytes: 40}, storage.SourceNone, 0, 0},
		{"left in the queue", router.Outcome{Result: router.ResultCanceled, Attempts: -1, PromptBytes: 40}, storage.SourceNone, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := tt.o
			o.Path = chat
			if o.Attempts++; o.Work == router.WorkUnset {
				o.Work = router.WorkAnswer
			}
			if c := countTokens(&o); c.source != tt.source || c.input != tt.input || c.output != tt.output {
				t.Errorf("%v, %d and %d; want %v, %d and %d", c.source, c.input, c.output, tt.source, tt.input, tt.output)
			}
		})
	}
}

// Whatever an engine says within what was asked of it, it costs no more than was
// reserved.
func TestWorstIsTheWorst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		small := rapid.Int64Range(0, 5000)
		cached := catalog.Money(small.Draw(t, "cached"))
		m := catalog.Model{
			Name: "m", ContextTokens: small.Draw(t, "context"), MaxOutputTokens: small.Draw(t, "most"),
			Prices: []catalog.Price{{Input: catalog.Money(small.Draw(t, "input")), CachedInput: &cached, Output: new(catalog.Money(small.Draw(t, "output")))}},
		}
		e := router.Estimate{
			Work: rapid.SampledFrom([]router.Work{router.WorkRead, router.WorkAnswer}).Draw(t, "work"), Answers: rapid.Int64Range(1, 4).Draw(t, "answers"),
			BodyBytes: small.Draw(t, "bytes"), MaxTokens: small.Draw(t, "max"), Bounded: rapid.Bool().Draw(t, "bounded"), Refers: rapid.Bool().Draw(t, "refers"), Several: rapid.Bool().Draw(t, "several"),
			Pairs: rapid.Int64Range(0, 5).Draw(t, "pairs"),
		}
		e.Bounded = e.Bounded && e.MaxTokens > 0 // as a router has it
		at := time.Unix(0, 0)
		worst, known := worstOf(&m, &e, at)
		if !known {
			if m.ContextTokens > 0 || m.MaxOutputTokens > 0 || e.Bounded || e.Work == router.WorkRead {
				t.Fatal("there is a bound")
			}
			return
		}
		// What an engine may say.
		window := m.ContextTokens * e.Answers
		input := e.BodyBytes + e.Pairs*pairTokens
		windowed := m.ContextTokens > 0 && !e.Several
		if e.Refers && windowed {
			input = window
		}
		input = rapid.Int64Range(0, input).Draw(t, "prompt")
		if windowed {
			input = min(input, window)
		}
		output := int64(0)
		if e.Work == router.WorkAnswer {
			switch {
			case e.Bounded:
				output = e.MaxTokens * e.Answers
			case m.MaxOutputTokens > 0:
				output = max(m.MaxOutputTokens, e.MaxTokens) * e.Answers // an engine may read what bounds nothing elsewhere
			default:
				output = window
			}
			if windowed {
				output = min(output, max(0, window-input))
			}
		}
		price, _ := priceAt(&m, at)
		hit := rapid.Int64Range(0, input).Draw(t, "hit")
		if cost := price.Cost(storage.Tokens{Input: &input, CachedInput: &hit, Output: &output}); cost > worst {
			t.Fatalf("%d tokens in and %d out cost %d, more than %d", input, output, cost, worst)
		}
	})
}

// Who comes again costs nothing to know, but for the first time.
func TestIdentifyAllocs(t *testing.T) {
	g, err := New(DefaultConfig(), Deps{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig()
	cfg.Models = []catalog.Model{{Name: "a/m", Aliases: []string{"m"}}, {Name: "b/n"}}
	if err := g.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	v := &governor{models: &g.models, log: g.log}
	id := auth.NewIdentity(storage.Key{ID: "k", Models: []string{"m", "a/*"}, CreatedAt: time.Unix(1, 0)})
	r := (&http.Request{Header: http.Header{}}).WithContext(auth.NewContext(t.Context(), id))
	allowed := 0
	if n := testing.AllocsPerRun(100, func() {
		who, err := v.Identify(r)
		if err == nil && who.MayUse("a/m") && !who.MayUse("b/n") && !who.MayUse("m") && who.Tenant == "k" {
			allowed++
		}
	}); n != 0 || allowed != 101 {
		t.Errorf("%v allocations; right %d times", n, allowed)
	}
	if other := auth.NewIdentity(storage.Key{ID: "k", Models: []string{"b/n"}}); !v.callers.get(other, v.newCaller).mayUse("b/n") {
		t.Error("the key was changed, and what it was counts still")
	}
}

// What is remembered of callers has a bound.
func TestCallersAreBounded(t *testing.T) {
	v := &governor{models: &models{}}
	for range maxCallers + 10 {
		v.callers.get(auth.NewIdentity(storage.Key{ID: "k"}), v.newCaller)
	}
	n := 0
	v.callers.known.Range(func(any, any) bool { n++; return true })
	if n > maxCallers {
		t.Errorf("%d are remembered", n)
	}
}
