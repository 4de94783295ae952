package limit_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/auth/limit"
)

func daily(t testing.TB, nanos int64) *limit.Subject {
	t.Helper()
	b, err := limit.NewBudget(nanos, limit.PeriodDay, "")
	if err != nil {
		t.Fatal(err)
	}
	return &limit.Subject{ID: "k", Budget: b}
}

// sources are the ways in which budgets are kept.
func sources() map[string]func() limit.Source {
	return map[string]func() limit.Source{
		"none": func() limit.Source { return nil },
		"restore": func() limit.Source {
			return limit.Restore(func(context.Context, limit.BudgetID) (int64, error) { return 0, nil })
		},
		"slices": func() limit.Source { return newBank() },
	}
}

// 50 at once against a budget for one: one passes, and once it is spent the
// others learn that waiting is of no use.
func TestFiftyAtOnceBudgetForOne(t *testing.T) {
	for name, src := range sources() {
		t.Run(name, func(t *testing.T) {
			l, s := newLimiter(t, src()), daily(t, 1000)
			var passed atomic.Int64
			var winner atomic.Pointer[limit.Reservation]
			var wg sync.WaitGroup
			for range 50 {
				wg.Go(func() {
					res, err := l.Acquire(t.Context(), monday(), s, limit.Request{CostNanos: 1000})
					if err == nil {
						passed.Add(1)
						winner.Store(res)
					} else if r := reason(err); r != limit.ReasonBudgetHeld && r != limit.ReasonBudget {
						t.Errorf("refused with %v", err)
					}
				})
			}
			wg.Wait()
			if n := passed.Load(); n != 1 {
				t.Fatalf("%d passed; want 1", n)
			}
			winner.Load().Settle(monday(), limit.Actual{CostNanos: 1000})
			_, err := l.Acquire(t.Context(), monday(), s, limit.Request{CostNanos: 1000})
			if reason(err) != limit.ReasonBudget {
				t.Errorf("%v; want a spent budget", err)
			}
		})
	}
}

// What was reserved too much can be spent by others.
func TestSettleGivesTheRestBack(t *testing.T) {
	for name, src := range sources() {
		t.Run(name, func(t *testing.T) {
			l, s := newLimiter(t, src()), daily(t, 1000)
			for i := range 10 {
				res, err := l.Acquire(t.Context(), monday(), s, limit.Request{CostNanos: 1000 - 100*int64(i)})
				if err != nil {
					t.Fatalf("request %d: %v", i, err)
				}
				if _, err := l.Acquire(t.Context(), monday(), s, limit.Request{CostNanos: 1}); reason(err) != limit.ReasonBudgetHeld {
					t.Fatalf("%v; want a held budget", err)
				}
				res.Settle(monday(), limit.Actual{CostNanos: 100})
				res.Settle(monday(), limit.Actual{CostNanos: 1000}) // only the first counts
				res.Undo(monday())
			}
			if b := l.State(monday(), s).Budget; b.SpentNanos != 1000 || b.ReservedNanos != 0 || b.FreeNanos != 0 || !b.Known {
				t.Errorf("%+v; want 1000 spent and nothing else", b)
			}
			if _, err := l.Acquire(t.Context(), monday(), s, limit.Request{CostNanos: 1}); reason(err) != limit.ReasonBudget {
				t.Errorf("%v; want a spent budget", err)
			}
			if _, err := l.Acquire(t.Context(), monday(), s, limit.Request{}); err != nil {
				t.Errorf("what costs nothing was refused: %v", err)
			}
		})
	}
}

