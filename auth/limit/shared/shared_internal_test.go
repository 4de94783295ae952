package shared

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/auth/limit"
)

// Three routers at once let exactly the limit through.
func TestRoutersShareLimits(t *testing.T) {
	s := startServer(t)
	routers := []*Limiter{s.router("a", Deps{}), s.router("b", Deps{}), s.router("c", Deps{})}
	for _, tt := range []struct {
		name   string
		limits limit.Limits
		reason limit.Reason
	}{
		{"requests", limit.Limits{RequestsPerMinute: 20}, limit.ReasonRequests},
		{"tokens", limit.Limits{TokensPerMinute: 209}, limit.ReasonTokens},
		{"concurrency", limit.Limits{Concurrency: 20}, limit.ReasonConcurrency},
		{"all", limit.Limits{RequestsPerMinute: 50, TokensPerMinute: 209, Concurrency: 50}, limit.ReasonTokens},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sub := &limit.Subject{ID: tt.name, Limits: tt.limits}
			var n atomic.Int64
			var wg sync.WaitGroup
			for _, l := range routers {
				for range 25 {
					wg.Go(func() {
						res, err := l.Acquire(t.Context(), time.Now(), sub, limit.Request{Tokens: 10})
						if err == nil {
							n.Add(1)
							if r := res.Rates(); r.Requests.Limit != tt.limits.RequestsPerMinute || r.Tokens.Limit != tt.limits.TokensPerMinute {
								t.Errorf("%+v", r)
							}
							return
						}
						if e, ok := errors.AsType[*limit.LimitedError](err); !ok || e.Reason != tt.reason || e.RetryAfter <= 0 || e.RetryAfter > limit.Window || e.Subject != tt.name {
							t.Errorf("%v; want %v", err, tt.reason)
						}
					})
				}
			}
			wg.Wait()
			if n.Load() != 20 {
				t.Errorf("%d passed; want 20", n.Load())
			}
		})
	}
}

