package limit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"
)

// flight is an Ask under way. Those who need it wait for done.
type flight struct {
	ledger *ledger
	sub    *subject
	sh     *shard
	ask    Ask
	cost   int64 // what who asks needs; 0 if it is nobody's request
	// claimed is of the answer what who asked takes before others can; guarded by
	// the shard's lock.
	claimed int64
	spent   bool // the answer was ErrSpent; guarded by the shard's lock
	done    chan struct{}
	err     error // set before done is closed; nil also if the budget is spent
}

var errPanicked = errors.New("who keeps the budgets panicked")

// depart makes an Ask for what a request costs, or of 0 for what is of any use.
// Under the shard's lock.
func (l *Limiter) depart(sh *shard, sub *subject, g *ledger, now time.Time, cost int64) *flight {
	if g.unsure == "" {
		g.unsure = rand.Text()
	}
	need := max(1, cost+g.claimed-g.free(g.shape.Nanos))
	if cost == 0 {
		need = 1
	}
	want := add(need, add(g.extra(now, &l.cfg), g.waiting))
	g.asking = &flight{ledger: g, sub: sub, sh: sh, cost: cost, done: make(chan struct{}), ask: Ask{
		GrantID: g.unsure, Budget: g.id, LimitNanos: g.shape.Nanos, LeastNanos: need,
		WantNanos: max(need, min(want, g.shape.Nanos-g.closed-g.granted)), At: now,
	}}
	return g.asking
}

// arrive ends the wait of a request: of who asked, or of who joined.
func (f *flight) arrive(mine bool, cost int64) {
	if mine {
		f.ledger.claimed -= f.claimed
		f.claimed = 0
	} else {
		f.ledger.waiting -= cost
	}
}

// leave is arrive for who does not go on.
func (f *flight) leave(mine bool, cost int64) {
	f.sh.mu.Lock()
	f.arrive(mine, cost)
	f.sh.mu.Unlock()
}

// fund asks, and hands the answer on. It goes on for those who wait if the one
// who asks leaves.
func (l *Limiter) fund(ctx context.Context, f *flight) (err error) {
	begin := time.Now()
	funds, err := Funds{}, errPanicked
	defer func() { l.land(f, f.ask.At.Add(time.Since(begin)), funds, err) }()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.cfg.FundTimeout)
	defer cancel()
	funds, err = l.deps.Source.Fund(ctx, f.ask)
	if err == nil && !funds.Whole && funds.GrantedNanos <= 0 {
		err = fmt.Errorf("a slice of %d was granted", funds.GrantedNanos)
	}
	return err
}

// land enters an answer.
func (l *Limiter) land(f *flight, now time.Time, funds Funds, err error) {
	f.sh.mu.Lock()
	defer f.sh.mu.Unlock()
	g := f.ledger
	g.asking = nil
	switch {
	case errors.Is(err, ErrSpent):
		f.spent = true
		g.unsure, g.failed = "", nil
		g.tooMuch, g.spentUntil = f.ask.LeastNanos, now.Add(l.cfg.FundPause)
		g.scarceUntil = now.Add(l.cfg.SliceLasts)
	case err != nil:
		f.err = err
		g.failed, g.pause = err, now.Add(l.cfg.FundPause)
		if g.retired {
			f.sh.unsure = append(f.sh.unsure, g)
		}
	case funds.Whole:
		g.unsure, g.failed = "", nil
		g.whole, g.before = true, bounded(funds.SpentNanos, mostNanos)
		f.claim()
		if f.sub.alone.IsZero() || f.ask.At.Before(f.sub.alone) {
			f.sub.alone = f.ask.At
		}
	default:
		g.unsure, g.failed, g.tooMuch = "", nil, 0
		if funds.GrantedNanos < f.ask.WantNanos {
			g.scarceUntil = now.Add(l.cfg.SliceLasts)
		}
		g.grant(f.ask.GrantID, funds.GrantedNanos)
		f.claim()
		f.sh.returns = g.tidy(now, f.sh.returns)
	}
	close(f.done)
}

// claim keeps what who asked needs from those who are faster to the lock.
func (f *flight) claim() {
	f.claimed = f.cost
	f.ledger.claimed += f.cost
}

