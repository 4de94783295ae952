package workload_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/engines/sim/workload"
)

func TestSeenTokens(t *testing.T) {
	for _, tt := range []struct {
		name  string
		trace workload.Trace
		want  []int
	}{
		{"nothing is told", workload.Trace{Requests: []workload.Request{{PromptTokens: 8}, {PromptTokens: 8}}}, []int{0, 0}},
		{"blocks", workload.Trace{BlockTokens: 4, Requests: []workload.Request{
			{PromptTokens: 8, Blocks: []uint64{1, 2}},
			{PromptTokens: 9, Blocks: []uint64{1, 2, 3}},
			{PromptTokens: 6, Blocks: []uint64{1, 3}},
		}}, []int{0, 8, 4}},
		// Of 10 bytes for 20 tokens.
		{"texts", workload.Trace{Requests: []workload.Request{
			{PromptTokens: 20, Text: "abcdefghij"},
			{PromptTokens: 20, Text: "abcde-----"},
			{PromptTokens: 20, Text: "abcdef----"},
			{PromptTokens: 20, Text: "abcdefghij"},
			{PromptTokens: 20, Text: "bcdefghij-"},
		}}, []int{0, 10, 12, 20, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.trace.SeenTokens()
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSeenTextsIsTheLongestBeginning: as comparing each text with all before it.
func TestSeenTextsIsTheLongestBeginning(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		trace := &workload.Trace{}
		for range rapid.IntRange(1, 12).Draw(rt, "requests") {
			text := rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 1, 8, -1).Draw(rt, "text")
			trace.Requests = append(trace.Requests, workload.Request{PromptTokens: len(text), Text: text})
		}
		want := make([]int, len(trace.Requests))
		for i := range trace.Requests {
			for j := range i {
				n, a, b := 0, trace.Requests[i].Text, trace.Requests[j].Text
				for n < min(len(a), len(b)) && a[n] == b[n] {
					n++
				}
				want[i] = max(want[i], n)
			}
		}
		if diff := cmp.Diff(want, trace.SeenTokens()); diff != "" {
			rt.Fatalf("%+v: %s", trace.Requests, diff)
		}
	})
}

// TestTextsTellWhatIsShared: AIBrix's generator gave its prompts a common
// beginning of about 1,024 of 1,153 tokens; there are several of them.
func TestTextsTellWhatIsShared(t *testing.T) {
	trace := open(t, aibrixFile)
	s := trace.Stats()
	share, ok := s.HitShare()
	if !ok || share < 0.5 || share > 0.95 || s.Texts != len(trace.Requests) || s.Blocks != 0 {
		t.Errorf("%.3f, %t of %+v", share, ok, s)
	}
	twice, err := trace.Repeat(2)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := twice.Stats().HitShare(); again < (1+share)/2-1e-3 {
		t.Errorf("texts that come again: %.3f, want %.3f", again, (1+share)/2)
	}
}

// TestSeeds: with another seed nothing of a trace is said again, and what its
// requests share among themselves stays.
func TestSeeds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		trace := &workload.Trace{BlockTokens: rapid.IntRange(1, 40).Draw(rt, "block")}
		for seq := range uint64(2) {
			trace.Requests = append(trace.Requests, drawRequest(rt, trace.BlockTokens, seq))
		}
		seed := rapid.Uint64Range(0, 1<<40).Draw(rt, "seed")
		p := workload.NewPrompter(trace).Seeded(seed)
		other := workload.NewPrompter(trace).Seeded(seed + rapid.Uint64Range(1, 1000).Draw(rt, "step"))
		a, b := &trace.Requests[0], &trace.Requests[1]
		x, y := promptOf(rt, p, a), promptOf(rt, p, b)
		if got, want := commonWords(x, y), sharedTokens(a, b, trace.BlockTokens); got != want {
			rt.Fatalf("%d words in common, want %d:\n%s\n%s", got, want, x, y)
		}
		for _, r := range []*workload.Request{a, b} {
			if z := promptOf(rt, other, r); commonWords(x, z) > 0 {
				rt.Fatalf("two seeds begin alike:\n%s\n%s", x, z)
			}
		}
	})
	trace := open(t, aibrixFile)
	r := &trace.Requests[0]
	if got := string(workload.NewPrompter(trace).Seeded(7).Append(nil, r)); got != r.Text {
		t.Errorf("a text of the trace became %q", got)
	}
	p := workload.NewPrompter(&workload.Trace{})
	same := &workload.Request{PromptTokens: 12, Seq: 3}
	if a, b := string(p.Append(nil, same)), string(p.Seeded(0).Append(nil, same)); a != b || strings.Count(a, " ") != 11 {
		t.Errorf("seed 0 is not the one of NewPrompter: %q, %q", a, b)
	}
}
