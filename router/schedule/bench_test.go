package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/schedule"
)

// newPool returns n measured endpoints with differing load.
func newPool(tb testing.TB, n int, now time.Time) []*endpoint.Endpoint {
	tb.Helper()
	set, err := endpoint.NewSet(endpoint.DefaultConfig(), endpoint.Deps{})
	if err != nil {
		tb.Fatal(err)
	}
	specs := make([]endpoint.Spec, n)
	for i := range specs {
		specs[i] = endpoint.Spec{
			ID:     fmt.Sprintf("e%d", i),
			URL:    fmt.Sprintf("http://10.0.%d.%d:8000", i/250, i%250),
			Models: []endpoint.Model{{Name: "m"}},
		}
	}
	if err := set.Replace(specs); err != nil {
		tb.Fatal(err)
	}
	pool := set.Snapshot().ForModel("m")
	for i, e := range pool {
		e.SetLoad(&endpoint.LoadState{
			Load: engines.Load{
				Running:     engines.Read(float64(i % 17)),
				Waiting:     engines.Read(float64(i % 3)),
				KVUsedRatio: engines.Read(float64(i%10) / 10),
			},
			At: now,
		})
	}
	return pool
}

func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{3, 100, 1000} {
		for _, session := range []string{"", "conversation-4711"} {
			b.Run(fmt.Sprintf("endpoints=%d/session=%t", n, session != ""), func(b *testing.B) {
				now := time.Now()
				pool := newPool(b, n, now)
				s, err := schedule.New(schedule.DefaultConfig(), schedule.Deps{})
				if err != nil {
					b.Fatal(err)
				}
				rng := rand.New(rand.NewPCG(1, 2))
				req := &schedule.Request{Model: "m", Session: session, Now: now}
				b.ReportAllocs()
				for b.Loop() {
					_, held, err := s.Decide(schedule.Chat, req, pool, rng, nil)
					if err != nil {
						b.Fatal(err)
					}
					held.Release()
				}
			})
		}
	}
}