// What a request came to is known to all routers, and its place is free.
func TestSettleIsShared(t *testing.T) {
	s := startServer(t)
	a, b := s.router("a", Deps{}), s.router("b", Deps{})
	run(t, a)
	run(t, b)
	sub := &limit.Subject{ID: "k", Limits: limit.Limits{RequestsPerMinute: 100, TokensPerMinute: 1000, Concurrency: 1}}
	res, err := a.Acquire(t.Context(), time.Now(), sub, limit.Request{Tokens: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Acquire(t.Context(), time.Now(), sub, limit.Request{Tokens: 1}); !errors.Is(err, limit.ErrLimited) {
		t.Errorf("%v; want it refused", err)
	}
	// Redis forgets its scripts, as it does when it is started anew.
	s.user.ScriptFlush(t.Context())
	res.Settle(time.Now(), limit.Actual{Tokens: 300})
	res.Settle(time.Now(), limit.Actual{Tokens: 3})
	eventually(t, "b knows what it came to", func() bool {
		st := b.State(t.Context(), time.Now(), sub)
		return st.Rates.Tokens.Remaining == 700 && st.Rates.Requests.Remaining == 99 && st.Inflight == 0
	})
	res, err = b.Acquire(t.Context(), time.Now(), sub, limit.Request{Tokens: 700})
	if err != nil {
		t.Fatal(err)
	}
	if r := res.Rates(); r.Tokens.Remaining != 0 || r.Requests.Remaining != 98 || r.Requests.Reset <= 59*time.Second || r.Requests.Reset > 61*time.Second {
		t.Errorf("%+v", r)
	}
	res.Undo(time.Now())
	eventually(t, "it never was", func() bool {
		st := a.State(t.Context(), time.Now(), sub)
		return st.Rates.Tokens.Remaining == 700 && st.Rates.Requests.Remaining == 99 && st.Inflight == 0
	})
}

// A subject of which only requests at once are bounded.
func TestPlacesAreFreed(t *testing.T) {
	s := startServer(t)
	a, b := s.router("a", Deps{}), s.router("b", Deps{})
	run(t, a)
	sub := &limit.Subject{ID: "k", Limits: limit.Limits{Concurrency: 1}}
	res, err := a.Acquire(t.Context(), time.Now(), sub, limit.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if st := b.State(t.Context(), time.Now(), sub); st.Inflight != 1 || st.Concurrency != 1 {
		t.Errorf("%+v; want 1 of 1", st)
	}
	if _, err := a.renewPlaces(t.Context()); err != nil {
		t.Error(err)
	}
	res.Settle(time.Now(), limit.Actual{Tokens: 5})
	eventually(t, "the place is free", func() bool {
		_, err := b.Acquire(t.Context(), time.Now(), sub, limit.Request{})
		return err == nil
	})
}

// routersOf is a store that says how many routers live.
type routersOf struct {
	mu      sync.Mutex
	live    int
	err     error
	removed []string
}

func (r *routersOf) RenewRouter(context.Context, string, time.Duration) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.live, r.err
}

func (r *routersOf) RemoveRouter(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removed = append(r.removed, id)
	return r.err
}

// Redis is stopped in the middle and comes back without its data: nobody waits,
// each router goes on with its part, at most twice the limit passes within the
// minute, it is said once, and it heals by itself.
func TestRedisGoesAndComesBack(t *testing.T) {
	s := startServer(t)
	const lim = 30
	var routers []*Limiter
	var logs []*lines
	reg := prometheus.NewPedanticRegistry()
	for i, id := range []string{"a", "b", "c"} {
		log := &lines{}
		deps := Deps{Routers: &routersOf{live: 3}, Logger: slog.New(log)}
		if i == 0 {
			deps.Registerer = reg
		}
		routers, logs = append(routers, s.router(id, deps)), append(logs, log)
		run(t, routers[i])
	}
	for _, l := range routers {
		eventually(t, "it knows of the others", func() bool { return l.live.Load() == 3 })
	}
	sub := rpm(lim)
	var n int64
	for _, l := range routers {
		n += passed(t, l, sub, 7)
	}
	if n != 21 {
		t.Fatalf("%d passed; want 21 of 30", n)
	}
	s.stop()
	for _, l := range routers {
		n += passed(t, l, sub, 50)
	}
	if n < lim || n > 2*lim {
		t.Errorf("%d passed in all with Redis away; want 30 to 60", n)
	}
	other := &limit.Subject{ID: "another", Limits: limit.Limits{RequestsPerMinute: lim, TokensPerMinute: 300, Concurrency: 100}}
	if got := passed(t, routers[0], other, 50); got != 10 {
		t.Errorf("%d passed one router with Redis away; want 10 of 30", got)
	}
	_, err := routers[0].Acquire(t.Context(), time.Now(), &limit.Subject{ID: "third", Limits: other.Limits}, limit.Request{Tokens: 101})
	if e, ok := errors.AsType[*limit.LimitedError](err); !ok || e.Reason != limit.ReasonTokens || e.RetryAfter <= 0 {
		t.Errorf("%v; want one that can be tried again, for it fits the whole limit", err)
	}
	if st := routers[0].State(t.Context(), time.Now(), other); st.Rates.Requests.Limit != 10 || st.Rates.Requests.Remaining != 0 {
		t.Errorf("%+v; want this router's part", st.Rates)
	}
	if v := metric(t, reg, "llmgw_limit_redis_away"); v != 1 {
		t.Errorf("llmgw_limit_redis_away is %v", v)
	}
	s.start()
	for i, l := range routers {
		eventually(t, "it is shared again", func() bool {
			_, _ = l.Acquire(t.Context(), time.Now(), &limit.Subject{ID: "free", Limits: limit.Limits{RequestsPerMinute: 1e6}}, limit.Request{})
			return !l.breaker.away()
		})
		if a, b := logs[i].count("WARN redis cannot be asked"), logs[i].count("INFO redis is back"); a != 1 || b != 1 {
			t.Errorf("router %d said %d times that Redis is away and %d times that it is back; want once: %q", i, a, b, logs[i].all)
		}
	}
	last := &limit.Subject{ID: "last", Limits: limit.Limits{RequestsPerMinute: lim}}
	n = 0
	for _, l := range routers {
		n += passed(t, l, last, 50)
	}
	if n != lim {
		t.Errorf("%d passed after Redis came back; want 30", n)
	}
	if v := metric(t, reg, "llmgw_limit_redis_away"); v != 0 {
		t.Errorf("llmgw_limit_redis_away is %v", v)
	}
	if v := metric(t, reg, "llmgw_limit_live_routers"); v != 3 {
		t.Errorf("llmgw_limit_live_routers is %v", v)
	}
}

// One who goes to another router each time uses a limit by Redis, then by the
// routers' parts, and then by a Redis that was started without its data: even
// so no more than twice the limit passes within the minute.
func TestRedisForgets(t *testing.T) {
	s := startServer(t)
	const lim = 30
	log := &lines{}
	reg := prometheus.NewPedanticRegistry()
	routers := []*Limiter{s.router("a", Deps{Logger: slog.New(log), Registerer: reg}), s.router("b", Deps{}), s.router("c", Deps{})}
	for _, l := range routers {
		l.live.Store(3)
	}
	routers[0].cfg.RedisTimeout = 5 * time.Second
	sub := rpm(lim)
	n := passed(t, routers[0], sub, 11) // a young Redis: its part
	if n != 10 || log.count("INFO redis was started less than a minute ago") != 1 {
		t.Fatalf("%d passed, said %q; want the part of one of three, and that it was said", n, log.all)
	}
	for _, l := range routers { // as if it had run for a while
		l.young.until.Store(nil)
	}
	if n += passed(t, routers[0], sub, 50); n != lim {
		t.Fatalf("%d passed; want 30", n)
	}
	s.stop()
	n += passed(t, routers[1], sub, 50)
	s.start()
	for range 3 {
		for _, l := range routers {
			eventually(t, "it is shared again", func() bool {
				_, _ = l.Acquire(t.Context(), time.Now(), &limit.Subject{ID: "free", Limits: limit.Limits{RequestsPerMinute: 1e6}}, limit.Request{})
				return !l.breaker.away()
			})
			n += passed(t, l, sub, 50)
		}
	}
	if n > 2*lim || n < lim+lim*2/3 {
		t.Errorf("%d passed within a minute; want 50 to 60, twice the limit", n)
	}
	if st := routers[2].State(t.Context(), time.Now(), sub); st.Rates.Requests.Limit != lim/3 || st.Rates.Requests.Remaining != 0 {
		t.Errorf("%+v; want what is here", st.Rates)
	}
	if v := metric(t, reg, "llmgw_limit_redis_young"); v != 1 {
		t.Errorf("llmgw_limit_redis_young is %v", v)
	}
	routers[0].young.until.Store(nil)
	if v := metric(t, reg, "llmgw_limit_redis_young"); v != 0 {
		t.Errorf("llmgw_limit_redis_young is %v", v)
	}
}

// How long a server has run is told by all there are.
func TestUptime(t *testing.T) {
	for info, want := range map[string]time.Duration{
		"# Server\r\nredis_version:7.0\r\nuptime_in_seconds:42\r\nuptime_in_days:0\r\n": 42 * time.Second,
		"uptime_in_seconds:0": 0, "uptime_in_days:1": -1, "uptime_in_seconds:": -1, "uptime_in_seconds:-4\r\n": -1,
	} {
		if got, ok := uptime(info); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %v, %t; want %v", info, got, ok, want)
		}
	}
}

// Who may not ask Redis for how long it has run shares rates all the same.
func TestInfoIsForbidden(t *testing.T) {
	s := startServer(t)
	if err := s.user.Do(t.Context(), "ACL", "SETUSER", "default", "-info").Err(); err != nil {
		t.Fatal(err)
	}
	l := s.router("a", Deps{})
	l.live.Store(3)
	if n := passed(t, l, rpm(30), 50); n != 30 || l.metrics.asked.Load() == 0 {
		t.Errorf("%d passed; want 30, by Redis", n)
	}
}

// A Redis that hangs costs three requests the wait, and then one a second.
func TestRedisHangs(t *testing.T) {
	s := startServer(t)
	l := s.router("a", Deps{})
	l.cfg.RedisTimeout = 30 * time.Millisecond
	eventually(t, "there is a connection", func() bool {
		_, err := l.run(t.Context(), &call{mode: modePeek, subject: "k"})
		return err == nil
	})
	s.signal(syscall.SIGSTOP)
	defer s.signal(syscall.SIGCONT)
	now := time.Now()
	for range 500 {
		if _, err := l.Acquire(t.Context(), now, rpm(1000), limit.Request{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := l.metrics.failed.Load(); n != breakAfter {
		t.Errorf("%d requests waited; want %d", n, breakAfter)
	}
	s.signal(syscall.SIGCONT)
	eventually(t, "it is shared again", func() bool {
		now = now.Add(probeEvery)
		if _, err := l.Acquire(t.Context(), now, rpm(1e6), limit.Request{}); err != nil {
			t.Fatal(err)
		}
		return !l.breaker.away()
	})
}

// A replica that may only be read is as good as none.
func TestRedisIsReadOnly(t *testing.T) {
	s := startServer(t)
	l := s.router("a", Deps{})
	if err := s.user.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if n := passed(t, l, rpm(10), 20); n != 10 || !l.breaker.away() {
		t.Errorf("%d passed, away %v; want 10, true", n, l.breaker.away())
	}
}

// A key of somebody else's is left alone and does not take Redis away from
// others.
func TestKeyOfAnotherType(t *testing.T) {
	s := startServer(t)
	log := &lines{}
	l := s.router("a", Deps{Logger: slog.New(log)})
	key := l.keys("k")[0]
	if err := s.user.Set(t.Context(), key, "theirs", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n := passed(t, l, rpm(10), 20); n != 10 {
		t.Errorf("%d passed; want 10", n)
	}
	if l.breaker.away() || log.count("redis_prefix") != 1 {
		t.Errorf("away %v, said %q; want it said once and Redis in use", l.breaker.away(), log.all)
	}
	if v := s.user.Get(t.Context(), key).Val(); v != "theirs" {
		t.Errorf("the key holds %q", v)
	}
	if err := s.user.HSet(t.Context(), l.keys("odd")[0], "o", "what", "R", "is", "T", "this").Err(); err != nil {
		t.Fatal(err)
	}
	if n := passed(t, l, &limit.Subject{ID: "odd", Limits: limit.Limits{RequestsPerMinute: 10}}, 20); n != 10 || l.breaker.away() {
		t.Errorf("%d passed, away %v; want 10, false", n, l.breaker.away())
	}
}

// Without Redis each router has its part, which follows the number of routers.
func TestWithoutRedis(t *testing.T) {
	routers := &routersOf{live: 4}
	cfg := DefaultConfig()
	cfg.RouterTTL = 3 * time.Second
	log := &lines{}
	l, err := New(cfg, Deps{RouterID: "a", Routers: routers, Logger: slog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, l)
	eventually(t, "it knows of the others", func() bool { return l.live.Load() == 4 })
	if n := passed(t, l, rpm(100), 200); n != 25 {
		t.Errorf("%d passed; want 25", n)
	}
	if _, err := l.Acquire(t.Context(), time.Now(), &limit.Subject{ID: "big", Limits: limit.Limits{TokensPerMinute: 100}}, limit.Request{Tokens: 26}); reason(err) != limit.ReasonTooLarge {
		t.Errorf("%v; want one that never passes", err)
	}
	routers.mu.Lock()
	routers.live, routers.err = 1, errors.New("the store is down")
	routers.mu.Unlock()
	eventually(t, "the store cannot be told", func() bool { return log.count("fails; it is tried again") > 0 })
	if n := l.live.Load(); n != 4 {
		t.Errorf("%d routers with the store away; want the 4 last heard of", n)
	}
	routers.mu.Lock()
	routers.err = nil
	routers.mu.Unlock()
	eventually(t, "the others have gone", func() bool { return l.live.Load() == 1 })
	if n := passed(t, l, rpm(100), 200); n != 75 {
		t.Errorf("%d more passed; want 75", n)
	}
	stop()
	if len(routers.removed) != 1 || routers.removed[0] != "a" {
		t.Errorf("removed %q; want a", routers.removed)
	}
	if n := log.count("fails; it is tried again"); n != 1 {
		t.Errorf("said %d times that the store fails: %q", n, log.all)
	}

	// One that no store has heard of has nothing to take back, and says nothing.
	never, quiet := &routersOf{err: errors.New("the store is down")}, &lines{}
	if l, err = New(cfg, Deps{RouterID: "b", Routers: never, Logger: slog.New(quiet)}); err != nil {
		t.Fatal(err)
	}
	stop = run(t, l)
	eventually(t, "the store cannot be told", func() bool { return quiet.count("fails; it is tried again") > 0 })
	stop()
	if len(never.removed) != 0 || quiet.count("has ended") != 0 {
		t.Errorf("removed %q, log %q", never.removed, quiet.all)
	}
}

func reason(err error) limit.Reason {
	if e, ok := errors.AsType[*limit.LimitedError](err); ok {
		return e.Reason
	}
	return 0
}

// What Redis is not told is counted, and never waited for.
func TestQueueIsBounded(t *testing.T) {
	s := startServer(t)
	l := s.router("a", Deps{})
	for range queueLength + 10 {
		l.tell(call{})
	}
	if n := l.metrics.dropped.Load(); n != 10 {
		t.Errorf("%d were dropped; want 10", n)
	}
}

func TestConfig(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for url, ok := range map[string]bool{
		"redis://h:1/0": true, "rediss://u:hunter2@h": true, "unix:///s": true, "redis://h?addr=i:2": true, "redis://h?master_name=m": true,
		"http://u:hunter2@h": false, "redis://u:hunter2@h/x": false, "redis://u:hunter2@h?what=1": false, "redis://u:hunter2@h?addr=i&what=1": false, "redis://u:hunter2@h?master_name=m&what=1": false, "redis://hunter2%zz@h": false,
	} {
		c := DefaultConfig()
		c.RedisURL = url
		switch err := c.Validate(); {
		case (err == nil) != ok:
			t.Errorf("%s: %v", url, err)
		case err != nil && (strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "redis_url")):
			t.Errorf("%s: %v; want the key and no password", url, err)
		}
	}
	err := Config{}.Validate()
	for _, key := range []string{"redis_timeout", "router_ttl", "slice_parts"} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%v does not name %s", err, key)
		}
	}
	if _, err := New(DefaultConfig(), Deps{}); err == nil {
		t.Error("a router without an ID: no error")
	}
	reg := prometheus.NewRegistry()
	if _, err := New(DefaultConfig(), Deps{RouterID: "a", Registerer: reg}); err != nil {
		t.Error(err)
	}
	if _, err := New(DefaultConfig(), Deps{RouterID: "a", Registerer: reg}); err == nil {
		t.Error("two on one registry: no error")
	}
}

func TestPart(t *testing.T) {
	lim := limit.Limits{RequestsPerMinute: 100, TokensPerMinute: 2}
	for live, want := range map[int64]limit.Limits{
		0: lim, 1: lim, 3: {RequestsPerMinute: 33, TokensPerMinute: 1}, 1000: {RequestsPerMinute: 1, TokensPerMinute: 1},
	} {
		if got := Part(lim, live); got != want {
			t.Errorf("of %d: %+v; want %+v", live, got, want)
		}
	}
}

// One call on a socket, and what it came to told afterwards.
func BenchmarkAcquireSettle(b *testing.B) {
	s := startServer(b)
	l := s.router("a", Deps{})
	run(b, l)
	sub := &limit.Subject{ID: "k", Limits: limit.Limits{RequestsPerMinute: 1e9, TokensPerMinute: 1e12, Concurrency: 1e6}}
	b.ReportAllocs()
	for b.Loop() {
		res, err := l.Acquire(b.Context(), time.Now(), sub, limit.Request{Tokens: 100})
		if err != nil {
			b.Fatal(err)
		}
		res.Settle(time.Now(), limit.Actual{Tokens: 90})
	}
	b.ReportMetric(float64(l.metrics.dropped.Load())/float64(b.N), "dropped/op")
}

// A key that is far over its rate costs Redis one call a second, and is refused no
// longer than it would be.
func TestRefusalsAreRepeated(t *testing.T) {
	s := startServer(t)
	a, b := s.router("a", Deps{}), s.router("b", Deps{})
	now := time.Now()
	sub := &limit.Subject{ID: "k", Limits: limit.Limits{RequestsPerMinute: 2, TokensPerMinute: 100}}
	acquire := func(l *Limiter, at time.Time, want limit.Reason) *limit.Reservation {
		t.Helper()
		res, err := l.Acquire(t.Context(), at, sub, limit.Request{Tokens: 1})
		e, _ := errors.AsType[*limit.LimitedError](err)
		if (err == nil) != (want == limit.ReasonUnset) || e != nil && e.Reason != want {
			t.Fatalf("%v; want %v", err, want)
		}
		return res
	}
	acquire(a, now, limit.ReasonUnset)
	acquire(a, now, limit.ReasonUnset)
	const many = 100
	var last *limit.LimitedError
	for i := range many {
		at := now.Add(time.Duration(i) * refusalHolds / many)
		_, err := b.Acquire(t.Context(), at, sub, limit.Request{Tokens: 1})
		e, ok := errors.AsType[*limit.LimitedError](err)
		if !ok || e.Reason != limit.ReasonRequests || e.Limit != 2 || !e.Rates.At.Equal(at) || e.Rates.Requests.Remaining != 0 {
			t.Fatalf("request %d: %v", i, err)
		}
		if step := refusalHolds / many; last != nil && (last.RetryAfter-e.RetryAfter != step || last.Reset-e.Reset != step || last.Rates.Requests.Reset-e.Rates.Requests.Reset != step) {
			t.Fatalf("request %d: %+v after %+v", i, e, last)
		}
		last = e
	}
	if n := b.metrics.asked.Load(); n != 1 {
		t.Errorf("redis was asked %d times", n)
	}
	if n := b.metrics.requests.Load(); n != many {
		t.Errorf("%d refusals are counted", n)
	}
	// Another limit is asked for at once, and the old one after a second.
	sub.Limits.RequestsPerMinute = 3
	acquire(b, now.Add(refusalHolds/2), limit.ReasonUnset)
	sub.Limits.RequestsPerMinute = 2
	acquire(b, now, limit.ReasonRequests)
	s.user.FlushAll(t.Context())
	acquire(b, now.Add(-time.Minute), limit.ReasonUnset) // the clock was set back: no memory of the future
	acquire(b, now.Add(refusalHolds), limit.ReasonUnset)
}

// However many keys are refused, what is remembered of it is bounded.
func TestRefusalsAreBounded(t *testing.T) {
	var r refusals
	now := time.Now()
	for i := range 3 * mostRefusals {
		r.keep(now, &limit.Subject{ID: strconv.Itoa(i)}, &limit.LimitedError{Reason: limit.ReasonRequests, RetryAfter: time.Minute})
		if len(r.of) > mostRefusals {
			t.Fatalf("%d are remembered", len(r.of))
		}
	}
	if e := r.repeat(now, &limit.Subject{ID: strconv.Itoa(3*mostRefusals - 1)}); e == nil {
		t.Error("the last one is not")
	}
}

// The rights that the reference names are enough for a user of Redis's.
func TestLeastRights(t *testing.T) {
	s := startServer(t)
	rights := []any{
		"ACL", "SETUSER", "llmgw", "on", ">secret", "~llmgw:*", "+evalsha", "+eval", "+script|load", "+time", "+hget", "+hmget", "+hgetall",
		"+hset", "+hdel", "+hincrby", "+expire", "+pexpire", "+info",
	}
	if err := s.user.Do(t.Context(), rights...).Err(); err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig()
	cfg.RedisURL, cfg.RedisTimeout = "unix://llmgw:secret@"+s.socket(), 5*time.Second
	l, err := New(cfg, Deps{RouterID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	run(t, l)
	sub := &limit.Subject{ID: "k", Limits: limit.Limits{RequestsPerMinute: 3, TokensPerMinute: 100, Concurrency: 2}}
	res, err := l.Acquire(t.Context(), time.Now(), sub, limit.Request{Tokens: 10})
	if err != nil {
		t.Fatal(err)
	}
	s.user.ScriptFlush(t.Context())
	res.Settle(time.Now(), limit.Actual{Tokens: 20})
	eventually(t, "what it came to is told", func() bool {
		st := l.State(t.Context(), time.Now(), sub)
		return st.Rates.Tokens.Remaining == 80 && st.Inflight == 0
	})
	if !l.young.at(time.Now()) {
		t.Error("it is not known that Redis was started just now")
	}
	if failed, dropped := l.metrics.failed.Load(), l.metrics.dropped.Load(); failed != 0 || dropped != 0 || l.metrics.asked.Load() != 1 {
		t.Errorf("%d calls failed, %d were dropped", failed, dropped)
	}
}
