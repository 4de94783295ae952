package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"
)

// places is how many requests of one key may run at once.
const places = 4

// people are the accounts of a run. Budgets are parts of what would be spent of
// one without end, so that they are spent at different times, and one is not.
func people(o options) []*account {
	const perSecond = 3 * 20 * 40 * price // workers, requests, tokens
	seconds := int64((o.duration+7*o.down)/time.Second) + 1
	budget := func(percent int64) int64 { return max(perSecond*seconds*percent/100, 10*worst) }
	return []*account{
		{name: "budget-5", workers: 3, modes: everything(), budget: budget(5)},
		{name: "budget-20", workers: 3, modes: everything(), budget: budget(20)},
		{name: "budget-40", workers: 3, modes: everything(), budget: budget(40)},
		{name: "budget-500", workers: 3, modes: everything(), budget: budget(500)},
		{name: "requests", workers: 2, modes: whole(), requests: 60},
		{name: "tokens", workers: 2, modes: whole(), tokens: 4000},
		{name: "places", workers: 8, modes: whole(), concurrency: places},
		{name: "free", workers: 4, modes: everything()},
	}
}

// chaos is the run with kills.
func (p *place) chaos(ctx context.Context) ([]string, error) {
	accounts := people(p.opts)
	for _, a := range accounts {
		if err := a.make(ctx, p.store); err != nil {
			return nil, err
		}
	}
	if err := p.startAll(ctx); err != nil {
		return nil, err
	}
	crowd := &crowd{accounts: accounts, routers: p.routers, seed: p.opts.seed}
	if err := crowd.meet(ctx); err != nil {
		return nil, err
	}
	loaded, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	wg.Go(func() { crowd.run(loaded) })
	most := map[string]int64{}
	wg.Go(func() { p.watch(loaded, accounts, most) })

	e := &evidence{accounts: accounts, bufferFor: time.Second + 2*time.Second}
	p.log.Info("routers are killed", "for", p.opts.duration, "times", p.opts.kills)
	if err := p.kills(ctx); err != nil {
		return nil, err
	}
	if err := p.routers.ready(ctx); err != nil {
		return nil, err
	}
	if err := crowd.meet(ctx); err != nil {
		return nil, err
	}
	placesBefore := p.engine.peak("places")
	p.log.Info("redis is killed", "for", p.opts.down)
	e.redisDown = time.Now()
	p.redis.stop()
	pause(ctx, p.opts.down)
	if err := p.redis.start(ctx); err != nil {
		return nil, err
	}
	pause(ctx, p.opts.down)
	if err := crowd.meet(ctx); err != nil {
		return nil, err
	}
	if p.postgres != nil { // nobody takes a file from who has it open
		p.log.Info("postgres is killed", "for", p.opts.down)
		if err := p.darken(ctx, e, true); err != nil {
			return nil, err
		}
		if err := p.written(ctx); err != nil {
			return nil, err
		}
	}
	p.log.Info("all routers and the store are killed, and routers started first", "for", p.opts.down)
	e.ratesUntil = time.Now()
	for i := range p.routers.at {
		p.routers.kill(i)
	}
	if err := p.darken(ctx, e, false); err != nil {
		return nil, err
	}
	if err := crowd.meet(ctx); err != nil {
		return nil, err
	}
	pause(ctx, p.opts.down)
	end()
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := p.routers.stop(); err != nil {
		return nil, err
	}

	var err error
	if e.rows, err = p.usage(ctx); err != nil {
		return nil, err
	}
	if e.budgets, err = p.budgets(ctx, accounts, most); err != nil {
		return nil, err
	}
	e.calls, e.truths = crowd.calls, p.engine.all()
	v := judge(e)
	if err := p.store.Check(ctx); err != nil {
		v.problem("the store is not sound: %v", err)
	}
	problems, err := p.logs(accounts)
	if err != nil {
		return nil, err
	}
	v.problems = append(v.problems, problems...)
	if placesBefore > places {
		v.problem("places: %d requests ran at once, of %d", placesBefore, places)
	}
	v.print(os.Stdout, len(p.routers.ended))
	fmt.Printf("\nplaces: at most %d of %d ran at once before Redis was killed\n", placesBefore, places)
	return v.problems, nil
}

// darken takes the store away for a while. If routers are not known to live they are
// started meanwhile.
func (p *place) darken(ctx context.Context, e *evidence, known bool) error {
	if err := p.takeStore(); err != nil {
		return err
	}
	if !known {
		if err := p.startAll(ctx); err != nil {
			return err
		}
	}
	d := darkness{from: time.Now(), known: known}
	pause(ctx, p.opts.down)
	d.to = time.Now()
	e.darkness = append(e.darkness, d)
	if err := p.bringStore(ctx); err != nil {
		return err
	}
	pause(ctx, p.opts.down)
	return ctx.Err()
}

// written waits until no router holds rows that have waited for the store.
func (p *place) written(ctx context.Context) error {
	for i := range p.routers.at {
		for end := time.Now().Add(time.Minute); ; {
			h, err := p.rows(ctx, p.routers.at[i].Load())
			if err != nil {
				return err
			}
			// Some come at any time; right after a batch they are few.
			if h.waiting < 20 {
				break
			}
			if time.Now().After(end) || !pause(ctx, 10*time.Millisecond) {
				return fmt.Errorf("a router does not get rid of its usage: %d rows wait", h.waiting)
			}
		}
	}
	return nil
}

// kills kills routers at random moments, and starts another in the place of each a
// little later.
func (p *place) kills(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(p.opts.seed, 0)) //nolint:gosec // to be the same again
	begin := time.Now()
	at := make([]time.Duration, p.opts.kills)
	for i := range at {
		at[i] = time.Duration(rng.Int64N(int64(p.opts.duration)))
	}
	slices.Sort(at)
	for _, d := range at {
		if !pause(ctx, time.Until(begin.Add(d))) {
			return ctx.Err()
		}
		i := rng.IntN(len(p.routers.at))
		p.routers.kill(i)
		if err := p.routers.start(ctx, i); err != nil {
			return err
		}
	}
	pause(ctx, time.Until(begin.Add(p.opts.duration)))
	return ctx.Err()
}

// watch looks at what is granted, until ctx is done.
func (p *place) watch(ctx context.Context, accounts []*account, most map[string]int64) {
	for pause(ctx, 100*time.Millisecond) {
		for _, a := range accounts {
			if a.budget == 0 {
				continue
			}
			if st, err := p.store.Budget(ctx, a.period()); err == nil { // else it is away
				most[a.id] = max(most[a.id], st.GrantedNanos)
			}
		}
	}
}
