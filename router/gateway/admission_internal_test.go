package gateway

import (
	"testing"

	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/endpoint"
)

func newTestAdmitter(tb testing.TB) *admitter {
	tb.Helper()
	cfg := DefaultConfig()
	cfg.Models = []catalog.Model{{Name: "m"}}
	for _, id := range []string{"a", "b"} {
		cfg.Endpoints = append(cfg.Endpoints, Endpoint{Spec: endpoint.Spec{ID: id, URL: "http://" + id, Models: []endpoint.Model{{Name: "m"}}}})
	}
	g, err := New(cfg, Deps{})
	if err != nil {
		tb.Fatal(err)
	}
	return g.admitter
}

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
