package storagetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/storage"
)

func dayOf(key string) storage.BudgetPeriod {
	return storage.BudgetPeriod{KeyID: key, Period: storage.PeriodDay, Start: epoch}
}

func ask(id string, b storage.BudgetPeriod, limit, want, least int64) storage.GrantRequest {
	return storage.GrantRequest{ID: id, Budget: b, Router: "r1", LimitNanos: limit, WantNanos: want, LeastNanos: least, At: epoch}
}

func testGrant(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	b := dayOf("k")
	st, err := s.Budget(ctx, b)
	ok(t, err)
	equal(t, "of nothing", st, storage.BudgetState{})

	g, err := s.GrantBudget(ctx, ask("g1", b, 100, 60, 10))
	ok(t, err)
	first := storage.Grant{ID: "g1", Budget: b, Router: "r1", Nanos: 60}
	equal(t, "as much as is wanted", g, first)
	g, err = open(t).GrantBudget(ctx, ask("g1", b, 100, 20, 5))
	ok(t, err)
	equal(t, "the same again", g, first)
	g, err = s.GrantBudget(ctx, ask("g2", b, 100, 60, 10))
	ok(t, err)
	equal(t, "all that is left", g.Nanos, int64(40))
	_, err = s.GrantBudget(ctx, ask("g3", b, 100, 60, 1))
	wantErr(t, "nothing is left", err, storage.ErrBudgetSpent)

	// The limit was raised: what is missing is granted. Lowered: nothing is.
	_, err = s.GrantBudget(ctx, ask("g3", b, 109, 60, 10))
	wantErr(t, "less than the least is left", err, storage.ErrBudgetSpent)
	g, err = s.GrantBudget(ctx, ask("g3", b, 110, 60, 10))
	ok(t, err)
	equal(t, "just the least is left", g.Nanos, int64(10))
	_, err = s.GrantBudget(ctx, ask("g4", b, 50, 60, 1))
	wantErr(t, "more was granted than there is", err, storage.ErrBudgetSpent)

	// Others are others.
	for name, other := range map[string]storage.BudgetPeriod{
		"key": dayOf("k2"), "period": {KeyID: "k", Period: storage.PeriodTotal}, "day": {KeyID: "k", Period: storage.PeriodDay, Start: epoch.Add(24 * time.Hour)},
	} {
		g, err := s.GrantBudget(ctx, ask("other "+name, other, 5, 9, 1))
		ok(t, err)
		equal(t, "of another "+name, g.Nanos, int64(5))
	}
	_, err = s.GrantBudget(ctx, ask("g1", dayOf("k2"), 100, 1, 1))
	wantErr(t, "the ID of another budget", err, storage.ErrExists)
	stolen := ask("g1", b, 100, 1, 1)
	stolen.Router = "r2"
	_, err = s.GrantBudget(ctx, stolen)
	wantErr(t, "the ID of another router", err, storage.ErrExists)

	st, err = s.Budget(ctx, b)
	ok(t, err)
	equal(t, "granted", st, storage.BudgetState{GrantedNanos: 110})
	sound(t, s)
}