// What was reserved before midnight is settled there, and the new day begins
// with nothing spent.
func TestPeriodTravelsWithReservation(t *testing.T) {
	for name, src := range sources() {
		t.Run(name, func(t *testing.T) {
			bank, _ := src().(*bank)
			var from limit.Source
			if bank != nil {
				from = bank
			} else {
				from = src()
			}
			l, s := newLimiter(t, from), daily(t, 1000)
			late := time.Date(2026, 3, 2, 23, 59, 50, 0, time.UTC)
			res, err := l.Acquire(t.Context(), late, s, limit.Request{CostNanos: 1000})
			if err != nil {
				t.Fatal(err)
			}
			early := late.Add(time.Minute)
			next, err := l.Acquire(t.Context(), early, s, limit.Request{CostNanos: 600})
			if err != nil {
				t.Fatalf("the new day: %v", err)
			}
			res.Settle(early, limit.Actual{CostNanos: 700})
			if b := l.State(early, s).Budget; b.SpentNanos != 0 || b.ReservedNanos != 600 {
				t.Errorf("the new day has %+v; want 600 reserved", b)
			}
			next.Settle(early, limit.Actual{CostNanos: 500})
			id, _ := res.Budget()
			if want := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC); !id.Start.Equal(want) || id.Period != limit.PeriodDay {
				t.Errorf("reserved in %+v", id)
			}
			if bank == nil {
				// The clock is set back: the old day is as it was.
				if b := l.State(late, s).Budget; b.SpentNanos != 700 || b.ReservedNanos != 0 {
					t.Errorf("the old day has %+v; want 700 spent", b)
				}
				return
			}
			if err := l.Drain(t.Context(), early); err != nil {
				t.Fatal(err)
			}
			now, _ := next.Budget()
			if a, b := bank.out(id), bank.out(now); a != 700 || b != 500 || bank.open() != 0 {
				t.Errorf("spent by the store: %d and %d, %d slices open; want 700 and 500, none", a, b, bank.open())
			}
		})
	}
}

// A period that begins while the limiter runs needs nobody to say that nothing
// was spent of it; one that began before does.
func TestRestore(t *testing.T) {
	var asked []limit.BudgetID
	down := true
	l := newLimiter(t, limit.Restore(func(_ context.Context, b limit.BudgetID) (int64, error) {
		asked = append(asked, b)
		if down {
			return 0, errDown
		}
		return 900, nil
	}))
	s := daily(t, 1000)
	now := monday()
	for range 3 {
		_, err := l.Acquire(t.Context(), now, s, limit.Request{CostNanos: 1})
		if !errors.Is(err, limit.ErrUnavailable) || !errors.Is(err, errDown) {
			t.Fatalf("%v; want ErrUnavailable and its cause", err)
		}
	}
	if len(asked) != 1 {
		t.Errorf("asked %d times within a second; want once", len(asked))
	}
	down = false
	now = now.Add(2 * time.Second)
	if _, err := l.Acquire(t.Context(), now, s, limit.Request{CostNanos: 101}); reason(err) != limit.ReasonBudget {
		t.Errorf("%v; want a spent budget: no fresh allowance", err)
	}
	if _, err := l.Acquire(t.Context(), now, s, limit.Request{CostNanos: 100}); err != nil {
		t.Error(err)
	}
	n := len(asked)
	down = true
	if _, err := l.Acquire(t.Context(), now.Add(24*time.Hour), s, limit.Request{CostNanos: 1000}); err != nil {
		t.Errorf("the next day, with the store down: %v", err)
	}
	if len(asked) != n {
		t.Error("asked what was spent of a day that had just begun")
	}
	// A month that began before is another budget.
	month := *s
	month.Budget, _ = limit.NewBudget(1000, limit.PeriodMonth, "")
	if _, err := l.Acquire(t.Context(), now.Add(25*time.Hour), &month, limit.Request{CostNanos: 1}); !errors.Is(err, limit.ErrUnavailable) {
		t.Errorf("%v; want ErrUnavailable", err)
	}
}

