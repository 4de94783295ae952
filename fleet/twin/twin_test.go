package twin_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines/sim/workload"
	"github.com/llmgw/llmgw/fleet/twin"
)

// recorded opens the beginning of a trace of the examples.
func recorded(tb testing.TB, name string, requests int, speedup float64) *workload.Trace {
	tb.Helper()
	tr, err := workload.Open("../../examples/traces/"+name, "")
	if err == nil {
		tr, err = tr.First(requests)
	}
	if err == nil {
		tr, err = tr.Speedup(speedup)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return tr
}

// groups draws the workload of 150 groups of 5 users, or fewer.
func groups(tb testing.TB, n, prefix, requests int, rate string) *workload.Trace {
	tb.Helper()
	cfg := workload.DefaultSynthetic()
	cfg.Groups, cfg.UsersPerGroup, cfg.PrefixTokens, cfg.Requests = n, 5, prefix, requests
	for text, to := range map[string]interface{ UnmarshalText([]byte) error }{
		"512": &cfg.Prompt, "128": &cfg.Output, rate: &cfg.Arrivals,
	} {
		if err := to.UnmarshalText([]byte(text)); err != nil {
			tb.Fatal(err)
		}
	}
	tr, err := workload.Synthesize(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return tr
}

func run(tb testing.TB, cfg twin.Config, p twin.Policy, tr *workload.Trace) *twin.Report {
	tb.Helper()
	tw, err := twin.New(cfg, p, tr)
	if err != nil {
		tb.Fatal(err)
	}
	r, err := tw.Run(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// fleet is the default configuration with so many engines.
func fleet(engines int) twin.Config {
	cfg := twin.DefaultConfig()
	cfg.Groups[0].Engines = engines
	return cfg
}

// tenants are three in three bands.
func tenants() []twin.Tenant {
	return []twin.Tenant{{"blue", "platinum", 1}, {"red", "gold", 1}, {"green", "bronze", 2}}
}

// TestConservation: every request ends exactly once, whatever the policy, with
// admission that queues, refuses and expires.
func TestConservation(t *testing.T) {
	tr := recorded(t, "azure2023_conv.csv.gz", 1500, 200)
	for _, p := range twin.Policies() {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			cfg := fleet(2)
			cfg.Admission.Enabled, cfg.Tenants = true, tenants()
			cfg.Admission.QueueCapacityPerBand, cfg.Admission.QueueTTL = 300, 5*time.Second
			cfg.Engine.MaxModelLen = 4000 // so that some are too long
			r := run(t, cfg, p, tr)
			if got := r.Completed + r.Refused.Total(); got != len(tr.Requests) || r.Requests != len(tr.Requests) {
				t.Errorf("%d of %d arrived and %d ended: %+v", r.Requests, len(tr.Requests), got, r.Refused)
			}
			if r.Refused.TooLong == 0 || r.Refused.QueueFull == 0 || r.Refused.Expired == 0 {
				t.Errorf("refused %+v; want some of each, or the test shows nothing", r.Refused)
			}
			byEngine, byTenant, byBand := 0, 0, 0
			for _, e := range r.PerEngine {
				byEngine += e.Requests
				if e.BusyShare < 0 || e.BusyShare > 1 {
					t.Errorf("%s was busy %v of the time", e.ID, e.BusyShare)
				}
			}
			for _, p := range r.Tenants {
				byTenant += p.Completed + p.Refused
			}
			for _, p := range r.Bands {
				byBand += p.Completed + p.Refused
			}
			if byEngine != r.Completed || byTenant != len(tr.Requests)-r.Refused.TooLong || byBand != byTenant {
				t.Errorf("engines %d, tenants %d, bands %d of %d completed", byEngine, byTenant, byBand, r.Completed)
			}
		})
	}
}

// TestStep: a twin can be stopped at any event; its report is of what ended.
func TestStep(t *testing.T) {
	tr := recorded(t, "azure2023_conv.csv.gz", 100, 1)
	tw, err := twin.New(fleet(2), twin.Prefix, tr)
	if err != nil {
		t.Fatal(err)
	}
	last := time.Duration(-1)
	for steps := 0; ; steps++ {
		more, err := tw.Step()
		if err != nil {
			t.Fatal(err)
		}
		if tw.Now() < last {
			t.Fatalf("time went from %v to %v", last, tw.Now())
		}
		last = tw.Now()
		if r := tw.Report(); steps == 200 && (r.Completed > r.Requests || r.Requests > 100) {
			t.Errorf("after %d steps %d of %d completed", steps, r.Completed, r.Requests)
		}
		if !more {
			break
		}
	}
	if r := tw.Report(); r.Completed != 100 {
		t.Errorf("%d of 100 completed", r.Completed)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	tw, err = twin.New(fleet(2), twin.Prefix, tr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tw.Run(ctx); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("a cancelled run: %v", err)
	}
}

// TestTexts: traces that have the prompts themselves share by them.
func TestTexts(t *testing.T) {
	tr := recorded(t, "aibrix_prefix_share_p1024_s128_rps5.jsonl.gz", 192, 4)
	for _, p := range []twin.Policy{twin.Prefix, twin.PrefixExact} {
		r := run(t, fleet(3), p, tr)
		if r.Completed != 192 || *r.HitShare < 0.6 || r.Agreement == nil || *r.Agreement < 0.9 {
			t.Errorf("%s: %d completed, hits %.3f, agreement %v", p, r.Completed, *r.HitShare, *r.Agreement)
		}
	}
}
