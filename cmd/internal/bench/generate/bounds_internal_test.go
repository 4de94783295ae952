package generate

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/bench/measure"
	"github.com/llmgw/llmgw/router/openai"
)

// What answers keep together is bounded, small ones have it free, and what is
// released can be had again.
func TestBudget(t *testing.T) {
	pool := newBudget(100)
	a, b := kept{of: pool}, kept{of: pool}
	for i, step := range []struct {
		of    *kept
		bytes int
		fits  bool
	}{{&a, freeBytes, true}, {&a, freeBytes + 60, true}, {&a, 7, true}, {&b, freeBytes + 41, false}, {&b, freeBytes + 40, true}, {&a, freeBytes + 61, false}} {
		if err := step.of.hold(step.bytes); (err == nil) != step.fits || err != nil && !errors.Is(err, errTooLong) {
			t.Errorf("step %d: %v", i, err)
		}
	}
	a.release()
	a.release()
	if err := b.hold(freeBytes + 100); err != nil {
		t.Error(err)
	}
	b.release()
	if left := pool.left.Load(); left != 100 {
		t.Errorf("%d left of 100", left)
	}
	if err := new(kept).hold(math.MaxInt); err != nil {
		t.Errorf("without a budget: %v", err)
	}
}

// Streams that together keep too much are left, and the next ones are not.
func TestEventsShareABudget(t *testing.T) {
	pool := newBudget(400 << 10)
	piece := []byte("data: " + strings.Repeat("x", 200<<10))
	streams := make([]events, 3)
	for i := range streams {
		streams[i].kept.of = pool
		err := streams[i].feed(piece, func(facts) error { return nil })
		if fits := i < 2; fits != (err == nil) || err != nil && !errors.Is(err, errTooLong) {
			t.Errorf("stream %d: %v", i, err)
		}
	}
	for i := range streams {
		streams[i].reset()
	}
	if left := pool.left.Load(); left != 400<<10 || cap(streams[0].pending) > freeBytes {
		t.Errorf("%d left, %d kept", left, cap(streams[0].pending))
	}
}

// Any number of gaps is counted, and takes no more room for being large.
func TestGaps(t *testing.T) {
	var g gaps
	for range 2 {
		const n = 3 * maxGapList
		for i := range n {
			g.add(time.Duration(i) * time.Microsecond)
		}
		var h measure.Histogram
		g.addTo(&h)
		median, _ := h.Quantile(.5)
		if want := n / 2 * time.Microsecond; h.Count() != n || g.longest != (n-1)*time.Microsecond || !g.any || (median-want).Abs() > want/100 {
			t.Errorf("%d gaps, longest %v, median %v", h.Count(), g.longest, median)
		}
		if len(g.list) != maxGapList {
			t.Errorf("%d kept one by one", len(g.list))
		}
		g = g.emptied()
		if len(g.list) != 0 || g.any || g.longest != 0 || g.rest.Count() != 0 {
			t.Errorf("emptied: %+v", g)
		}
	}
}

func TestBadUsage(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{}`, ""},
		{`{"usage":null}`, ""},
		{`{"usage" : null, "choices":[]}`, ""},
		{`{"usage":{}}`, ""},
		{`{"usage":{"prompt_tokens":null,"prompt_tokens_details":null}}`, ""},
		{`{"usage":{"prompt_tokens":7,"completion_tokens":2.0,"total_tokens":"9","prompt_tokens_details":{"cached_tokens":0}}}`, ""},
		{`{"usage":{"prompt_tokens":1099511627776}}`, ""},
		{`{"usage":{"prompt_tokens":7,"note":-1}}`, ""},
		{`{"choices":[{"text":"\"usage\":{\"prompt_tokens\":-1}"}]}`, ""},
		{`{"choices":[{"usage":{"prompt_tokens":-1}}]}`, ""},
		{`{"usage":7}`, `usage is no object: "7"`},
		{`{"usage":{"prompt_tokens":1099511627777}}`, `usage.prompt_tokens is "1099511627777"; want a whole number of 0 to 1099511627776`},
		{`{"usage":{"completion_tokens":-1}}`, `usage.completion_tokens is "-1"`},
		{`{"usage":{"completion_tokens":1e400}}`, `usage.completion_tokens is "1e400"`},
		{`{"usage":{"total_tokens":"NaN"}}`, `usage.total_tokens is`},
		{`{"usage":{"total_tokens":1.5}}`, `usage.total_tokens is "1.5"`},
		{`{"usage":{"total_tokens":{}}}`, `usage.total_tokens is "{}"`},
		{`{"usage":{"prompt_tokens_details":7}}`, `usage.prompt_tokens_details is no object`},
		{`{"usage":{"prompt_tokens_details":{"cached_tokens":9007199254740992}}}`, `usage.prompt_tokens_details.cached_tokens is "9007199254740992"`},
	} {
		if got := badUsage([]byte(tt.in)); !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", tt.in, got, tt.want)
		}
	}
}

// Sums stop at the most that they can hold: none becomes negative.
func TestSumsSaturate(t *testing.T) {
	r := newRecorder(false, SLO{}, at(0))
	for range 3 {
		r.begin()
		s := streamed(0, 10, 5)
		s.usage = openai.Usage{PromptTokens: openai.CountOf(1 << 62), CompletionTokens: openai.CountOf(1 << 62), CachedTokens: openai.CountOf(1 << 62)}
		r.add(s, time.Time{}, false)
	}
	rep := Report{Stream: true}
	r.fill(&rep, at(10))
	for _, n := range []int64{*rep.Tokens.Prompt, *rep.Tokens.Output, *rep.Tokens.Cached} {
		if n != math.MaxInt64 {
			t.Errorf("a sum of %d", n)
		}
	}
	if share := *rep.Tokens.CachedShare; share != 1 {
		t.Errorf("share %v", share)
	}
	if text := fmt.Sprint(rep.Warnings); strings.Contains(text, "-") {
		t.Error(text)
	}
}