// A changed budget holds from the next request on.
func TestChangedBudget(t *testing.T) {
	for name, src := range sources() {
		t.Run(name, func(t *testing.T) {
			l := newLimiter(t, src())
			res, err := l.Acquire(t.Context(), monday(), daily(t, 1000), limit.Request{CostNanos: 800})
			if err != nil {
				t.Fatal(err)
			}
			res.Settle(monday(), limit.Actual{CostNanos: 500})
			now := monday().Add(2 * time.Second)
			if _, err := l.Acquire(t.Context(), now, daily(t, 600), limit.Request{CostNanos: 101}); reason(err) != limit.ReasonBudget {
				// Slices of the larger budget went back first, when somebody is told to.
				t.Errorf("smaller: %v; want a spent budget", err)
			}
			if err := l.Maintain(t.Context(), now); err != nil {
				t.Fatal(err)
			}
			now = now.Add(2 * time.Second)
			res, err = l.Acquire(t.Context(), now, daily(t, 600), limit.Request{CostNanos: 100})
			if err != nil {
				t.Fatalf("smaller: %v; want what is left", err)
			}
			if _, err := l.Acquire(t.Context(), now, daily(t, 5000), limit.Request{CostNanos: 4000}); err != nil {
				t.Errorf("larger: %v", err)
			}
			res.Settle(now, limit.Actual{CostNanos: 100})
		})
	}
}

// Requests that end in every way, 100,000 of them: what is counted is what was spent, and
// nothing stays reserved.
func TestMixedOutcomes(t *testing.T) {
	for name, src := range sources() {
		t.Run(name, func(t *testing.T) {
			from := src()
			l := newLimiter(t, from)
			b, err := limit.NewBudget(1e15, limit.PeriodMonth, "Europe/Berlin")
			if err != nil {
				t.Fatal(err)
			}
			s := &limit.Subject{ID: "k", Limits: limit.Limits{RequestsPerMinute: 1e6, TokensPerMinute: 1e9, Concurrency: 1000}, Budget: b}
			const workers = 8
			each := 1000
			if name == "slices" { // which has the most that could go wrong
				each = mixedRequests / workers
			}
			var spent, refused atomic.Int64
			var wg sync.WaitGroup
			begin := monday()
			for w := range workers {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(w), 1))
					var held []*limit.Reservation
					settle := func(r *limit.Reservation, now time.Time) {
						cost := rng.Int64N(1000)
						switch rng.IntN(4) {
						case 0: // failed before anything was used
							r.Settle(now, limit.Actual{})
						case 1: // refused by somebody else
							r.Undo(now)
						default:
							r.Settle(now, limit.Actual{Tokens: rng.Int64N(3000), CostNanos: cost})
							spent.Add(cost)
						}
						r.Settle(now, limit.Actual{Tokens: 1, CostNanos: 1})
					}
					for i := range each {
						now := begin.Add(time.Duration(i) * time.Millisecond)
						r, err := l.Acquire(t.Context(), now, s, limit.Request{Tokens: rng.Int64N(2000), CostNanos: 1000})
						if err != nil {
							refused.Add(1)
							continue
						}
						if held = append(held, r); len(held) > 20 {
							k := rng.IntN(len(held))
							settle(held[k], now)
							held[k] = held[len(held)-1]
							held = held[:len(held)-1]
						}
					}
					for _, r := range held {
						settle(r, begin.Add(time.Duration(each)*time.Millisecond))
					}
				})
			}
			wg.Wait()
			now := begin.Add(time.Duration(each) * time.Millisecond)
			st := l.State(now, s)
			if refused.Load() != 0 {
				t.Errorf("%d were refused; no limit was near", refused.Load())
			}
			if st.Inflight != 0 || st.Budget.ReservedNanos != 0 || st.Budget.SpentNanos != spent.Load() {
				t.Errorf("%+v, %+v; want %d spent and nothing under way", st, st.Budget, spent.Load())
			}
			if st := l.State(now.Add(2*limit.Window), s); st.Rates.Requests.Remaining != 1e6 || st.Rates.Tokens.Remaining != 1e9 || st.Debt != 0 {
				t.Errorf("two minutes later: %+v; want windows as new", st.Rates)
			}
			if bank, ok := from.(*bank); ok {
				if err := l.Drain(t.Context(), now); err != nil {
					t.Fatal(err)
				}
				if n := bank.out(st.Budget.ID); n != spent.Load() || bank.open() != 0 {
					t.Errorf("the store counts %d as spent, %d slices open; want %d, none", n, bank.open(), spent.Load())
				}
			}
		})
	}
}

