package limit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/llmgw/llmgw/auth/limit"
)

func everyLimit(tb testing.TB, zones *limit.Zones, id string) *limit.Subject {
	tb.Helper()
	b, err := zones.NewBudget(1e18, limit.PeriodMonth, "Europe/Berlin")
	if err != nil {
		tb.Fatal(err)
	}
	return &limit.Subject{ID: id, Limits: limit.Limits{RequestsPerMinute: 1e9, TokensPerMinute: 1e15, Concurrency: 1e6}, Budget: b}
}

func acquireSettle(tb testing.TB, l *limit.Limiter, s *limit.Subject, now time.Time) {
	r, err := l.Acquire(tb.Context(), now, s, limit.Request{Tokens: 1000, CostNanos: 1_000_000})
	if err != nil {
		tb.Fatal(err)
	}
	r.Settle(now, limit.Actual{Tokens: 700, CostNanos: 600_000})
}

// Acquire and Settle with every limit, a request each 100 µs.
func BenchmarkAcquireSettle(b *testing.B) {
	for _, keys := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			l := newLimiter(b, nil)
			var zones limit.Zones
			subjects := make([]*limit.Subject, keys)
			for i := range subjects {
				subjects[i] = everyLimit(b, &zones, fmt.Sprintf("key-%d", i))
			}
			now := time.Now()
			for _, s := range subjects {
				acquireSettle(b, l, s, now)
			}
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				acquireSettle(b, l, subjects[i%keys], now)
				now = now.Add(100 * time.Microsecond)
				i++
			}
		})
	}
}

func BenchmarkAcquireSettleParallel(b *testing.B) {
	for _, keys := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			l := newLimiter(b, nil)
			var zones limit.Zones
			subjects := make([]*limit.Subject, keys)
			for i := range subjects {
				subjects[i] = everyLimit(b, &zones, fmt.Sprintf("key-%d", i))
			}
			for _, s := range subjects {
				acquireSettle(b, l, s, time.Now())
			}
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				now, i := time.Now(), 0
				for pb.Next() {
					acquireSettle(b, l, subjects[i%keys], now)
					now = now.Add(100 * time.Microsecond)
					i++
				}
			})
		})
	}
}

// A refused request, of which there may be many.
func BenchmarkRefuse(b *testing.B) {
	l := newLimiter(b, nil)
	s := everyLimit(b, new(limit.Zones), "k")
	s.Limits.RequestsPerMinute = 60
	now := time.Now()
	for range 60 {
		_, _ = l.TryAcquire(now, s, limit.Request{Tokens: 1})
		now = now.Add(900 * time.Millisecond)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.TryAcquire(now, s, limit.Request{Tokens: 1}); err == nil {
			b.Fatal("passed")
		}
	}
}

// Maintain with 10,000 keys that have slices.
func BenchmarkMaintain(b *testing.B) {
	l := newLimiter(b, newBank())
	var zones limit.Zones
	now := time.Now()
	for i := range 10_000 {
		acquireSettle(b, l, everyLimit(b, &zones, fmt.Sprintf("key-%d", i)), now)
	}
	for b.Loop() {
		if err := l.Maintain(context.Background(), now); err != nil {
			b.Fatal(err)
		}
	}
}
