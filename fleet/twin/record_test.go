//go:build !race

package twin_test

import (
	order "cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines/sim/workload"
	"github.com/llmgw/llmgw/fleet/twin"
	"github.com/llmgw/llmgw/router/gateway/flight"
	"github.com/llmgw/llmgw/router/schedule"
	"github.com/llmgw/llmgw/storage/record"
)

// recordedRun runs a policy with a log, which it returns the directory of.
func recordedRun(t *testing.T, cfg twin.Config, p twin.Policy, tr *workload.Trace) (string, *twin.Report) {
	t.Helper()
	lc := record.DefaultConfig()
	lc.Dir = t.TempDir()
	lc.BufferBytes, lc.MaxBytes = 64<<20, 512<<20 // room for all, so that nothing is dropped
	log, err := record.New(lc, record.Deps{Key: record.NewKey(), Writer: "test"})
	if err != nil {
		t.Fatal(err)
	}
	tw, err := twin.New(cfg, p, tr)
	if err != nil {
		t.Fatal(err)
	}
	if err := tw.Record(log, log.Key()); err != nil {
		t.Fatal(err)
	}
	r, err := tw.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // writes what there is, and ends
	if err := log.Run(ctx); err != nil {
		t.Fatal(err)
	}
	return lc.Dir, r
}

