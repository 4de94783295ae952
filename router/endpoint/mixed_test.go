package endpoint_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/llmgw/llmgw/router/endpoint"
)

// A hundred thousand requests with every kind of end, from many goroutines,
// while endpoints come, go and change: each instance there ever was ends with
// nothing in flight.
func TestMixedOutcomesEndAtBaseline(t *testing.T) {
	const workers, each = 20, 5000
	var mu sync.Mutex
	var instances []*endpoint.Endpoint
	set := newSet(t, endpoint.Config{FailureThreshold: 3, Cooldown: 50 * time.Millisecond}, endpoint.Deps{
		Attach: func(e *endpoint.Endpoint) any {
			mu.Lock()
			defer mu.Unlock()
			instances = append(instances, e)
			return nil
		},
	})
	specs := []endpoint.Spec{spec("a", "m"), spec("b", "m"), spec("c", "m"), spec("d", "m")}
	if err := set.Replace(specs); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var changing, working sync.WaitGroup
	changing.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			next := append([]endpoint.Spec(nil), specs[:1+i%4]...)
			next[0].Weight = float64(1 + i%2)
			if err := set.Replace(next); err != nil {
				t.Error(err)
				return
			}
		}
	})
	// outcome ends one request the way the number says; whatever happens, the
	// place is given back.
	outcome := func(e *endpoint.Endpoint, held endpoint.Reservation, kind int, now time.Time) {
		defer held.Release()
		defer func() { _ = recover() }()
		switch kind {
		case 0, 1, 2: // success, or the client's mistake
			e.Succeeded(now)
		case 3: // 5xx, reset, timeout
			e.Failed(now)
		case 4: // 429
			e.CoolDown(now, time.Millisecond)
		case 5: // the client left
		case 6: // released by somebody else before
			held.Release()
		case 7:
			panic("handler")
		}
	}
	for w := range workers {
		working.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(w)))
			var open []func()
			for i := range each {
				all := set.Snapshot().All()
				e := all[rng.IntN(len(all))]
				now := start().Add(time.Duration(i) * time.Millisecond)
				held, err := e.Begin(now)
				if err != nil {
					if !errors.Is(err, endpoint.ErrNotAdmitted) {
						t.Error(err)
					}
					held = e.Reserve()
				}
				kind := rng.IntN(8)
				open = append(open, func() { outcome(e, held, kind, now) })
				if len(open) > 20 { // long ones overlap with what comes after
					k := rng.IntN(len(open))
					open[k]()
					open = append(open[:k], open[k+1:]...)
				}
			}
			for _, end := range open {
				end()
			}
		})
	}
	working.Wait()
	close(stop)
	changing.Wait()
	for _, e := range instances {
		if n := e.InFlight(); n != 0 {
			t.Fatalf("an instance of %s ends with %d in flight", e.ID(), n)
		}
	}
	t.Logf("%d instances", len(instances))
}

func BenchmarkRequest(b *testing.B) {
	e := newEndpoint(b, endpoint.DefaultConfig())
	now := start()
	b.ReportAllocs()
	for b.Loop() {
		held, err := e.BeginAt(now, 0)
		if err != nil {
			b.Fatal(err)
		}
		e.Touch(now)
		e.Succeeded(now)
		held.Release()
	}
}

func BenchmarkAdmissible(b *testing.B) {
	e := newEndpoint(b, endpoint.DefaultConfig())
	now := start()
	for b.Loop() {
		if !e.Admissible(now) {
			b.Fatal("not admissible")
		}
	}
}
