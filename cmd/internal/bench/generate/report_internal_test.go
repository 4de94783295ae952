package generate

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines/sim/workload"
	"github.com/llmgw/llmgw/router/openai"
)

var update = flag.Bool("update", false, "write the golden files anew") //nolint:gochecknoglobals // a flag of the test binary

// at is a time of the tests, whose measurement begins at 0.
func at(ms int) time.Time {
	return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
}

// streamed is a complete stream of contents at these milliseconds.
func streamed(sent, end int, contents ...int) *sample {
	s := &sample{sent: at(sent), end: at(end), streamed: true, answered: true, finish: true, done: true, contents: len(contents), asked: len(contents)}
	for i, ms := range contents {
		if i == 0 {
			s.first = at(ms)
		} else {
			s.gaps.add(at(ms).Sub(s.last))
		}
		s.last = at(ms)
	}
	s.usage = openai.Usage{PromptTokens: openai.CountOf(10), CompletionTokens: openai.CountOf(int64(len(contents)))}
	return s
}

// filled is a report of a few requests of an open loop.
func filled(t *testing.T) *Report {
	t.Helper()
	r := newRecorder(true, SLO{TTFT: 30 * time.Millisecond, ITL: 15 * time.Millisecond}, at(0))
	add := func(s *sample, due int, interrupted bool) {
		r.begin()
		s.planned = 8
		r.add(s, at(due), interrupted)
	}
	good := streamed(0, 60, 20, 30, 40, 50)
	good.usage.CachedTokens = openai.CountOf(4)
	add(good, 0, false)
	add(streamed(110, 200, 120, 140, 150), 100, false) // sent in time for TTFT, but one gap is too long
	add(streamed(500, 530, 510), 300, false)           // due long before, one token
	bad := streamed(400, 420, 410)
	bad.done, bad.failure = false, &RequestError{Kind: KindNoDone, Message: "no end"}
	add(bad, 400, false)
	add(&sample{sent: at(450), end: at(451), failure: &RequestError{Kind: KindStatus, Status: 429, Code: "slow_down", Message: "later"}}, 450, false)
	left := streamed(460, 470, 465)
	left.cancelled = true
	add(left, 460, false)
	add(&sample{sent: at(-10), end: at(5), failure: &RequestError{Kind: KindDial, Message: "refused"}}, -10, false)
	add(streamed(-20, 6, 1), -20, false)
	add(&sample{sent: at(470), end: at(480), failure: &RequestError{Kind: KindOther, Message: "canceled"}}, 470, true)
	trace := &workload.Trace{Name: "a.jsonl", Format: workload.Mooncake, Requests: make([]workload.Request, 10)}
	for i := range trace.Requests {
		trace.Requests[i].PromptTokens = 8
	}
	rep := &Report{
		Target: "http://a/v1", API: Chat, Model: "m", Stream: true, Workload: newWorkload(trace, true), Seed: 7, Loop: "open",
		StartedAt: at(0), WarmupS: .02, Requests: Requests{Planned: 10},
	}
	r.fill(rep, at(9999))
	return rep
}

func TestReport(t *testing.T) {
	rep := filled(t)
	want := Requests{Planned: 10, WarmUp: 2, WarmUpBad: 1, Complete: 3, Failed: 2, Cancelled: 1, Unfinished: 1, Unsent: 1, Late: new(int64(1))}
	if diff := cmp.Diff(want, rep.Requests); diff != "" {
		t.Error(diff)
	}
	if rep.DurationS != .53 || rep.RequestsPerS != 3/.53 {
		t.Errorf("%v s, %v/s; want from the warm-up to the last end", rep.DurationS, rep.RequestsPerS)
	}
	if diff := cmp.Diff(&Goodput{
		SLO: "ttft=30ms,itl=15ms", RequestsPerS: rep.RequestsPerS / 3, Met: 1, Share: new(.2), Missed: map[string]int64{"ttft": 1, "itl": 1},
	}, rep.Goodput); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&Streams{Begun: 4, Content: 4, FinishReason: 4, Done: 3, Usage: 4, LengthAsAsked: new(int64(4)), Complete: 3}, rep.Streams); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Tokens{
		PromptPlanned: 24, Prompt: new(int64(30)), OutputAsked: 8, Output: new(int64(8)), ContentEvents: new(int64(8)),
		Cached: new(int64(4)), CachedShare: new(.4), CachedAnswers: 1, CachedBest: new(int64(0)),
	}, rep.Tokens); diff != "" {
		t.Error(diff)
	}
	near := func(name string, got, want float64) {
		t.Helper()
		if got < want*.995 || got > want*1.005 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	near("TTFT", rep.TTFT.MaxMS, 20)
	near("TTFT from due", rep.TTFTFromDue.MaxMS, 210)
	near("E2E", rep.E2E.MaxMS, 90)
	near("E2E from due", rep.E2EFromDue.MaxMS, 230)
	near("lag", rep.Lag.MaxMS, 200)
	near("gap", rep.ITL.MaxMS, 20)
	near("TPOT", rep.TPOT.MaxMS, 15)
	if rep.TPOT.Count != 2 || rep.ITL.Count != 5 || rep.Lag.Count != 6 {
		t.Errorf("counts: TPOT %d, gaps %d, lag %d", rep.TPOT.Count, rep.ITL.Count, rep.Lag.Count)
	}
}