// Several limiters, a store that fails before and after the fact, limiters that
// die, keys that change: never is more spent than the budget, and what is lost
// is only what the dead had at hand.
func TestSlicesNeverOverspend(t *testing.T) { rapid.Check(t, slicesNeverOverspend) }

func FuzzSlicesNeverOverspend(f *testing.F) { f.Fuzz(rapid.MakeFuzz(slicesNeverOverspend)) }

func slicesNeverOverspend(rt *rapid.T) {
	bank := newBank()
	total := rapid.Int64Range(1, 5000).Draw(rt, "budget")
	lowest := total
	flaky := rapid.Bool().Draw(rt, "flaky")
	bank.fail = func() (bool, bool) {
		if !flaky {
			return false, false
		}
		k := rapid.IntRange(0, 5).Draw(rt, "fails")
		return k == 0, k == 1
	}
	routers := rapid.IntRange(1, 3).Draw(rt, "routers")
	limiters := make([]*limit.Limiter, routers)
	for i := range limiters {
		limiters[i] = mustLimiter(rt, bank)
	}
	s := mustDaily(rt, total)
	type held struct {
		res  *limit.Reservation
		who  int
		cost int64
	}
	var open []held
	var spent, reserved, lost int64
	now := monday()
	id := limit.BudgetID{Subject: "k", Period: limit.PeriodDay, Start: time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)}
	remove := func(i int) held {
		h := open[i]
		open = append(open[:i], open[i+1:]...)
		reserved -= h.cost
		return h
	}
	for range rapid.IntRange(1, 80).Draw(rt, "steps") {
		now = now.Add(rapid.SampledFrom([]time.Duration{0, 10 * time.Millisecond, time.Second, 11 * time.Second}).Draw(rt, "step"))
		who := rapid.IntRange(0, routers-1).Draw(rt, "who")
		switch rapid.IntRange(0, 9).Draw(rt, "what") {
		default:
			cost := rapid.Int64Range(1, 1000).Draw(rt, "cost")
			res, err := limiters[who].Acquire(context.Background(), now, s, limit.Request{CostNanos: cost})
			if err == nil {
				open = append(open, held{res, who, cost})
				reserved += cost
			} else if !errors.Is(err, limit.ErrLimited) && !errors.Is(err, limit.ErrUnavailable) {
				rt.Fatal(err)
			}
		case 4, 5, 6:
			if len(open) > 0 {
				h := remove(rapid.IntRange(0, len(open)-1).Draw(rt, "which"))
				cost := rapid.Int64Range(0, h.cost).Draw(rt, "real")
				h.res.Settle(now, limit.Actual{CostNanos: cost})
				spent += cost
			}
		case 7:
			_ = limiters[who].Maintain(context.Background(), now)
		case 8: // it dies with all that is under way
			for i := len(open) - 1; i >= 0; i-- {
				if open[i].who == who {
					remove(i)
				}
			}
			limiters[who] = mustLimiter(rt, bank)
			lost++
		case 9: // the key is changed
			s = mustDaily(rt, rapid.Int64Range(1, 5000).Draw(rt, "new budget"))
			lowest, total = min(lowest, s.Budget.Nanos), max(total, s.Budget.Nanos)
		}
		if spent+reserved > total {
			rt.Fatalf("%d spent and %d reserved of %d", spent, reserved, total)
		}
		if n := bank.out(id); spent+reserved > n || n > total {
			rt.Fatalf("%d spent and %d reserved, and the store has granted %d of %d", spent, reserved, n, total)
		}
	}
	for _, h := range open {
		h.res.Settle(now, limit.Actual{CostNanos: h.cost})
		spent += h.cost
	}
	flaky = false
	now = now.Add(time.Minute)
	for _, l := range limiters {
		if err := l.Drain(context.Background(), now); err != nil {
			rt.Fatal(err)
		}
	}
	if n := bank.out(id); lost == 0 && (n != spent || bank.open() != 0) {
		rt.Fatalf("at the end the store counts %d as spent and %d slices as open; %d was spent and nobody died", n, bank.open(), spent)
	} else if n < spent {
		rt.Fatalf("at the end the store counts %d as spent; it was %d", n, spent)
	}
}

