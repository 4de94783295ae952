package workload_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/engines/sim/workload"
)

func small() *workload.Trace {
	return &workload.Trace{BlockTokens: 10, Requests: []workload.Request{
		{PromptTokens: 25, OutputTokens: 4, Blocks: []uint64{70, 71, 72}, Session: "a", Seq: 5, Line: 1},
		{At: time.Second, PromptTokens: 20, OutputTokens: 1, Blocks: []uint64{70, 73}, Seq: 6, Line: 2},
		{At: 4 * time.Second, PromptTokens: 30, OutputTokens: 100, Blocks: nil, Seq: 7, Line: 3},
	}}
}

// change applies a change and checks that the trace it was made from is as it
// was.
func change(t *testing.T, do func(*workload.Trace) (*workload.Trace, error)) *workload.Trace {
	t.Helper()
	from := small()
	to, err := do(from)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(small(), from); diff != "" {
		t.Errorf("the original changed:\n%s", diff)
	}
	if err := to.Validate(); err != nil {
		t.Error(err)
	}
	return to
}

func TestFirst(t *testing.T) {
	got := change(t, func(f *workload.Trace) (*workload.Trace, error) { return f.First(2) })
	if diff := cmp.Diff(small().Requests[:2], got.Requests); diff != "" {
		t.Error(diff)
	}
	_ = append(got.Requests, workload.Request{}) // must not reach the original's third
	if all := change(t, func(f *workload.Trace) (*workload.Trace, error) { return f.First(99) }); len(all.Requests) != 3 {
		t.Errorf("%d requests", len(all.Requests))
	}
}

func TestRepeat(t *testing.T) {
	got := change(t, func(f *workload.Trace) (*workload.Trace, error) { return f.Repeat(2) })
	want := []workload.Request{
		{PromptTokens: 25, OutputTokens: 4, Blocks: []uint64{0, 1, 2}, Session: "a", Seq: 0, Line: 1},
		{At: time.Second, PromptTokens: 20, OutputTokens: 1, Blocks: []uint64{0, 3}, Seq: 1, Line: 2},
		{At: 4 * time.Second, PromptTokens: 30, OutputTokens: 100, Seq: 2, Line: 3},
		{At: 6 * time.Second, PromptTokens: 25, OutputTokens: 4, Blocks: []uint64{4, 5, 6}, Session: "a#2", Seq: 3, Line: 1},
		{At: 7 * time.Second, PromptTokens: 20, OutputTokens: 1, Blocks: []uint64{4, 7}, Seq: 4, Line: 2},
		{At: 10 * time.Second, PromptTokens: 30, OutputTokens: 100, Seq: 5, Line: 3},
	}
	if diff := cmp.Diff(want, got.Requests); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	once, twice := small().Stats(), got.Stats()
	if twice.Blocks != 2*once.Blocks || twice.SeenTokens != 2*once.SeenTokens {
		t.Errorf("shared %d of %d, then %d of %d", once.SeenTokens, once.Blocks, twice.SeenTokens, twice.Blocks)
	}
	change(t, func(f *workload.Trace) (*workload.Trace, error) { return f.Repeat(1) })
}

func TestSpeedup(t *testing.T) {
	got := change(t, func(f *workload.Trace) (*workload.Trace, error) { return f.Speedup(3) })
	want := small().Requests
	want[1].At, want[2].At = 333333333, 1333333333
	if diff := cmp.Diff(want, got.Requests); diff != "" {
		t.Error(diff)
	}
}

