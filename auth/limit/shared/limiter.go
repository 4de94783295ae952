package shared

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/llmgw/llmgw/auth/limit"
)

// Limiter is a limit.Limiter whose rates and places are counted together with
// other routers'. Its methods may be called concurrently. Call Run beside it.
type Limiter struct {
	cfg    Config
	deps   Deps
	log    *slog.Logger
	memory *limit.Limiter

	redis   redis.UniversalClient // nil: rates are divided
	script  *redis.Script
	breaker breaker
	recent  refusals
	young   young
	live    atomic.Int64 // routers, as last heard
	named   atomic.Bool  // the store has been told that this router lives
	odd     atomic.Bool  // an error of one key was said
	queue   chan call    // what Redis need not know at once

	metrics metrics
}

// queueLength bounds what Redis was not told yet.
const queueLength = 8192

// New validates cfg and returns a Limiter. It starts no goroutine and asks
// nobody; call Run.
func New(cfg Config, deps Deps) (*Limiter, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("limit/shared: %w", err)
	}
	if deps.RouterID == "" {
		return nil, errors.New("limit/shared: a router has no ID; two without one would be taken for one")
	}
	memory, err := limit.New(cfg.Memory, limit.Deps{Source: deps.Source, Registerer: deps.Registerer})
	if err != nil {
		return nil, err
	}
	l := &Limiter{cfg: cfg, deps: deps, log: deps.Logger, memory: memory, queue: make(chan call, queueLength)}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	l.live.Store(1)
	l.breaker.change = func(away bool, err error) {
		if away {
			l.log.Warn("redis cannot be asked; rates are enforced by each router for itself, the limit divided by the routers that live", "routers", l.live.Load(), "err", err)
		} else {
			l.log.Info("redis is back; rates are shared again")
		}
	}
	if cfg.RedisURL != "" {
		client, err := cfg.client(l.greet)
		if err != nil {
			return nil, fmt.Errorf("limit/shared: %w", err)
		}
		l.redis, l.script = client(), redis.NewScript(windowScript)
	}
	if err := registerMetrics(deps.Registerer, l); err != nil {
		return nil, err
	}
	return l, nil
}

// Acquire charges a request to all limits of its subject, or to none, as
// limit.Limiter does. Rates and places are asked of Redis in one call; if that
// fails or takes longer than Config.RedisTimeout, of this router's part. Memory
// is asked first, so what it refuses costs Redis nothing; nor does, for a second,
// what Redis has refused for the requests of a minute.
func (l *Limiter) Acquire(ctx context.Context, now time.Time, s *limit.Subject, r limit.Request) (*limit.Reservation, error) {
	if s.Limits == (limit.Limits{}) {
		return l.memory.Acquire(ctx, now, s, r)
	}
	if l.redis == nil || !l.breaker.allow(now) {
		return l.apart(ctx, now, s, r)
	}
	young := l.young.at(now)
	ask := l.memory.Acquire
	if young {
		ask = l.apart
	}
	res, err := ask(ctx, now, s, r)
	if err != nil {
		return nil, err
	}
	if e := l.recent.repeat(now, s); e != nil {
		res.Undo(now)
		l.metrics.refused(e.Reason)
		return nil, e
	}
	c := call{mode: modeAcquire, subject: s.ID, limits: s.Limits, tokens: min(max(r.Tokens, 0), limit.MostTokens), place: res.Place()}
	a, err := l.run(ctx, &c)
	if err != nil {
		// Whether Redis charged it is not known; at worst it is charged there
		// though it is refused here, for a minute.
		res.Undo(now)
		l.failed(now, &c, err)
		return l.apart(ctx, now, s, r)
	}
	l.breaker.report(now, nil)
	l.metrics.asked.Add(1)
	if e := a.refusal(now, s, r); e != nil {
		res.Undo(now)
		l.recent.keep(now, s, e)
		l.metrics.refused(e.Reason)
		return nil, e
	}
	if !young && l.young.at(now) {
		// The call was the first on a new connection. What is charged in Redis and
		// refused here stays charged there for a minute.
		res.Undo(now)
		if res, err = l.apart(ctx, now, s, r); err != nil {
			return nil, err
		}
		young, c.place = true, res.Place()
	}
	rates := a.rates(now, s.Limits)
	if young {
		rates = stricter(rates, res.Rates())
	}
	res.Also(rates, func(e limit.End) {
		c.mode, c.place, c.second, c.real, c.undone = modeSettle, e.Place, a.second, e.Actual.Tokens, e.Undone
		if c.limits.RequestsPerMinute == 0 && c.limits.TokensPerMinute == 0 {
			c.mode = modeRenew
		}
		l.tell(c)
	})
	return res, nil
}