// The names of the JSON and the look of the text change only on purpose.
func TestReportIsWritten(t *testing.T) {
	rep := filled(t)
	var text strings.Builder
	if err := rep.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	doc, err := json.MarshalIndent(rep, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	empty := &Report{Target: "http://a/v1", API: Chat, Model: "m", Loop: "closed", Concurrency: new(2)}
	newRecorder(false, SLO{}, at(0)).fill(empty, at(0))
	none, err := json.MarshalIndent(empty, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	for file, got := range map[string]string{"testdata/report.txt": text.String(), "testdata/report.json": string(doc) + "\n", "testdata/empty.json": string(none) + "\n"} {
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-update writes it):\n%s", file, diff)
		}
	}
}

// n requests have n-1 gaps, and a trace that tells of no blocks shares nothing.
func TestWorkloadIsDescribed(t *testing.T) {
	trace := &workload.Trace{Requests: make([]workload.Request, 41)}
	for i := range trace.Requests {
		trace.Requests[i] = workload.Request{At: time.Duration(i) * 50 * time.Millisecond, PromptTokens: 8, OutputTokens: 2}
	}
	w := newWorkload(trace, true)
	if *w.OfferedPerS != 20 || *w.SpanS != 2 || w.BestHitShare == nil || *w.BestHitShare != 0 {
		t.Errorf("%v/s over %v s, at best %v; want 20, 2 and 0", *w.OfferedPerS, *w.SpanS, w.BestHitShare)
	}
}

// A warning is for what the workload, a chat template and requests that
// overtake each other do not explain.
func TestCacheWarning(t *testing.T) {
	for _, tt := range []struct {
		name             string
		reported, cached int64
		planned, seen    int
		want             bool
	}{
		{"nothing cached", 1020, 0, 1000, 0, false},
		{"shared", 1000, 700, 1000, 700, false},
		{"a template of 20", 1020, 20, 1000, 0, false},
		{"overtaken", 1000, 720, 1000, 700, false},
		{"had from before", 1020, 1008, 1000, 0, true},
		{"more than is shared", 1000, 800, 1000, 700, true},
		{"another tokenizer counts less", 900, 890, 1000, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecorder(false, SLO{}, at(0))
			r.begin()
			s := streamed(0, 10, 5)
			s.planned, s.seen = tt.planned, tt.seen
			s.usage.PromptTokens, s.usage.CachedTokens = openai.CountOf(tt.reported), openai.CountOf(tt.cached)
			r.add(s, time.Time{}, false)
			var rep Report
			r.fill(&rep, at(10))
			if got := len(rep.Warnings) == 1; got != tt.want || *rep.Tokens.CachedBest != int64(tt.seen) {
				t.Errorf("warnings %q, best %d", rep.Warnings, *rep.Tokens.CachedBest)
			}
		})
	}
}

// The text says what there is nothing to say about.
func TestReportOfNothing(t *testing.T) {
	text := func(change func(*Report)) string {
		rep := &Report{Target: "http://a/v1", API: Chat, Model: "m", Stream: true, Loop: "closed", Concurrency: new(2)}
		r := newRecorder(false, SLO{}, at(0))
		r.fill(rep, at(10))
		change(rep)
		var b strings.Builder
		if err := rep.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	failed := text(func(r *Report) { r.Requests.Failed = 3 })
	if strings.Contains(failed, "not reported") || !strings.Contains(failed, "no answer was complete: no times and no tokens") {
		t.Errorf("all failed: %s", failed)
	}
	warm := text(func(r *Report) { r.Requests.WarmUp = 3 })
	if !strings.Contains(warm, "nothing was measured: all requests fell in the warm-up") {
		t.Errorf("all in the warm-up: %s", warm)
	}
	unchecked := text(func(r *Report) { r.Streams.Begun = 3 })
	if !strings.Contains(unchecked, "usage 0, length not checked; complete") {
		t.Errorf("no usage: %s", unchecked)
	}
}