func replayed(t *testing.T, dir string, opts flight.Options) *flight.Report {
	t.Helper()
	log, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	opts.Profiles = twin.OwnProfiles
	report, err := flight.Replay(t.Context(), log, opts)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func flooded() twin.Config {
	cfg := twin.DefaultConfig()
	cfg.Groups[0].Engines = 3
	cfg.Admission.Enabled = true
	cfg.Tenants = []twin.Tenant{{Name: "chat", Band: "gold", Share: 1}, {Name: "jobs", Band: "bronze", Share: 3}}
	return cfg
}

// Every decision of a recorded run, where it went and when it was let in, comes
// out of the log again byte for byte, whatever the policy.
func TestRecordedRunIsReplayed(t *testing.T) {
	for _, p := range twin.Policies() {
		t.Run(string(p), func(t *testing.T) {
			tr := recorded(t, "mooncake_conversation.jsonl.gz", 60, 20)
			dir, r := recordedRun(t, flooded(), p, tr)
			report := replayed(t, dir, flight.Options{})
			if !report.OK() || len(report.Notes) > 0 || report.Dropped > 0 {
				t.Errorf("%+v\nroutes %+v\nadmission %+v", report, report.Routes.First, report.Admission.First)
			}
			done := r.Completed
			if c := report.Routes; c.Recorded != done || c.Replayed != done || report.Outcomes != done {
				t.Errorf("routes %+v, %d outcomes; want %d", c, report.Outcomes, done)
			}
			if c := report.Admission; c.Replayed != c.Recorded || c.Recorded < 2*done {
				t.Errorf("admission %+v", c)
			}
		})
	}
}

// Another policy on the record: what it would have picked, and what comes of the
// recorded requests when it serves them, which is nearly what comes of the trace
// that was recorded.
func TestOtherPolicyOnARecord(t *testing.T) {
	tr := recorded(t, "mooncake_conversation.jsonl.gz", 150, 4)
	cfg := twin.DefaultConfig()
	dir, was := recordedRun(t, cfg, twin.Random, tr)
	var outcomes []*flight.Outcome
	opts := flight.Options{Outcome: func(o *flight.Outcome) { outcomes = append(outcomes, o) }}
	for _, p := range []twin.Policy{twin.Random, twin.LeastLoaded} {
		opts.Policies = append(opts.Policies, flight.Policy{Name: string(p), Profile: p.Profile})
	}
	report := replayed(t, dir, opts)
	random, least := report.Policies[1], report.Policies[2]
	if random.Changed != 0 || least.Changed < 100 || *least.ExtraLoad >= *random.ExtraLoad {
		t.Errorf("random %+v\nleast-loaded %+v", random, least)
	}
	groups := twin.PoolGroups(report.Pool, "model")
	if len(groups) != 1 || groups[0].Engines != 8 || report.Setup == nil || report.Setup.Scoring != schedule.DefaultConfig() {
		t.Errorf("groups %+v, setup %+v", groups, report.Setup)
	}

	rec, err := twin.FromRecord("record", outcomes)
	if err != nil {
		t.Fatal(err)
	}
	if len(rec.Trace.Requests) != was.Completed || rec.Trace.BlockTokens != tr.BlockTokens || len(rec.LeftOut) != 0 {
		t.Fatalf("%d requests in blocks of %d tokens, left out %v", len(rec.Trace.Requests), rec.Trace.BlockTokens, rec.LeftOut)
	}
	// Those that arrived at the same moment may stand in another order, on which
	// much depends that comes of so few.
	tr, rec.Trace = ordered(tr), ordered(rec.Trace)
	if diff := cmp.Diff(shapes(tr), shapes(rec.Trace)); diff != "" {
		t.Errorf("the trace of the record (-want +got):\n%s", diff)
	}
	if *rec.TTFTP90 != *was.TTFTP90 || math.Abs(*rec.HitShare-*was.HitShare) > 1e-9 {
		t.Errorf("recorded TTFT p90 %v, hits %v; want %v, %v", *rec.TTFTP90, *rec.HitShare, *was.TTFTP90, *was.HitShare)
	}
	again, original := run(t, cfg, twin.Prefix, rec.Trace), run(t, cfg, twin.Prefix, tr)
	if math.Abs(*again.HitShare-*original.HitShare) > 0.01 || math.Abs(*again.TTFTP50 / *original.TTFTP50 - 1) > 0.1 {
		t.Errorf("of the record: hits %v, TTFT p50 %v; of the trace: %v, %v", *again.HitShare, *again.TTFTP50, *original.HitShare, *original.TTFTP50)
	}
}

// ordered is the trace with those that arrive at one moment in the order of their
// lengths.
func ordered(tr *workload.Trace) *workload.Trace {
	out := *tr
	out.Requests = slices.Clone(tr.Requests)
	slices.SortStableFunc(out.Requests, func(a, b workload.Request) int {
		return order.Or(order.Compare(a.At, b.At), order.Compare(a.PromptTokens, b.PromptTokens), order.Compare(a.OutputTokens, b.OutputTokens))
	})
	for i := range out.Requests {
		out.Requests[i].Seq = uint64(i)
	}
	return &out
}

// shapes are a trace's requests without what names them, sorted.
func shapes(tr *workload.Trace) []string {
	var out []string
	for _, r := range tr.Requests {
		out = append(out, fmt.Sprintf("%12d %d %d %d", r.At, r.PromptTokens, r.OutputTokens, len(r.Blocks)))
	}
	slices.Sort(out)
	return out
}

// What cannot be played again is left out and counted.
func TestFromRecordLeavesOut(t *testing.T) {
	known := flight.CountTokens
	list := []*flight.Outcome{
		{Result: "ok", PromptTokens: known(10), OutputTokens: known(1), PromptBytes: 40},
		{Result: "canceled", PromptTokens: known(10), OutputTokens: known(1)},
		{Result: "ok", PromptTokens: known(10)},
		{Result: "ok", PromptTokens: known(10), OutputTokens: known(1 << 40)},
	}
	rec, err := twin.FromRecord("x", list)
	if err != nil {
		t.Fatal(err)
	}
	if len(rec.Trace.Requests) != 1 || len(rec.LeftOut) != 3 || rec.TTFTP50 != nil || rec.HitShare != nil {
		t.Errorf("%+v", rec)
	}
	if _, err := twin.FromRecord("x", list[1:]); !errors.Is(err, twin.ErrNothingRecorded) {
		t.Errorf("%v", err)
	}
}
