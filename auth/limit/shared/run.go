package shared

import (
	"context"
	"sync"
	"time"
)

const (
	// batch is how many calls go to Redis in one round trip.
	batch = 128
	// lastTimeout bounds what is done after the end.
	lastTimeout = 5 * time.Second
)

// Run keeps what is shared: it tells Redis what requests came to, says that this
// router lives, and asks for slices of budgets ahead and gives them back. It
// returns nil after ctx is done and everything that can be was told and given
// back, which takes 5 s at most. Call it once, and end it after the requests.
func (l *Limiter) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { l.every(ctx, time.Second, l.maintain) })
	if l.deps.Routers != nil {
		wg.Go(func() { l.every(ctx, l.cfg.RouterTTL/3, l.renewRouter) })
	}
	if l.redis != nil {
		wg.Go(func() { l.every(ctx, hold/3, l.renewPlaces) })
		wg.Go(func() { l.talk(ctx) })
	}
	wg.Wait()

	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	if l.deps.Source != nil {
		if err := l.memory.Drain(last, time.Now()); err != nil {
			l.log.Error("not all slices of budgets were given back; what is left of them is lost to their periods", "err", err)
		}
	}
	if l.named.Load() {
		if err := l.deps.Routers.RemoveRouter(last, l.deps.RouterID); err != nil {
			l.log.Warn("the store was not told that this router has ended; it counts until its row expires", "err", err)
		}
	}
	if l.redis != nil {
		if err := l.redis.Close(); err != nil {
			l.log.Debug("close redis", "err", err)
		}
	}
	return nil
}

// every calls do at once and then every d until ctx is done, and logs when its
// failures begin and end.
func (l *Limiter) every(ctx context.Context, d time.Duration, do func(context.Context) (what string, err error)) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	failing := false
	for {
		what, err := do(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			l.log.Warn(what+" fails; it is tried again", "err", err)
		case err == nil && failing:
			l.log.Info(what + " works again")
		}
		failing = err != nil
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (l *Limiter) maintain(ctx context.Context) (string, error) {
	const what = "asking for budgets ahead and giving them back"
	if l.deps.Source == nil {
		return what, nil
	}
	return what, l.memory.Maintain(ctx, time.Now())
}

func (l *Limiter) renewRouter(ctx context.Context) (string, error) {
	const what = "saying in the store that this router lives"
	ctx, cancel := context.WithTimeout(ctx, l.cfg.RouterTTL/3)
	defer cancel()
	live, err := l.deps.Routers.RenewRouter(ctx, l.deps.RouterID, l.cfg.RouterTTL)
	if err == nil {
		l.named.Store(true)
		l.live.Store(int64(max(1, live)))
	}
	return what, err
}

// renewPlaces says anew how many requests are under way. It also mends what was
// lost on the way to Redis.
func (l *Limiter) renewPlaces(ctx context.Context) (string, error) {
	const what = "saying in redis how many requests are under way"
	if l.breaker.away() {
		return what, nil // which was said
	}
	calls := make([]call, 0, batch)
	flush := func() error {
		if len(calls) == 0 {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, lastTimeout)
		defer cancel()
		_, err := l.runAll(ctx, calls)
		calls = calls[:0]
		return err
	}
	for subject, u := range l.memory.Underway() {
		calls = append(calls, call{mode: modeRenew, subject: subject, limits: u.Limits, place: u.Place})
		if len(calls) == batch {
			if err := flush(); err != nil {
				return what, err
			}
		}
	}
	return what, flush()
}

// talk tells Redis what is in the queue until ctx is done, and then what is left
// in it.
func (l *Limiter) talk(ctx context.Context) {
	calls := make([]call, 0, batch)
	for ctx.Err() == nil {
		select {
		case c := <-l.queue:
			calls = l.more(append(calls[:0], c))
			l.send(context.WithoutCancel(ctx), calls)
		case <-ctx.Done():
		}
	}
	for end := time.Now().Add(lastTimeout); time.Now().Before(end); {
		if calls = l.more(calls[:0]); len(calls) == 0 {
			return
		}
		l.send(context.WithoutCancel(ctx), calls)
	}
}

// more adds what is in the queue to a batch.
func (l *Limiter) more(calls []call) []call {
	for len(calls) < batch {
		select {
		case c := <-l.queue:
			calls = append(calls, c)
		default:
			return calls
		}
	}
	return calls
}

func (l *Limiter) send(ctx context.Context, calls []call) {
	if l.breaker.away() {
		l.metrics.dropped.Add(uint64(len(calls)))
		return
	}
	// Nobody waits for this, so it may take longer than a request's call.
	ctx, cancel := context.WithTimeout(ctx, max(time.Second, l.cfg.RedisTimeout))
	defer cancel()
	failed, _ := l.runAll(ctx, calls)
	l.metrics.dropped.Add(uint64(failed))
}
