package limit

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// charged is an entry of the exact log that windows are compared with.
type charged struct {
	at               time.Time
	requests, tokens int64
}

// within sums up what came in the last d before now.
func within(log []charged, now time.Time, d time.Duration) (requests, tokens int64) {
	for _, c := range log {
		if now.Sub(c.at) < d {
			requests += c.requests
			tokens += c.tokens
		}
	}
	return requests, tokens
}

func newTestLimiter(t interface{ Fatal(...any) }, src Source) *Limiter {
	l, err := New(DefaultConfig(), Deps{Source: src})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func day0() time.Time { return time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC) }

// In no minute, wherever it begins, does more pass than the limits; and what an
// exact log of 61 seconds has room for passes.
func TestWindowAgainstExactLog(t *testing.T) { rapid.Check(t, windowAgainstExactLog) }

func FuzzWindowAgainstExactLog(f *testing.F) { f.Fuzz(rapid.MakeFuzz(windowAgainstExactLog)) }

func windowAgainstExactLog(t *rapid.T) {
	l := newTestLimiter(t, nil)
	s := &Subject{ID: "k", Limits: Limits{
		RequestsPerMinute: rapid.Int64Range(1, 20).Draw(t, "rpm"),
		TokensPerMinute:   rapid.Int64Range(1, 1000).Draw(t, "tpm"),
	}}
	now := day0()
	var latest time.Time // callers may be slower to the lock than others
	var log []charged
	type open struct {
		res *Reservation
		i   int
	}
	var running []open
	for range rapid.IntRange(1, 150).Draw(t, "steps") {
		step := rapid.SampledFrom([]time.Duration{0, time.Nanosecond, 20 * time.Millisecond, 999 * time.Millisecond, time.Second, 7 * time.Second, 59990 * time.Millisecond, 61 * time.Second}).Draw(t, "step")
		late := rapid.SampledFrom([]time.Duration{0, 0, 0, time.Millisecond, 3 * time.Second}).Draw(t, "late")
		now = now.Add(step)
		at := now.Add(-late)
		if at.After(latest) {
			latest = at
		}
		if len(running) > 0 && rapid.IntRange(0, 2).Draw(t, "settle") == 0 {
			i := rapid.IntRange(0, len(running)-1).Draw(t, "which")
			o := running[i]
			running = append(running[:i], running[i+1:]...)
			c := &log[o.i]
			if rapid.Bool().Draw(t, "undo") {
				o.res.Undo(at)
				// What has left the window cannot be given back, and is not needed.
				c.requests, c.tokens = 0, 0
			} else {
				c.tokens = rapid.Int64Range(0, c.tokens).Draw(t, "real")
				o.res.Settle(at, Actual{Tokens: c.tokens})
			}
			continue
		}
		n := rapid.Int64Range(0, s.Limits.TokensPerMinute).Draw(t, "tokens")
		res, err := l.TryAcquire(at, s, Request{Tokens: n})
		if err == nil {
			log = append(log, charged{latest, 1, n})
			running = append(running, open{res, len(log) - 1})
		}
		requests, tokens := within(log, latest, Window)
		if requests > s.Limits.RequestsPerMinute || tokens > s.Limits.TokensPerMinute {
			t.Fatalf("in the minute before %v: %d requests of %d, %d tokens of %d", latest, requests, s.Limits.RequestsPerMinute, tokens, s.Limits.TokensPerMinute)
		}
		if err != nil {
			requests, tokens = within(log, latest, Window+time.Duration(grain))
			if requests+1 <= s.Limits.RequestsPerMinute && tokens+n <= s.Limits.TokensPerMinute {
				t.Fatalf("refused at %v with %d requests and %d tokens in 61 s, and %d asked for: %v", latest, requests, tokens, n, err)
			}
		}
	}
	if w := l.shard("k").subjects["k"].window; w != nil && w.next-w.oldest > ring-2 {
		t.Fatalf("%d buckets are in use; a ring has %d", w.next-w.oldest, ring)
	}
}

// Who asks again when told to passes, and not a moment before.
func TestRetryAfterIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newTestLimiter(t, nil)
		s := &Subject{ID: "k", Limits: Limits{RequestsPerMinute: rapid.Int64Range(1, 10).Draw(t, "rpm"), TokensPerMinute: 100}}
		now := day0()
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(5*time.Second)).Draw(t, "step")))
			r := Request{Tokens: rapid.Int64Range(0, 100).Draw(t, "tokens")}
			res, err := l.TryAcquire(now, s, r)
			if err == nil {
				res.Settle(now, Actual{Tokens: rapid.Int64Range(0, 150).Draw(t, "real")})
				continue
			}
			e := err.(*LimitedError) //nolint:errorlint // it is made here
			if e.RetryAfter <= 0 || !e.Reason.Retriable() {
				t.Fatalf("%+v", e)
			}
			if debt := l.State(now, s).Debt; debt > 0 {
				// What debts take the place of may leave a grain later, each window.
				now = now.Add(e.RetryAfter + time.Duration(grain*(2+debt/100)))
			} else {
				if _, err := l.TryAcquire(now.Add(e.RetryAfter-1), s, r); err == nil {
					t.Fatalf("%+v: passed before that", e)
				}
				now = now.Add(e.RetryAfter)
			}
			if _, err := l.TryAcquire(now, s, r); err != nil {
				t.Fatalf("%+v: and then %v", e, err)
			}
		}
	})
}