func testReturn(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	b := dayOf("k")
	for _, r := range []storage.GrantRequest{ask("g2", b, 100, 40, 1), ask("g1", b, 100, 30, 1)} {
		_, err := s.GrantBudget(ctx, r)
		ok(t, err)
	}
	wantErr(t, "more than was granted", s.ReturnBudget(ctx, "g1", 31, epoch), storage.ErrInvalid)
	wantErr(t, "less than nothing", s.ReturnBudget(ctx, "g1", -1, epoch), storage.ErrInvalid)
	wantErr(t, "what was not granted", s.ReturnBudget(ctx, "none", 1, epoch), storage.ErrNotFound)
	ok(t, s.ReturnBudget(ctx, "g1", 25, epoch))
	ok(t, s.ReturnBudget(ctx, "g1", 30, epoch.Add(time.Hour)))
	st, err := s.Budget(ctx, b)
	ok(t, err)
	equal(t, "granted", st.GrantedNanos, int64(45))
	grants, err := s.ListGrants(ctx, b)
	ok(t, err)
	equal(t, "grants", grants, []storage.Grant{{ID: "g2", Budget: b, Router: "r1", Nanos: 40}})

	// Its identity is remembered: asked for again it is the same, not another.
	g, err := s.GrantBudget(ctx, ask("g1", b, 100, 99, 1))
	ok(t, err)
	equal(t, "a grant that was given back", g.Nanos, int64(30))
	st, err = s.Budget(ctx, b)
	ok(t, err)
	equal(t, "granted still", st.GrantedNanos, int64(45))

	for i := range 3 {
		r := ask(fmt.Sprintf("z%d", 3-i), b, 100, 1, 1)
		r.At = epoch.Add(time.Duration(i) * time.Second)
		_, err := s.GrantBudget(ctx, r)
		ok(t, err)
	}
	grants, err = s.ListGrants(ctx, b)
	ok(t, err)
	var ids []string
	for _, g := range grants {
		ids = append(ids, g.ID)
	}
	equal(t, "the oldest first", ids, []string{"g2", "z3", "z2", "z1"})
	sound(t, s)
}

// Whatever is asked for in whatever order, a budget does what its model does.
func testGrantModel(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	run := 0
	check(t, 15, func(t *rapid.T) {
		run++
		b := dayOf(fmt.Sprintf("key%d", run))
		type grant struct {
			nanos    int64
			returned bool
		}
		model, granted := map[string]*grant{}, int64(0)
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			id := fmt.Sprintf("%s/%d", b.KeyID, rapid.IntRange(0, 4).Draw(t, "id"))
			if rapid.Bool().Draw(t, "grant") {
				least := rapid.Int64Range(1, 20).Draw(t, "least")
				r := ask(id, b, rapid.Int64Range(0, 60).Draw(t, "limit"), least+rapid.Int64Range(0, 20).Draw(t, "more"), least)
				g, err := s.GrantBudget(ctx, r)
				left := r.LimitNanos - granted
				switch old := model[id]; {
				case old != nil:
					if err != nil || g.Nanos != old.nanos {
						t.Fatalf("a grant of %d became %v, %v", old.nanos, g, err)
					}
				case left < least:
					if !errors.Is(err, storage.ErrBudgetSpent) || g != (storage.Grant{}) {
						t.Fatalf("%d are left, %d asked for: %v, %v", left, least, g, err)
					}
				default:
					want := min(left, r.WantNanos)
					if err != nil || g.Nanos != want {
						t.Fatalf("%d are left: %v, %v; want %d", left, g, err, want)
					}
					model[id] = &grant{nanos: want}
					granted += want
				}
			} else {
				unspent := rapid.Int64Range(-1, 30).Draw(t, "unspent")
				err := s.ReturnBudget(ctx, id, unspent, epoch)
				switch g := model[id]; {
				case g == nil:
					if !errors.Is(err, storage.ErrNotFound) {
						t.Fatalf("no grant: %v", err)
					}
				case g.returned:
					if err != nil {
						t.Fatalf("given back again: %v", err)
					}
				case unspent < 0 || unspent > g.nanos:
					if !errors.Is(err, storage.ErrInvalid) {
						t.Fatalf("%d of %d: %v", unspent, g.nanos, err)
					}
				default:
					if err != nil {
						t.Fatal(err)
					}
					g.returned = true
					granted -= unspent
				}
			}
			if st, err := s.Budget(ctx, b); err != nil || st.GrantedNanos != granted {
				t.Fatalf("granted %v, %v; want %d", st, err, granted)
			}
		}
	})
	sound(t, s)
}

