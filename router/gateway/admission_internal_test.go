package gateway

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/admission"
	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/endpoint"
)

func newTestGateway(tb testing.TB) *Gateway {
	tb.Helper()
	cfg := DefaultConfig()
	cfg.Admission.Core.Enabled = true
	cfg.Models = []catalog.Model{{Name: "m"}}
	for _, id := range []string{"a", "b"} {
		cfg.Endpoints = append(cfg.Endpoints, Endpoint{Spec: endpoint.Spec{ID: id, URL: "http://" + id, Models: []endpoint.Model{{Name: "m"}}}})
	}
	g, err := New(cfg, Deps{})
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

func newTestAdmitter(tb testing.TB) *admitter { return newTestGateway(tb).admitter }

func pass(tb testing.TB, a *admitter, id *router.Identity) {
	id.Band = ""
	lease, err := a.Admit(tb.Context(), router.Admission{Identity: id, RemoteAddr: "10.1.2.3:4567", Model: "m"})
	if err != nil {
		tb.Fatal(err)
	}
	lease.Release()
}

// A request that need not wait costs one allocation, its lease.
func TestAdmissionAllocs(t *testing.T) {
	a, id := newTestAdmitter(t), new(router.Identity)
	if n := testing.AllocsPerRun(1000, func() { pass(t, a, id) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAdmission(b *testing.B) {
	a, id := newTestAdmitter(b), new(router.Identity)
	b.ReportAllocs()
	for b.Loop() {
		pass(b, a, id)
	}
}

// What an engine says is handed on as it is, and what it does not say as unknown;
// an endpoint that takes no requests is not there.
func TestLoads(t *testing.T) {
	g := newTestGateway(t)
	all := g.endpoints.Snapshot().ForModel("m")
	now := time.Now()
	load := func(pool string) []admission.EndpointLoad {
		var dst admission.Load
		loads{g.endpoints, usual(g.contracts)}.Load(pool, &dst)
		return dst.Endpoints
	}
	same := func(what, pool string, want ...admission.EndpointLoad) {
		t.Helper()
		if diff := cmp.Diff(want, load(pool), cmp.AllowUnexported(admission.Reading{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	known := admission.Read
	b := admission.EndpointLoad{ID: "b", Instance: 2, Weight: 1, InFlight: known(0)}
	same("nothing measured", "m", admission.EndpointLoad{ID: "a", Instance: 1, Weight: 1, InFlight: known(0)}, b)
	same("no such pool", "n")

	place, err := all[0].Begin(now)
	if err != nil {
		t.Fatal(err)
	}
	defer place.Release()
	all[0].SetLoad(&endpoint.LoadState{At: now, InFlight: 3, Load: engines.Load{Running: engines.Read(0), KVUsedRatio: engines.Read(0.5)}})
	same("some measured", "m", admission.EndpointLoad{
		ID: "a", Instance: 1, Weight: 1, InFlight: known(1), MeasuredAt: now, MeasuredInFlight: known(3), Running: known(0), KVUsedRatio: known(0.5),
	}, b)

	all[0].CoolDown(now, time.Hour)
	same("one cools down", "m", b)
}