// TestScale: blocks scale with the prompts, so what is shared stays shared.
func TestScale(t *testing.T) {
	got := change(t, func(f *workload.Trace) (*workload.Trace, error) { return f.Scale(0.25, 0.1) })
	want := small()
	want.BlockTokens = 3 // of 10, 2.5 rounded
	want.Requests[0].PromptTokens, want.Requests[0].OutputTokens = 3+3+2, 1
	want.Requests[1].PromptTokens, want.Requests[1].OutputTokens = 3+3, 1
	want.Requests[2].PromptTokens, want.Requests[2].OutputTokens = 3+3+3, 10
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	plain := &workload.Trace{Requests: []workload.Request{{PromptTokens: 3, OutputTokens: 1}}}
	got, err := plain.Scale(1.5, 2)
	if err != nil || got.Requests[0].PromptTokens != 5 || got.Requests[0].OutputTokens != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	texts := &workload.Trace{Requests: []workload.Request{{PromptTokens: 3, OutputTokens: 1, Text: "a b c"}}}
	if got, err := texts.Scale(1, 2); err != nil || got.Requests[0].OutputTokens != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWithArrivals(t *testing.T) {
	got := change(t, func(f *workload.Trace) (*workload.Trace, error) {
		return f.WithArrivals(workload.Arrivals{Process: workload.Uniform, Rate: 4}, 1)
	})
	want := small().Requests
	want[1].At, want[2].At = 250*time.Millisecond, 500*time.Millisecond
	if diff := cmp.Diff(want, got.Requests); diff != "" {
		t.Error(diff)
	}
	change(t, func(f *workload.Trace) (*workload.Trace, error) {
		return f.WithArrivals(workload.Arrivals{Process: workload.Poisson, Rate: 4}, 1)
	})
}

func TestChangesRefuse(t *testing.T) {
	texts := &workload.Trace{Requests: []workload.Request{{PromptTokens: 3, OutputTokens: 1, Text: "a b c"}}}
	for _, tt := range []struct {
		name string
		do   func() (*workload.Trace, error)
		want string
	}{
		{"first 0", func() (*workload.Trace, error) { return small().First(0) }, "the first 0 requests; want 1 or more"},
		{"repeat 0", func() (*workload.Trace, error) { return small().Repeat(0) }, "3 requests 0 times; want once or more, and at most 5000000 in all"},
		{"repeat too often", func() (*workload.Trace, error) { return small().Repeat(1 << 26) }, "3 requests 67108864 times"},
		{"repeat too long", func() (*workload.Trace, error) {
			long := small()
			long.Requests[2].At = workload.MaxSpan
			return long.Repeat(2)
		}, "87840h0m0s of trace 2 times; want at most 87840h0m0s in all"},
		{"speed-up 0", func() (*workload.Trace, error) { return small().Speedup(0) }, "speed-up 0; want more than 0"},
		{"speed-up NaN", func() (*workload.Trace, error) { return small().Speedup(math.NaN()) }, "speed-up NaN; want more than 0"},
		{"speed-up infinite", func() (*workload.Trace, error) { return small().Speedup(math.Inf(1)) }, "speed-up +Inf; want more than 0"},
		{"slow-down", func() (*workload.Trace, error) { return small().Speedup(1e-12) }, "speed-up 1e-12 makes 4s longer than 87840h0m0s"},
		{"scale 0", func() (*workload.Trace, error) { return small().Scale(1, 0) }, "scale 1, 0; want more than 0"},
		{"scale below a token a block", func() (*workload.Trace, error) { return small().Scale(0.01, 1) }, "scale 0.01 makes blocks of 10 tokens 0; want 1 to 16777216"},
		{"scale too long", func() (*workload.Trace, error) { return small().Scale(1e6, 1) }, "makes request 0 longer than 16777216 tokens"},
		{"scale answers too long", func() (*workload.Trace, error) { return small().Scale(1, 1e300) }, "makes request 0 longer than 16777216 tokens"},
		{"scale texts", func() (*workload.Trace, error) { return texts.Scale(2, 1) }, "the trace has the texts of its prompts"},
		{"arrivals", func() (*workload.Trace, error) { return small().WithArrivals(workload.Arrivals{Rate: 1}, 0) }, "a rate of 1 but no process"},
		{"arrivals too slow", func() (*workload.Trace, error) {
			long, err := small().Repeat(1000)
			if err != nil {
				return nil, err
			}
			return long.WithArrivals(workload.Arrivals{Process: workload.Uniform, Rate: 1e-6}, 0)
		}, "3000 requests at 1e-06 per second take longer than 87840h0m0s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.do()
			if got != nil || !errors.Is(err, workload.ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

// TestChangesKeepSharing: whatever the factors, a change leaves a valid trace
// whose requests share the same blocks.
func TestChangesKeepSharing(t *testing.T) {
	whole, err := open(t, mooncakeFile).First(100)
	if err != nil {
		t.Fatal(err)
	}
	before := whole.Stats()
	rapid.Check(t, func(rt *rapid.T) {
		prompt := rapid.Float64Range(0.002, 2).Draw(rt, "prompt")
		scaled, err := whole.Scale(prompt, rapid.Float64Range(0.01, 3).Draw(rt, "output"))
		if err != nil {
			rt.Fatal(err)
		}
		fast, err := scaled.Speedup(rapid.Float64Range(0.01, 1000).Draw(rt, "speed-up"))
		if err != nil {
			rt.Fatal(err)
		}
		passes := rapid.IntRange(1, 3).Draw(rt, "passes")
		again, err := fast.Repeat(passes)
		if err != nil {
			rt.Fatal(err)
		}
		if err := again.Validate(); err != nil {
			rt.Fatal(err)
		}
		after := again.Stats()
		if after.Blocks != before.Blocks*int64(passes) || after.SeenBlocks != before.SeenBlocks*int64(passes) {
			rt.Fatalf("%d of %d blocks seen, before %d of %d", after.SeenBlocks, after.Blocks, before.SeenBlocks, before.Blocks)
		}
		if f := after.Prompt.Mean / before.Prompt.Mean * float64(whole.BlockTokens) / float64(scaled.BlockTokens); f < 0.9 || f > 1.1 {
			rt.Fatalf("prompts are %v of what blocks of %d tokens let expect", f, scaled.BlockTokens)
		}
	})
}

func TestValidate(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(*workload.Trace)
		want  string
	}{
		"nothing":         {func(t *workload.Trace) { t.Requests = nil }, "no requests"},
		"starts late":     {func(t *workload.Trace) { t.Requests[0].At = 1 }, "request 0: at 1ns, want 0"},
		"backwards":       {func(t *workload.Trace) { t.Requests[2].At = 1 }, "request 2: at 1ns, before its predecessor at 1s"},
		"before 0":        {func(t *workload.Trace) { t.Requests[0].At = -1 }, "request 0: at -1ns, before"},
		"too long":        {func(t *workload.Trace) { t.Requests[2].At = workload.MaxSpan + 1 }, "want at most"},
		"prompt":          {func(t *workload.Trace) { t.Requests[1].PromptTokens = 0 }, "request 1: prompt tokens: 0, want 1 to 16777216"},
		"output":          {func(t *workload.Trace) { t.Requests[1].OutputTokens = 1<<24 + 1 }, "request 1: output tokens: 16777217, want"},
		"a block more":    {func(t *workload.Trace) { t.Requests[1].PromptTokens = 10 }, "request 1: 2 blocks, want at most 1: 10 tokens in blocks of 10"},
		"no size":         {func(t *workload.Trace) { t.BlockTokens = 0 }, "request 0: it has blocks, but the trace no block tokens"},
		"size below 0":    {func(t *workload.Trace) { t.BlockTokens = -1 }, "block tokens: -1"},
		"numbered wrong":  {func(t *workload.Trace) { t.Requests[1].Seq = 5 }, "request 1: seq 5 stands twice"},
		"size out of all": {func(t *workload.Trace) { t.BlockTokens = 1 << 25 }, "block tokens: 33554432"},
	} {
		t.Run(name, func(t *testing.T) {
			trace := small()
			if err := trace.Validate(); err != nil {
				t.Fatal(err)
			}
			tt.spoil(trace)
			if err := trace.Validate(); !errors.Is(err, workload.ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

// TestStats: a block counts as seen only behind seen ones, and as far as it
// was filled.
func TestStats(t *testing.T) {
	trace := &workload.Trace{BlockTokens: 10, Requests: []workload.Request{
		{PromptTokens: 14, OutputTokens: 1, Blocks: []uint64{1, 2}, Session: "a"},
		{PromptTokens: 30, OutputTokens: 2, Blocks: []uint64{1, 2, 3}, Session: "a", Seq: 1}, // 10 + 4
		{PromptTokens: 30, OutputTokens: 3, Blocks: []uint64{9, 2, 3}, Session: "b", Seq: 2}, // another beginning
		{PromptTokens: 25, OutputTokens: 4, Blocks: []uint64{1, 2, 3}, Seq: 3},               // 25
		{PromptTokens: 25, OutputTokens: 5, Seq: 4},
	}}
	got := trace.Stats()
	want := workload.Stats{
		Requests: 5, Sessions: 2, Blocks: 2 + 3 + 3 + 3 + 3, SeenBlocks: 2 + 3, SeenTokens: 14 + 25,
		Prompt: workload.Summary{Total: 124, Mean: 24.8, Min: 14, P50: 25, P90: 30, P99: 30, Max: 30},
		Output: workload.Summary{Total: 15, Mean: 3, Min: 1, P50: 3, P90: 5, P99: 5, Max: 5},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if share, ok := got.HitShare(); !ok || share != 39./124 {
		t.Errorf("%v, %v", share, ok)
	}
	if share, ok := (workload.Stats{}).HitShare(); ok {
		t.Errorf("a share of %v of nothing", share)
	}
	if diff := cmp.Diff(workload.Stats{}, (&workload.Trace{}).Stats()); diff != "" {
		t.Error(diff)
	}
}