func mustLimiter(rt *rapid.T, src limit.Source) *limit.Limiter {
	l, err := limit.New(limit.DefaultConfig(), limit.Deps{Source: src})
	if err != nil {
		rt.Fatal(err)
	}
	return l
}

func mustDaily(rt *rapid.T, nanos int64) *limit.Subject {
	b, err := limit.NewBudget(nanos, limit.PeriodDay, "")
	if err != nil {
		rt.Fatal(err)
	}
	return &limit.Subject{ID: "k", Budget: b}
}

// All who wait for one budget wait for one Ask, and the next one asks for all of
// them.
func TestSingleFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := newBank()
		bank.gate = make(chan struct{})
		l, s := newLimiter(t, bank), daily(t, 1e6)
		var passed atomic.Int64
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if _, err := l.Acquire(t.Context(), monday(), s, limit.Request{CostNanos: 100}); err != nil {
					t.Error(err)
				}
				passed.Add(1)
			})
		}
		other := *s
		other.ID = "other"
		synctest.Wait()
		if passed.Load() != 0 {
			t.Fatalf("%d passed before the store answered", passed.Load())
		}
		for n := 0; passed.Load() < 50; n++ {
			if n > 5 {
				t.Fatalf("asked %d times; %d have passed", n, passed.Load())
			}
			bank.gate <- struct{}{}
			synctest.Wait()
		}
		wg.Wait()
	})
}

// Who leaves while waiting takes nothing, and who stays is served.
func TestLeavingWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := newBank()
		bank.gate = make(chan struct{})
		l, s := newLimiter(t, bank), daily(t, 1000)
		gone := errors.New("the client has left")
		ctx, leave := context.WithCancelCause(t.Context())
		results := make(chan error, 3)
		for _, c := range []context.Context{ctx, ctx, t.Context()} {
			go func() {
				_, err := l.Acquire(c, monday(), s, limit.Request{CostNanos: 400})
				results <- err
			}()
			synctest.Wait() // the first one asks, the others wait for it
		}
		leave(gone)
		synctest.Wait()
		if err := <-results; !errors.Is(err, gone) {
			t.Errorf("%v; want the cause", err)
		}
		close(bank.gate)
		synctest.Wait()
		errs := []error{<-results, <-results}
		if !errors.Is(errs[0], gone) {
			errs[0], errs[1] = errs[1], errs[0]
		}
		if !errors.Is(errs[0], gone) || errs[1] != nil {
			t.Errorf("%v; want one left, one served", errs)
		}
		if st := l.State(monday(), s); st.Inflight != 1 || st.Budget.ReservedNanos != 400 {
			t.Errorf("%+v, %+v; want one request of 400", st, st.Budget)
		}
	})
}