// Maintain does what slices need now and then, such as every second: it asks
// ahead for budgets that will soon need it, asks again what was left without an
// answer, and gives back what is not needed. It returns the first error, and goes
// on from there the next time; while nobody is asked because that failed just now
// (FundPause), it returns that error. Limiters whose budgets are whole need it not. Calls
// must not overlap.
func (l *Limiter) Maintain(ctx context.Context, now time.Time) error {
	var paused error
	for i := range l.shards {
		sh := &l.shards[i]
		flights, returns, failed := l.due(sh, now)
		if paused == nil {
			paused = failed
		}
		for n, r := range returns {
			if err := l.giveBack(ctx, r); err != nil {
				sh.mu.Lock()
				sh.returns = slices.Insert(sh.returns, 0, returns[n:]...)
				sh.mu.Unlock()
				return l.abandon(flights, fmt.Errorf("limit: give back a slice of the budget of %s: %w", r.Budget.Subject, err))
			}
		}
		for n, f := range flights {
			if err := l.fund(ctx, f); err != nil && !errors.Is(err, ErrSpent) {
				return l.abandon(flights[n+1:], fmt.Errorf("limit: ask for a slice of the budget of %s: %w", f.ask.Budget.Subject, err))
			}
		}
	}
	return paused
}

func (l *Limiter) giveBack(ctx context.Context, r Return) error {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.FundTimeout)
	defer cancel()
	return l.deps.Source.Return(ctx, r)
}

// Drain is Maintain, and gives back everything that no request under way has
// reserved: for the end of a process, after its requests.
func (l *Limiter) Drain(ctx context.Context, now time.Time) error {
	// What was left without an answer is known after the first round, and given
	// back in the second.
	for range 2 {
		for i := range l.shards {
			l.shards[i].drain(now)
		}
		if err := l.Maintain(ctx, now); err != nil {
			return err
		}
	}
	return nil
}

func (sh *shard) drain(now time.Time) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, sub := range sh.subjects {
		for _, g := range sub.ledgers {
			g.pause = time.Time{}
			if g.whole {
				continue
			}
			if g.reserved == 0 {
				sh.returns = g.giveAllBack(now, sh.returns)
			} else {
				sh.returns = g.giveBack(now, 0, sh.returns)
			}
		}
	}
}

// due collects what is to be done for a shard. paused says why something of it has
// to wait.
func (l *Limiter) due(sh *shard, now time.Time) (flights []*flight, returns []Return, paused error) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, g := range sh.unsure {
		if g.asking == nil && g.unsure != "" {
			flights = append(flights, l.depart(sh, &subject{}, g, now, 0))
		}
	}
	sh.unsure = nil
	for _, sub := range sh.subjects {
		for _, g := range sub.ledgers {
			if g.whole || g.asking != nil {
				continue
			}
			if g.unsure != "" {
				if now.Before(g.pause) {
					paused = fmt.Errorf("limit: ask for a slice of the budget of %s: %w", g.id.Subject, g.failed)
				} else {
					flights = append(flights, l.depart(sh, sub, g, now, 0))
				}
				continue
			}
			if len(g.slices) == 0 {
				continue
			}
			idle := now.Sub(g.used) >= l.cfg.SliceIdle || !g.holds(now)
			if idle && g.reserved == 0 {
				sh.returns = g.giveAllBack(now, sh.returns)
				continue
			}
			extra := g.extra(now, &l.cfg)
			if idle {
				extra = 0
			}
			switch free := g.free(g.shape.Nanos); {
			case free > 2*extra:
				sh.returns = g.giveBack(now, extra, sh.returns)
			case free < extra/2:
				f := l.depart(sh, sub, g, now, 0)
				f.ask.WantNanos = extra - free
				flights = append(flights, f)
			}
		}
	}
	returns, sh.returns = sh.returns, nil
	return flights, returns, paused
}

// abandon ends flights that did not set out because of an error, and returns it.
func (l *Limiter) abandon(flights []*flight, err error) error {
	for _, f := range flights {
		f.sh.mu.Lock()
		f.ledger.asking = nil
		if f.ledger.retired {
			f.sh.unsure = append(f.sh.unsure, f.ledger)
		}
		f.err = err
		close(f.done)
		f.sh.mu.Unlock()
	}
	return err
}
