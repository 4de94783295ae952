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

// holding is a PrefixIndex of one answer.
type holding []schedule.Holder

func (h holding) Holders(_ *schedule.Request, out []schedule.Holder) (n, promptBytes int) {
	return copy(out, h), 20000
}

func (holding) Picked(*schedule.Request, *endpoint.Endpoint) {}

// holdingOf returns an index by which n endpoints hold half of any prompt.
func holdingOf(pool []*endpoint.Endpoint, n int) holding {
	var h holding
	for i := range n {
		h = append(h, schedule.Holder{Endpoint: pool[(i*37)%len(pool)], Bytes: 10000})
	}
	return h
}

// Decisions with everything: a session, and a prompt that eight endpoints hold.
func BenchmarkDecideByPrefix(b *testing.B) {
	for _, n := range []int{20, 100, 1000} {
		for _, weights := range []string{"equal", "unequal"} {
			b.Run(fmt.Sprintf("endpoints=%d/weights=%s", n, weights), func(b *testing.B) {
				now := time.Now()
				pool := newPool(b, n, now)
				if weights == "unequal" {
					w := make([]float64, n)
					for i := range w {
						w[i] = 1 + float64(i%4)
					}
					pool = weighted(b, w...)
				}
				s := newScheduler(b, schedule.Deps{Prefixes: holdingOf(pool, 8)})
				rng := rand.New(rand.NewPCG(1, 2))
				prompt := "p"
				req := &schedule.Request{Model: "m", Session: "conversation-4711", Prompt: &prompt, Now: now, PoolVersion: 1}
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

// The same on so many pools in turn that none is in the processor's cache, with and
// without a table of the pool.
func BenchmarkDecideCold(b *testing.B) {
	const pools = 300
	for _, version := range []uint64{0, 1} {
		b.Run(fmt.Sprintf("endpoints=1000/table=%t", version > 0), func(b *testing.B) {
			now := time.Now()
			var all [pools][]*endpoint.Endpoint
			var ss [pools]*schedule.Scheduler
			for i := range all {
				all[i] = newPool(b, 1000, now)
				ss[i] = newScheduler(b, schedule.Deps{Prefixes: holdingOf(all[i], 8)})
			}
			rng := rand.New(rand.NewPCG(1, 2))
			prompt := "p"
			req := &schedule.Request{Model: "m", Session: "conversation-4711", Prompt: &prompt, Now: now, PoolVersion: version}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				_, held, err := ss[i%pools].Decide(schedule.Chat, req, all[i%pools], rng, nil)
				if err != nil {
					b.Fatal(err)
				}
				held.Release()
			}
		})
	}
}

func BenchmarkRecord(b *testing.B) {
	now := time.Now()
	pool := newPool(b, 1000, now)
	s := newScheduler(b, schedule.Deps{Prefixes: holdingOf(pool, 8)})
	prompt := "p"
	var rec schedule.Decision
	_, held, err := s.Decide(schedule.Chat, &schedule.Request{Session: "s", Prompt: &prompt, Now: now}, pool, nil, &rec)
	if err != nil {
		b.Fatal(err)
	}
	held.Release()
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		if buf, err = rec.AppendBinary(buf[:0]); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(buf)), "bytes")
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
