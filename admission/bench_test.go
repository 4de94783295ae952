package admission_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/llmgw/llmgw/admission"
)

// engines is a source of that many endpoints with room for everybody.
type engines []admission.EndpointLoad

func newEngines(n int) engines {
	e := make(engines, n)
	for i := range e {
		e[i] = admission.EndpointLoad{ID: fmt.Sprint("engine-", i), BatchCapacity: admission.Read(1000)}
	}
	return e
}

func (e engines) Load(_ string, dst *admission.Load) { dst.Endpoints = append(dst.Endpoints, e...) }

// BenchmarkAdmitFree is a request that need not wait, and its release, the
// reading of loads included, on one pool.
func BenchmarkAdmitFree(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprintf("endpoints=%d", n), func(b *testing.B) {
			ctl := newController(b, admission.Deps{Load: newEngines(n)}, nil)
			b.ReportAllocs()
			for b.Loop() {
				lease, err := ctl.Admit(context.Background(), one())
				if err != nil {
					b.Fatal(err)
				}
				lease.Release()
			}
		})
	}
}

// BenchmarkAdmitParallel is the same from every core at once.
func BenchmarkAdmitParallel(b *testing.B) {
	ctl := newController(b, admission.Deps{Load: newEngines(10)}, nil)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			lease, err := ctl.Admit(context.Background(), one())
			if err != nil {
				b.Error(err)
				return
			}
			lease.Release()
		}
	})
}

// BenchmarkGrant is the end of one request while so many wait, and the grant
// of the next, with a new one that joins the queue.
func BenchmarkGrant(b *testing.B) {
	for _, waiting := range []int{10, 10000} {
		for _, tenants := range []int{1, 1000} {
			b.Run(fmt.Sprintf("waiting=%d/tenants=%d", waiting, tenants), func(b *testing.B) {
				core := newFixed(b, &fixed{perLease: 2}, func(c *admission.Config) { c.QueueCapacityPerBand = waiting + 1 })
				names := make([]string, tenants)
				for i := range names {
					names[i] = fmt.Sprint("tenant-", i)
				}
				now := start()
				running, _ := mustOffer(b, core, now, one())
				for i := range waiting {
					mustOffer(b, core, now, admission.Request{Pool: "m", Tenant: names[i%tenants]})
				}
				i := 0
				b.ReportAllocs()
				for b.Loop() {
					core.Release(now, running)
					decisions := core.Step(now)
					if len(decisions) != 1 {
						b.Fatal("no grant")
					}
					running = decisions[0].Ticket
					mustOffer(b, core, now, admission.Request{Pool: "m", Tenant: names[i%tenants]})
					i++
				}
			})
		}
	}
}

// TestAdmitAllocs: a request that need not wait allocates nothing, lease
// included.
func TestAdmitAllocs(t *testing.T) {
	ctl := newController(t, admission.Deps{Load: newEngines(10), Now: start}, nil)
	mustAdmit(t, ctl, one()).Release()
	if n := testing.AllocsPerRun(1000, func() {
		lease, err := ctl.Admit(t.Context(), one())
		if err != nil {
			t.Fatal(err)
		}
		lease.Release()
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// BenchmarkHandOver is one lease that goes round so many blocked requests of
// 100 tenants: each release wakes the next, who queues again.
func BenchmarkHandOver(b *testing.B) {
	for _, waiting := range []int{100, 10000} {
		b.Run(fmt.Sprintf("waiting=%d", waiting), func(b *testing.B) {
			ctl := newController(b, admission.Deps{Load: &capacity{n: 1}}, func(c *admission.Config) { c.QueueCapacityPerBand = waiting })
			ctx, cancel := context.WithCancel(b.Context())
			var wg sync.WaitGroup
			handed := make(chan struct{}, 1)
			for i := range waiting {
				r := admission.Request{Pool: "m", Tenant: fmt.Sprint(i % 100)}
				wg.Go(func() {
					for {
						lease, err := ctl.Admit(ctx, r)
						if err != nil {
							return
						}
						select {
						case handed <- struct{}{}:
						case <-ctx.Done():
						}
						lease.Release()
					}
				})
			}
			b.ReportAllocs()
			for b.Loop() {
				<-handed
			}
			cancel()
			wg.Wait()
		})
	}
}
