package gateway_test

import (
	"strings"
	"testing"

	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/router/routertest"
	"github.com/llmgw/llmgw/router/schedule"
)

// Whoever routes by the profile debug finds each decision in the log, and the
// embedder's recorder hears of the request all the same.
func TestDebugProfileLogsDecisions(t *testing.T) {
	e := newRaw(t, good)
	cfg := config(at("a", e.url, "m", "n"), at("b", e.url))
	cfg.Models = []catalog.Model{{Name: "m", RoutingProfile: schedule.Debug}, {Name: "n"}}
	f := newFleet(t, cfg, func(d *gateway.Deps) {
		d.Caller = routertest.Callers{"k": {Tenant: "acme", Band: "gold"}, "": {}}
	})

	f.do("POST", "/v1/chat/completions", `{"model":"n"}`)
	if got := f.log.String(); strings.Contains(got, `"decision"`) {
		t.Errorf("the profile chat logs decisions:\n%s", got)
	}
	f.do("POST", "/v1/chat/completions", `{"model":"m"}`, "X-Request-Id", "req_1", "Authorization", "Bearer k")
	got := f.log.String()
	for _, want := range []string{
		`"msg":"decision","request":"req_1"`, `"result":"ok"`, `"attempts":1`, `"profile":"debug"`,
		`"tenant":"acme","band":"gold"`,
		`{"scorer":"inflight","weight":2,"vote":`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the log has no %s:\n%s", want, got)
		}
	}
	if n := len(f.records.Outcomes()); n != 2 {
		t.Errorf("%d outcomes recorded, want 2", n)
	}
}

// A profile to build on has the scorers of the configuration it comes from.
func TestConfigProfile(t *testing.T) {
	cfg := gateway.DefaultConfig()
	cfg.Scoring.TargetInflight, cfg.Router.StaleAfter = 3, 77
	p, ok := cfg.Profile(schedule.Batch)
	if !ok || p.Name != schedule.Batch {
		t.Fatalf("%v, %t", p.Name, ok)
	}
	var seen int
	for _, s := range p.Scorers {
		switch s := s.Scorer.(type) {
		case schedule.LeastLoaded:
			seen++
			if s.Target != 3 {
				t.Errorf("target %v", s.Target)
			}
		case schedule.Freshness:
			seen++
			if s.StaleAfter != 77 {
				t.Errorf("stale after %v", s.StaleAfter)
			}
		}
	}
	if seen != 2 {
		t.Errorf("%d of the two scorers are there", seen)
	}
	if _, ok := cfg.Profile("fast"); ok {
		t.Error("there is a profile fast")
	}
}
