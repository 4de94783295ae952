package admission_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/admission"
)

// fullLoad is a pool with one engine that runs one request and is busy.
type fullLoad struct{}

func (fullLoad) Load(_ string, dst *admission.Load) {
	dst.Endpoints = append(dst.Endpoints, admission.EndpointLoad{ID: "e", InFlight: admission.Read(1), BatchCapacity: admission.Read(1), Weight: 1})
}

// What waits and what was let through is told by band.
func TestPoolsTellBands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := admission.DefaultConfig()
		cfg.Enabled, cfg.DefaultBand, cfg.QueueCapacityPerBand = true, "low", 1
		cfg.Bands = []admission.Band{{Name: "low", Priority: 1, SaturationCeiling: 0.5}, {Name: "high", Priority: 9, SaturationCeiling: 2}}
		ctl, err := admission.New(cfg, admission.Deps{Load: fullLoad{}})
		if err != nil {
			t.Fatal(err)
		}
		if got := ctl.Pools(); len(got) > 0 {
			t.Errorf("before any request: %+v", got)
		}
		lease, err := ctl.Admit(t.Context(), admission.Request{Pool: "m", Band: "high"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := ctl.Admit(ctx, admission.Request{Pool: "m"})
			left <- err
		}()
		synctest.Wait()
		if _, err := ctl.Admit(t.Context(), admission.Request{Pool: "m"}); err == nil {
			t.Error("one more than may wait was let through")
		}
		got := ctl.Pools()
		want := []admission.PoolState{{
			Name: "m", Waiting: 1, Leases: 1, Saturation: 1, HasSaturation: true, Bands: []admission.BandState{
				{Name: "high", Priority: 9, Ceiling: 2, Admitted: 1},
				{Name: "low", Priority: 1, Ceiling: 0.5, Waiting: 1, Rejected: 1},
			},
		}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		cancel()
		if err := <-left; err == nil {
			t.Error("a request whose client left was let through")
		}
		lease.Release()
		if got := ctl.Pools(); got[0].Waiting != 0 || got[0].Leases != 0 || got[0].Bands[1].Rejected != 2 {
			t.Errorf("at the end: %+v", got)
		}
	})
}
