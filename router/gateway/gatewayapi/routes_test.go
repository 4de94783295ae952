package gatewayapi_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/admission"
	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/router/gateway/gatewayapi"
)

func routes(t *testing.T) gatewayapi.Routes {
	t.Helper()
	cfg := gateway.DefaultConfig()
	cfg.Admission.Core.Enabled = true
	cfg.Models = []catalog.Model{{Name: "m", Aliases: []string{"alias"}, Fallbacks: []string{"n"}}, {Name: "n"}}
	for _, id := range []string{"a", "b"} {
		cfg.Endpoints = append(cfg.Endpoints, gateway.Endpoint{Spec: endpoint.Spec{ID: id, URL: "http://127.0.0.1:9", Models: []endpoint.Model{{Name: "m"}}}})
	}
	g, err := gateway.New(cfg, gateway.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	return gatewayapi.Routes{Gateway: g}
}

func TestExplainRoute(t *testing.T) {
	x, err := routes(t).ExplainRoute(t.Context(), &apipb.ExplainRouteRequest{
		Body: []byte(`{"model":"alias","stream":true,"max_tokens":7,"user":"u","messages":[]}`), Band: new("bronze"),
	})
	if err != nil {
		t.Fatal(err)
	}
	r := x.GetRequest()
	if r.GetModel() != "m" || r.GetAskedModel() != "alias" || !r.GetStream() || r.GetMaxTokens() != 7 || !r.GetSession() || r.PinnedEndpoint != nil || r.GetPath() != "/v1/chat/completions" {
		t.Errorf("request %v", r)
	}
	if x.GetVerdict() != apipb.RouteVerdict_ROUTE_VERDICT_RUNS || x.GetRetries() != 2 || x.GetRetriesLeft() != 20 || len(x.GetTurns()) != 2 {
		t.Errorf("%v", x)
	}
	first, second := x.GetTurns()[0], x.GetTurns()[1]
	a := first.GetAdmission()
	if a.GetFate() != apipb.AdmissionFate_ADMISSION_FATE_PASSES || a.GetBand() != "bronze" || a.GetPriority() != 100 || a.Saturation == nil || a.GetBandCapacity() != 2000 || a.GetQueueTtl().AsDuration().Seconds() != 30 {
		t.Errorf("admission %v", a)
	}
	d := first.GetDecision()
	if d.GetPool() != 2 || len(d.GetCandidates()) != 2 || d.Sample != nil || d.NoEndpoint != nil || d.GetPicker() != "max-score" {
		t.Fatalf("decision %v", d)
	}
	c := d.GetCandidates()[0]
	if c.LoadAge != nil || c.Running != nil || c.Waiting != nil || c.KvUsedRatio != nil || !c.GetStale() || c.Prefix != nil {
		t.Errorf("what nobody has said is not absent: %v", c)
	}
	if len(c.GetVotes()) != 8 || c.GetVotes()[0].GetScorer() != "queue" || c.GetVotes()[0].GetWeight() != 2 {
		t.Errorf("votes %v", c.GetVotes())
	}
	if second.GetCondition() != apipb.RouteTurnCondition_ROUTE_TURN_CONDITION_AFTER_FAILURES || second.GetDecision().NoEndpoint == nil {
		t.Errorf("fallback %v", second)
	}
}

func TestExplainRouteErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		req  *apipb.ExplainRouteRequest
		is   error
		want string
	}{
		"model":     {&apipb.ExplainRouteRequest{Body: []byte(`{"model":"x"}`)}, api.ErrNotFound, "there are m, n"},
		"malformed": {&apipb.ExplainRouteRequest{Body: []byte(`{"model"}`)}, api.ErrInvalid, "at byte 8"},
		"path":      {&apipb.ExplainRouteRequest{Path: new("/metrics"), Body: []byte(`{"model":"m"}`)}, api.ErrInvalid, "want one such as"},
		"band":      {&apipb.ExplainRouteRequest{Band: new("tin"), Body: []byte(`{"model":"m"}`)}, api.ErrInvalid, "there are platinum"},
	} {
		x, err := routes(t).ExplainRoute(t.Context(), tt.req)
		if x != nil || !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, %v", name, x, err)
		}
	}
}

// The numbers of the enums are those of the protocol, so that one is the other.
func TestEnumsAgree(t *testing.T) {
	for v, name := range apipb.RouteVerdict_name {
		if got := "ROUTE_VERDICT_" + upper(gateway.Verdict(v).String()); v > 0 && got != name {
			t.Errorf("%d is %s and %s", v, name, got)
		}
	}
	for v, name := range apipb.AdmissionFate_name {
		if got := "ADMISSION_FATE_" + upper(admission.Fate(v).String()); v > 0 && got != name {
			t.Errorf("%d is %s and %s", v, name, got)
		}
	}
	if gateway.Verdict(len(apipb.RouteVerdict_name)).String() != "unset" || admission.Fate(len(apipb.AdmissionFate_name)).String() != "unset" {
		t.Error("there is one that the protocol has not")
	}
}

func upper(s string) string { return strings.ReplaceAll(strings.ToUpper(s), " ", "_") }