// A subject that always says 1 and uses much more gets no more than its limit in
// the long run, one window late.
func TestUnderestimatesAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newTestLimiter(t, nil)
		s := &Subject{ID: "k", Limits: Limits{TokensPerMinute: 100}}
		begin := day0()
		now := begin
		var used int64
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(40*time.Second)).Draw(t, "step")))
			res, err := l.TryAcquire(now, s, Request{Tokens: 1})
			if err != nil {
				continue
			}
			// All that was used before has had its turn in a window.
			if most := float64(100) * (now.Sub(begin) + Window + time.Duration(grain)).Minutes(); float64(used+1) > most {
				t.Fatalf("%d tokens passed in %v; %.0f may", used+1, now.Sub(begin), most)
			}
			n := rapid.Int64Range(0, 500).Draw(t, "real")
			res.Settle(now, Actual{Tokens: n})
			used += n
		}
	})
}

// While a subject is away its debts are repaid at the times at which they would
// have been had it asked.
func TestDebtIsRepaidWhileAway(t *testing.T) {
	s := &Subject{ID: "k", Limits: Limits{TokensPerMinute: 100}}
	debtor := func(t *testing.T) *Limiter {
		l := newTestLimiter(t, nil)
		res, err := l.TryAcquire(day0(), s, Request{Tokens: 10})
		if err != nil {
			t.Fatal(err)
		}
		res.Settle(day0(), Actual{Tokens: 350})
		return l
	}
	asks, away := debtor(t), debtor(t)
	for sec := range 200 {
		_, _ = asks.TryAcquire(day0().Add(time.Duration(sec)*time.Second), s, Request{Tokens: 90})
	}
	for _, tt := range []struct {
		after time.Duration
		debt  int64
		left  int64
	}{{0, 250, 0}, {Window, 150, 0}, {2 * Window, 50, 0}, {3*Window - 1, 50, 0}, {3 * Window, 0, 50}, {4 * Window, 0, 100}} {
		st := away.State(day0().Add(tt.after), s)
		if st.Debt != tt.debt || st.Rates.Tokens.Remaining != tt.left {
			t.Errorf("after %v: %+v; want debt %d, remaining %d", tt.after, st, tt.debt, tt.left)
		}
	}
	now := day0().Add(200 * time.Second)
	if a, b := asks.State(now, s), away.State(now, s); a.Debt != b.Debt || a.Rates.Tokens.Remaining != b.Rates.Tokens.Remaining {
		t.Errorf("who asked has %+v, who was away %+v", a, b)
	}
}

func TestClockJumps(t *testing.T) {
	s := &Subject{ID: "k", Limits: Limits{RequestsPerMinute: 2}}
	burst := func(l *Limiter, now time.Time) (passed int) {
		for range 5 {
			if _, err := l.TryAcquire(now, s, Request{}); err == nil {
				passed++
			}
		}
		return passed
	}
	for _, jump := range []time.Duration{-time.Second, -9 * time.Second, -11 * time.Second, -time.Hour, -20000 * time.Hour} {
		l := newTestLimiter(t, nil)
		now := day0()
		if n := burst(l, now); n != 2 {
			t.Fatalf("%d passed at first; want 2", n)
		}
		now = now.Add(jump)
		if n := burst(l, now); n != 0 {
			t.Errorf("%d passed after a jump of %v; want none", n, jump)
		}
		if n := burst(l, now.Add(30*time.Second)); n != 0 {
			t.Errorf("%d passed half a minute after a jump of %v; want none", n, jump)
		}
		if n := burst(l, now.Add(Window+time.Duration(slack))); n != 2 {
			t.Errorf("%d passed a minute after a jump of %v; want 2", n, jump)
		}
	}
	// Forth and back: one window of the future, none of the past.
	l := newTestLimiter(t, nil)
	now := day0()
	if n := burst(l, now) + burst(l, now.Add(24*time.Hour)) + burst(l, now.Add(time.Second)); n != 4 {
		t.Errorf("%d passed; want 4", n)
	}
}

// With readings of the monotonic clock nothing depends on the wall clock. A
// time with such a reading cannot be made with another wall clock, so what is
// tested is that it is the difference of times that counts.
func TestWindowCountsDifferences(t *testing.T) {
	l := newTestLimiter(t, nil)
	now := time.Now()
	s := &Subject{ID: "k", Limits: Limits{RequestsPerMinute: 1}}
	if _, err := l.TryAcquire(now, s, Request{}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.TryAcquire(now.Add(Window-1).In(time.FixedZone("", 3600)), s, Request{}); err == nil {
		t.Error("passed within the minute")
	}
	if _, err := l.TryAcquire(now.Add(Window).UTC(), s, Request{}); err != nil {
		t.Error(err)
	}
}
