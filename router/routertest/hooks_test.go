package routertest_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/openai"
	"github.com/llmgw/llmgw/router/routertest"
)

func TestCallers(t *testing.T) {
	callers := routertest.Callers{"k1": {Tenant: "t1"}}
	r := httptest.NewRequest("POST", "/", nil)
	if _, err := callers.Identify(r); err == nil {
		t.Error("a request without a key is let through")
	}
	r.Header.Set("Authorization", "Bearer k1")
	if id, err := callers.Identify(r); err != nil || id.Tenant != "t1" {
		t.Errorf("got %v, %v; want t1", id.Tenant, err)
	}
	if _, err := (routertest.Callers{}).Identify(r); err != nil {
		t.Error(err)
	}
	may := routertest.Only("a")
	if !may("a") || may("b") {
		t.Error("Only allows what it should not")
	}
}

func TestMeter(t *testing.T) {
	m := &routertest.Meter{Limit: 1}
	first, err := m.Charge(t.Context(), router.Estimate{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Charge(t.Context(), router.Estimate{})
	if e, ok := errors.AsType[*openai.Error](err); !ok || e.Status != 429 {
		t.Errorf("got %v, want 429", err)
	}
	first.Settle(nil)
	first.Settle(nil)
	if m.Charged() != 1 || m.Settled() != 2 || m.Open() != 0 {
		t.Errorf("charged %d, settled %d, open %d", m.Charged(), m.Settled(), m.Open())
	}
}

func TestGateLetsSoManyRun(t *testing.T) {
	var g routertest.Gate
	g.SetPlaces(2)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			lease, err := g.Admit(t.Context(), router.Admission{})
			if err != nil {
				t.Error(err)
				return
			}
			if n := g.Running(); n > 2 {
				t.Errorf("%d run at a time", n)
			}
			lease.Release()
		})
	}
	wg.Wait()
	if g.Running() != 0 || g.Waiting() != 0 || g.Admitted() != 50 || g.Released() != 50 {
		t.Errorf("running %d, waiting %d, admitted %d, released %d", g.Running(), g.Waiting(), g.Admitted(), g.Released())
	}
	g.SetPlaces(-1)
	ctx, cancel := context.WithCancelCause(t.Context())
	left := errors.New("left")
	cancel(left)
	if _, err := g.Admit(ctx, router.Admission{}); !errors.Is(err, left) {
		t.Errorf("got %v", err)
	}
}

func TestLogWaits(t *testing.T) {
	var l routertest.Log
	go l.Record(&router.Outcome{ID: "1", Identity: &router.Identity{Tenant: "t"}})
	o, err := l.Wait(t.Context(), 0)
	if err != nil || o.ID != "1" || o.Identity.Tenant != "t" || len(l.Outcomes()) != 1 {
		t.Errorf("got %+v, %v", o, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Wait(ctx, 1); err == nil {
		t.Error("waited for nothing")
	}
}
