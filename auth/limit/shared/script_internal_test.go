package shared

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/auth/limit"
)

type charged struct {
	at               time.Time
	requests, tokens int64
}

func within(log []charged, now time.Time, d time.Duration) (requests, tokens int64) {
	for _, c := range log {
		if now.Sub(c.at) < d {
			requests += c.requests
			tokens += c.tokens
		}
	}
	return requests, tokens
}

// As the windows in memory: never more than the limits in any minute, and what
// an exact log of 61 seconds has room for passes.
func TestScriptAgainstExactLog(t *testing.T) {
	s := startServer(t)
	l := s.router("a", Deps{})
	c := s.clock(l)
	rapid.Check(t, func(rt *rapid.T) {
		if err := s.user.FlushDB(t.Context()).Err(); err != nil {
			rt.Fatal(err)
		}
		lim := limit.Limits{RequestsPerMinute: rapid.Int64Range(1, 20).Draw(rt, "rpm"), TokensPerMinute: rapid.Int64Range(1, 1000).Draw(rt, "tpm")}
		c.set(time.Date(2026, 3, 2, 9, 0, 0, 123_000, time.UTC))
		var log []charged
		type open struct {
			i      int
			second int64
		}
		var running []open
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			step := rapid.SampledFrom([]time.Duration{0, time.Microsecond, 20 * time.Millisecond, 999 * time.Millisecond, time.Second, 7 * time.Second, 59990 * time.Millisecond, 61 * time.Second}).Draw(rt, "step")
			c.set(c.now.Add(step))
			if len(running) > 0 && rapid.IntRange(0, 2).Draw(rt, "settle") == 0 {
				i := rapid.IntRange(0, len(running)-1).Draw(rt, "which")
				o := running[i]
				running = append(running[:i], running[i+1:]...)
				e := &log[o.i]
				m := call{mode: modeSettle, subject: "k", limits: lim, tokens: e.tokens, second: o.second}
				if m.undone = rapid.Bool().Draw(rt, "undo"); m.undone {
					*e = charged{}
				} else {
					m.real = rapid.Int64Range(0, e.tokens).Draw(rt, "real")
					e.tokens = m.real
				}
				if _, err := l.run(t.Context(), &m); err != nil {
					rt.Fatal(err)
				}
				continue
			}
			n := rapid.Int64Range(0, lim.TokensPerMinute).Draw(rt, "tokens")
			a, err := l.run(t.Context(), &call{mode: modeAcquire, subject: "k", limits: lim, tokens: n})
			if err != nil {
				rt.Fatal(err)
			}
			if a.refused == 0 {
				log = append(log, charged{c.now, 1, n})
				running = append(running, open{len(log) - 1, a.second})
			}
			requests, tokens := within(log, c.now, limit.Window)
			if requests > lim.RequestsPerMinute || tokens > lim.TokensPerMinute {
				rt.Fatalf("in the minute before %v: %d requests, %d tokens of %+v", c.now, requests, tokens, lim)
			}
			if a.requests < requests || a.tokens < tokens {
				rt.Fatalf("%+v is counted; it was %d requests, %d tokens", a, requests, tokens)
			}
			if a.refused == 0 {
				continue
			}
			if requests, tokens = within(log, c.now, limit.Window+time.Second); requests+1 <= lim.RequestsPerMinute && tokens+n <= lim.TokensPerMinute {
				rt.Fatalf("refused (%+v) with %d requests and %d tokens in 61 s of %+v, and %d asked for", a, requests, tokens, lim, n)
			}
			// Who waits as told passes.
			if a.wait <= 0 || a.wait > limit.Window+time.Second {
				rt.Fatalf("told to wait %v", a.wait)
			}
			if p, err := l.run(t.Context(), &call{mode: modePeek, subject: "k", limits: lim, tokens: n}); err != nil || p != a {
				rt.Fatalf("a look gives %+v, %v; want %+v", p, err, a)
			}
			if rapid.Bool().Draw(rt, "waits") {
				c.set(c.now.Add(a.wait))
				a, err := l.run(t.Context(), &call{mode: modeAcquire, subject: "k", limits: lim, tokens: n})
				if err != nil || a.refused != 0 {
					rt.Fatalf("after the wait: %+v, %v", a, err)
				}
				log = append(log, charged{c.now, 1, n})
				running = append(running, open{len(log) - 1, a.second})
			}
		}
	})
}