// A store that hangs holds a request for so long and no longer, and those that
// come next not at all.
func TestStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := newBank()
		bank.gate = make(chan struct{})
		l, s := newLimiter(t, bank), daily(t, 1000)
		begin := time.Now()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				_, err := l.Acquire(t.Context(), time.Now(), s, limit.Request{CostNanos: 10})
				if !errors.Is(err, limit.ErrUnavailable) {
					t.Errorf("%v; want ErrUnavailable", err)
				}
			})
		}
		wg.Wait()
		if d := time.Since(begin); d != limit.DefaultConfig().FundTimeout {
			t.Errorf("waited %v", d)
		}
		begin = time.Now()
		if _, err := l.Acquire(t.Context(), time.Now(), s, limit.Request{CostNanos: 10}); !errors.Is(err, limit.ErrUnavailable) || time.Since(begin) != 0 {
			t.Errorf("%v after %v; want ErrUnavailable at once", err, time.Since(begin))
		}
		if _, err := l.TryAcquire(time.Now(), s, limit.Request{CostNanos: 10}); !errors.Is(err, limit.ErrUnavailable) {
			t.Errorf("%v; want ErrUnavailable", err)
		}
		close(bank.gate)
		time.Sleep(time.Second)
		if _, err := l.Acquire(t.Context(), time.Now(), s, limit.Request{CostNanos: 10}); err != nil {
			t.Errorf("the store is back: %v", err)
		}
	})
}

// While nobody is asked because that has failed just now, nothing works again: who
// calls Maintain every second does not hear so in between.
func TestMaintainWhilePaused(t *testing.T) {
	bank, away := newBank(), true
	bank.fail = func() (before, after bool) { return away, false }
	l, s := newLimiter(t, bank), daily(t, 1000)
	now := monday()
	if _, err := l.Acquire(t.Context(), now, s, limit.Request{CostNanos: 10}); !errors.Is(err, limit.ErrUnavailable) {
		t.Fatalf("%v; want ErrUnavailable", err)
	}
	pause := limit.DefaultConfig().FundPause
	for range 40 {
		now = now.Add(pause / 4)
		if err := l.Maintain(t.Context(), now); err == nil {
			t.Fatalf("the store is away, and Maintain found nothing wrong at %v", now.Sub(monday()))
		}
	}
	away = false
	now = now.Add(2 * pause)
	if err := l.Maintain(t.Context(), now); err != nil {
		t.Errorf("the store is back: %v", err)
	}
}