// apart decides without the others, by this router's part of the limits.
func (l *Limiter) apart(ctx context.Context, now time.Time, s *limit.Subject, r limit.Request) (*limit.Reservation, error) {
	live := l.live.Load()
	if live <= 1 && l.redis == nil { // there is nobody else
		return l.memory.Acquire(ctx, now, s, r)
	}
	part := *s
	part.Limits = Part(s.Limits, live)
	res, err := l.memory.Acquire(ctx, now, &part, r)
	if e, ok := errors.AsType[*limit.LimitedError](err); ok && e.Reason == limit.ReasonTooLarge && l.redis != nil && r.Tokens <= s.Limits.TokensPerMinute {
		// It passes once Redis is back.
		e.Reason, e.RetryAfter = limit.ReasonTokens, 5*time.Second
	}
	return res, err
}

// Part returns a router's part of limits while routers do not know of each
// other: the limit divided by how many live, rounded down, but at least 1.
func Part(lim limit.Limits, live int64) limit.Limits {
	part := func(n int64) int64 {
		if n == 0 {
			return 0
		}
		return max(1, n/max(1, live))
	}
	return limit.Limits{RequestsPerMinute: part(lim.RequestsPerMinute), TokensPerMinute: part(lim.TokensPerMinute), Concurrency: part(lim.Concurrency)}
}

// failed enters a call that failed.
func (l *Limiter) failed(now time.Time, c *call, err error) {
	l.metrics.failed.Add(1)
	if ofOneKey(err) {
		if !l.odd.Swap(true) {
			l.log.Warn("a key in redis is not one of ours, or is damaged; its rates are enforced by each router for itself. Delete it, or choose another redis_prefix", "key", l.keys(c.subject)[0], "subject", c.subject, "err", err)
		}
		return
	}
	l.breaker.report(now, err)
}

// tell has Redis told by Run.
func (l *Limiter) tell(c call) {
	select {
	case l.queue <- c:
	default:
		l.metrics.dropped.Add(1)
	}
}

// State returns where a subject stands: exactly what the next request is checked
// against, of all routers if Redis answers, else here; while Redis is young, the
// one that has less left. It takes nothing.
func (l *Limiter) State(ctx context.Context, now time.Time, s *limit.Subject) limit.State {
	part, young := *s, l.young.at(now)
	if l.redis == nil || l.breaker.away() || young {
		part.Limits = Part(s.Limits, l.live.Load())
	}
	st := l.memory.State(now, &part)
	if l.redis == nil || l.breaker.away() || s.Limits == (limit.Limits{}) {
		return st
	}
	a, err := l.run(ctx, &call{mode: modePeek, subject: s.ID, limits: s.Limits})
	if err != nil {
		return st
	}
	all := a.rates(now, s.Limits)
	if young {
		all = stricter(all, st.Rates)
	}
	st.Rates, st.Debt, st.Concurrency = all, a.debt, s.Limits.Concurrency
	if s.Limits.Concurrency > 0 {
		st.Inflight = a.inflight
	}
	return st
}