// Many ask at once, in two processes, some twice: what they get is never more
// than the limit, and all of it.
func testGrantConcurrent(t *testing.T, open Open) {
	ctx := t.Context()
	stores := []storage.Store{open(t), open(t)}
	const askers, limit = 16, 1000
	b := dayOf("k")
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		got  = map[string]int64{}
		refs int
	)
	for a := range askers {
		wg.Go(func() {
			for i := range 6 {
				id := fmt.Sprintf("g%d-%d", a/2, i) // each by two
				g, err := stores[a%2].GrantBudget(ctx, ask(id, b, limit, int64(30+i), 7))
				mu.Lock()
				switch {
				case errors.Is(err, storage.ErrBudgetSpent):
					refs++
				case err != nil:
					t.Errorf("%s: %v", id, err)
				case got[id] != 0 && got[id] != g.Nanos:
					t.Errorf("%s was granted twice: %d and %d", id, got[id], g.Nanos)
				default:
					got[id] = g.Nanos
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	var sum int64
	for _, n := range got {
		sum += n
	}
	st, err := stores[0].Budget(ctx, b)
	ok(t, err)
	equal(t, "granted", st.GrantedNanos, sum)
	if sum > limit || sum <= limit-7 || refs == 0 {
		t.Errorf("%d of %d were granted, %d refused; want all but less than 7, and some refused", sum, limit, refs)
	}
	sound(t, stores[1])
}

func testBudgetPrune(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	days := make([]storage.BudgetPeriod, 4)
	for i := range days {
		days[i] = dayOf("k")
		days[i].Start = epoch.Add(time.Duration(i) * 24 * time.Hour)
		for j := range 3 {
			_, err := s.GrantBudget(ctx, ask(fmt.Sprintf("g%d-%d", i, j), days[i], 100, 10, 1))
			ok(t, err)
		}
	}
	total := storage.BudgetPeriod{KeyID: "k", Period: storage.PeriodTotal}
	for _, id := range []string{"t0", "t1"} {
		_, err := s.GrantBudget(ctx, ask(id, total, 100, 10, 1))
		ok(t, err)
	}
	ok(t, s.ReturnBudget(ctx, "t0", 4, epoch))
	u := simpleUsage(1)
	u.Charged = &days[0]
	_, err := s.InsertUsage(ctx, []storage.Usage{u})
	ok(t, err)

	deleted, calls := 0, 0
	for more := true; more; calls++ {
		var n int
		n, more, err = s.PruneBudgets(ctx, days[2].Start, 4)
		ok(t, err)
		if n > 4 || calls > 9 {
			t.Fatalf("%d rows in call %d; want at most 4", n, calls)
		}
		deleted += n
	}
	equal(t, "deleted", deleted, 2*(1+3)+1)
	for i, want := range []int64{0, 0, 30, 30} {
		st, err := s.Budget(ctx, days[i])
		ok(t, err)
		equal(t, fmt.Sprintf("granted on day %d", i), st.GrantedNanos, want)
	}
	st, err := s.Budget(ctx, total)
	ok(t, err)
	equal(t, "granted in total", st.GrantedNanos, int64(16))
	wantErr(t, "a grant that was forgotten", s.ReturnBudget(ctx, "t0", 1, epoch), storage.ErrNotFound)
	ok(t, s.ReturnBudget(ctx, "t1", 10, epoch))
	sound(t, s)
}

func testRouters(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	live := func(id string, ttl time.Duration) int {
		t.Helper()
		n, err := s.RenewRouter(ctx, id, ttl)
		ok(t, err)
		return n
	}
	equal(t, "alone", live("a", time.Hour), 1)
	equal(t, "renewed", live("a", time.Hour), 1)
	equal(t, "two", live("b", time.Hour), 2)
	n, err := open(t).RenewRouter(ctx, "c", time.Hour)
	ok(t, err)
	equal(t, "three, in two processes", n, 3)
	ok(t, s.RemoveRouter(ctx, "b"))
	ok(t, s.RemoveRouter(ctx, "b"))
	equal(t, "one ended", live("a", time.Hour), 2)

	// c is silent: with a short life it is not counted soon.
	deadline := time.Now().Add(10 * time.Second)
	for live("a", time.Millisecond) != 1 {
		if time.Now().After(deadline) {
			t.Fatal("a silent router lives on")
		}
	}
	equal(t, "with a long life it is", live("a", time.Hour), 2)
	for _, ttl := range []time.Duration{0, -time.Second, 25 * time.Hour} {
		_, err := s.RenewRouter(ctx, "a", ttl)
		wantErr(t, "a life of "+ttl.String(), err, storage.ErrInvalid)
	}
}