// Who always says 1 gets what the limit allows, and the debt is the one that
// windows in memory have.
func TestScriptDebt(t *testing.T) {
	s := startServer(t)
	l := s.router("a", Deps{})
	c := s.clock(l)
	lim := limit.Limits{TokensPerMinute: 100}
	do := func(m call) answer {
		t.Helper()
		m.subject, m.limits = "k", lim
		a, err := l.run(t.Context(), &m)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	begin := c.now
	a := do(call{mode: modeAcquire, tokens: 10})
	do(call{mode: modeSettle, tokens: 10, real: 350, second: a.second})
	for _, tt := range []struct {
		after        time.Duration
		debt, tokens int64
		refused      bool
	}{
		{0, 250, 100, true},
		{59 * time.Second, 250, 100, true},
		{61 * time.Second, 150, 100, true},
		{122 * time.Second, 50, 100, true},
		{182 * time.Second, 50, 100, true},
		{183 * time.Second, 0, 50, false},
		{244 * time.Second, 0, 0, false},
	} {
		c.set(begin.Add(tt.after))
		if a := do(call{mode: modePeek, tokens: 1}); a.debt != tt.debt || a.tokens != tt.tokens || (a.refused != 0) != tt.refused {
			t.Errorf("after %v: %+v; want debt %d, %d tokens", tt.after, a, tt.debt, tt.tokens)
		}
	}
}

func TestScriptClockSetBack(t *testing.T) {
	s := startServer(t)
	l := s.router("a", Deps{})
	c := s.clock(l)
	lim := limit.Limits{RequestsPerMinute: 2, TokensPerMinute: 10}
	burst := func() (n int) {
		for range 5 {
			if a, err := l.run(t.Context(), &call{mode: modeAcquire, subject: "k", limits: lim, tokens: 2}); err != nil {
				t.Fatal(err)
			} else if a.refused == 0 {
				n++
			}
		}
		return n
	}
	for _, back := range []time.Duration{time.Second, 9 * time.Second, 11 * time.Second, time.Hour, 10000 * time.Hour} {
		s.user.FlushDB(t.Context())
		c.set(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC))
		first := burst()
		c.set(c.now.Add(-back))
		after := burst()
		c.set(c.now.Add(59 * time.Second))
		later := burst()
		c.set(c.now.Add(13 * time.Second))
		if last := burst(); first != 2 || after != 0 || later != 0 || last != 2 {
			t.Errorf("set back by %v: %d, %d, %d, %d passed; want 2, 0, 0, 2", back, first, after, later, last)
		}
	}
}

// Places hold for half a minute unless they are said anew; of two messages the
// later one counts, in whatever order they come.
func TestScriptPlaces(t *testing.T) {
	s := startServer(t)
	a, b := s.router("a", Deps{}), s.router("b", Deps{})
	c := s.clock(a, b)
	lim := limit.Limits{Concurrency: 3}
	say := func(l *Limiter, mode string, order uint64, n int64) answer {
		t.Helper()
		got, err := l.run(t.Context(), &call{mode: mode, subject: "k", limits: lim, place: limit.Place{Order: order, Inflight: n}})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	steps := []struct {
		name     string
		after    time.Duration
		l        *Limiter
		mode     string
		order    uint64
		n        int64
		refused  int64
		underway int64
	}{
		{"the first", 0, a, modeAcquire, 1, 1, 0, 1},
		{"another's", 0, b, modeAcquire, 1, 1, 0, 2},
		{"the third, which was later than", 0, a, modeAcquire, 3, 3, refusedByConcurrency, 2},
		{"the second", 0, a, modeAcquire, 2, 2, 0, 3},
		{"an old message", 0, a, modeRenew, 1, 1, 0, 3},
		{"one ends", 0, a, modeRenew, 4, 1, 0, 2},
		{"both overtake: the later one", 0, a, modeAcquire, 6, 2, 0, 3},
		{"and the earlier one, which it counted in", 0, a, modeAcquire, 5, 2, 0, 3},
		{"said anew", 20 * time.Second, a, modeRenew, 7, 2, 0, 3},
		{"b was killed", 29 * time.Second, a, modeRenew, 8, 2, 0, 2},
		{"there is place", 0, a, modeAcquire, 9, 3, 0, 3},
		{"and no more", 0, b, modeAcquire, 2, 1, refusedByConcurrency, 3},
	}
	for _, st := range steps {
		c.set(c.now.Add(st.after))
		got := say(st.l, st.mode, st.order, st.n)
		if got.refused != st.refused || got.inflight != st.underway {
			t.Errorf("%s: refused by %d with %d under way; want %d, %d", st.name, got.refused, got.inflight, st.refused, st.underway)
		}
	}
}

// Keys go by themselves, and nothing is made by a look.
func TestKeysExpire(t *testing.T) {
	s := startServer(t)
	l := s.router("a", Deps{})
	sub := &limit.Subject{ID: "a key \x00 of any bytes", Limits: limit.Limits{RequestsPerMinute: 5, TokensPerMinute: 100, Concurrency: 2}}
	l.State(t.Context(), time.Now(), sub)
	if n := s.user.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("a look made %d keys", n)
	}
	if _, err := l.Acquire(t.Context(), time.Now(), sub, limit.Request{Tokens: 10}); err != nil {
		t.Fatal(err)
	}
	keys := s.user.Keys(t.Context(), "*").Val()
	if len(keys) != 2 {
		t.Errorf("keys %q; want 2", keys)
	}
	for _, k := range keys {
		if ttl := s.user.TTL(t.Context(), k).Val(); ttl <= 0 || ttl > 80*time.Second {
			t.Errorf("%s expires in %v", k, ttl)
		}
	}
}