func TestSourcePanics(t *testing.T) {
	l, s := newLimiter(t, limit.Restore(func(context.Context, limit.BudgetID) (int64, error) { panic("mine") })), daily(t, 1000)
	func() {
		defer func() {
			if recover() != "mine" {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = l.Acquire(t.Context(), monday(), s, limit.Request{CostNanos: 10})
	}()
	if _, err := l.Acquire(t.Context(), monday(), s, limit.Request{CostNanos: 10}); !errors.Is(err, limit.ErrUnavailable) {
		t.Errorf("%v; want ErrUnavailable", err)
	}
}

// Slices are asked for ahead, so that in a steady stream requests do not wait,
// and what lies idle goes back.
func TestSlicesAhead(t *testing.T) {
	bank := newBank()
	l, s := newLimiter(t, bank), daily(t, 1e9)
	now := monday()
	waited := 0
	for i := range 5000 {
		before := bank.asked
		res, err := l.Acquire(t.Context(), now, s, limit.Request{CostNanos: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if bank.asked > before && i > 1000 {
			waited++
		}
		res.Settle(now, limit.Actual{CostNanos: 700})
		now = now.Add(10 * time.Millisecond)
		if i%100 == 99 {
			if err := l.Maintain(t.Context(), now); err != nil {
				t.Fatal(err)
			}
		}
	}
	if waited > 0 {
		t.Errorf("%d of 4000 requests waited for the store", waited)
	}
	if bank.asked > 200 {
		t.Errorf("asked %d times in 50 s", bank.asked)
	}
	st := l.State(now, s).Budget
	// 700 every 10 ms for 10 s, and as much again under way to the next.
	if most := int64(2 * 700 * 1000); st.FreeNanos > most {
		t.Errorf("%d at hand; want at most %d, what is spent in twice 10 s", st.FreeNanos, most)
	}
	now = now.Add(10 * time.Second)
	if err := l.Maintain(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if n := bank.out(st.ID); n != st.SpentNanos || bank.open() != 0 {
		t.Errorf("idle, the store counts %d as spent and %d slices as open; %d was spent", n, bank.open(), st.SpentNanos)
	}
}

// Near the end of a budget nobody holds more than it needs: three routers that
// take turns spend it to the last.
func TestLastCents(t *testing.T) {
	bank := newBank()
	const total, cost = 10_000, 7
	s := daily(t, total)
	var limiters []*limit.Limiter
	for range 3 {
		limiters = append(limiters, newLimiter(t, bank))
	}
	now := monday()
	var spent int64
	for i, refused := 0, 0; refused < 3000; i++ {
		l := limiters[i%3]
		if i%30 == 0 {
			_ = l.Maintain(t.Context(), now)
		}
		res, err := l.Acquire(t.Context(), now, s, limit.Request{CostNanos: cost})
		if err != nil {
			refused++
		} else {
			spent += cost
			res.Settle(now, limit.Actual{CostNanos: cost})
		}
		now = now.Add(10 * time.Millisecond)
	}
	if total-spent >= cost {
		t.Errorf("%d of %d were spent; want less than %d left", spent, total, cost)
	}
}

// Of a budget that was made smaller nobody spends what it had at hand of the
// larger one.
func TestSmallerBudgetIsAskedAnew(t *testing.T) {
	bank := newBank()
	a, b := newLimiter(t, bank), newLimiter(t, bank)
	spend := func(l *limit.Limiter, total, reserve, cost int64) error {
		t.Helper()
		res, err := l.Acquire(t.Context(), monday(), daily(t, total), limit.Request{CostNanos: reserve})
		if err == nil {
			res.Settle(monday(), limit.Actual{CostNanos: cost})
		}
		return err
	}
	if err := errors.Join(spend(a, 1000, 800, 500), spend(b, 1000, 200, 200)); err != nil {
		t.Fatal(err)
	}
	if st := a.State(monday(), daily(t, 750)).Budget; st.Known || st.FreeNanos > 0 {
		t.Errorf("%+v; want what must be asked for first", st)
	}
	if err := spend(a, 750, 100, 100); reason(err) != limit.ReasonBudget {
		t.Errorf("%v; want a spent budget, of which 50 are left", err)
	}
	if err := a.Maintain(t.Context(), monday()); err != nil {
		t.Fatal(err)
	}
	if err := spend(a, 750, 50, 50); err != nil {
		t.Errorf("what is left: %v", err)
	}
}

// Who has waited for a slice is served before those who have just come: under
// any crowd nobody is refused for want of an answer.
func TestCrowd(t *testing.T) {
	for name, total := range map[string]int64{"there is enough": 1e9, "it comes to an end": 1e6} {
		t.Run(name, func(t *testing.T) { crowd(t, total) })
	}
}

func crowd(t *testing.T, total int64) {
	synctest.Test(t, func(t *testing.T) {
		bank := newBank()
		bank.takes = 5 * time.Millisecond
		s := daily(t, total)
		var waited atomic.Int64
		var wg sync.WaitGroup
		for range 3 {
			l := newLimiter(t, bank)
			for range 20 {
				wg.Go(func() {
					for range 50 {
						begin := time.Now()
						res, err := l.Acquire(t.Context(), begin, s, limit.Request{CostNanos: 1000})
						if err != nil {
							if total == 1e9 || !errors.Is(err, limit.ErrLimited) {
								t.Error(err)
							}
							time.Sleep(time.Millisecond)
							continue
						}
						for d := int64(time.Since(begin)); ; {
							if was := waited.Load(); d <= was || waited.CompareAndSwap(was, d) {
								break
							}
						}
						time.Sleep(time.Millisecond)
						res.Settle(time.Now(), limit.Actual{CostNanos: 900})
					}
				})
			}
		}
		wg.Wait()
		if d := time.Duration(waited.Load()); d > 8*bank.takes {
			t.Errorf("one waited %v; an answer takes %v", d, bank.takes)
		}
	})
}
