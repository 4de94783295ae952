package routertest

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/openai"
)

// Callers is a [router.Caller] that knows callers by the key that stands in
// Authorization after "Bearer ". An empty one knows everybody as nobody in
// particular. It must not be changed while it is used.
type Callers map[string]router.Identity

// Identify returns the key's identity, or refuses with 401.
func (c Callers) Identify(r *http.Request) (router.Identity, error) {
	if len(c) == 0 {
		return router.Identity{}, nil
	}
	key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if id, ok := c[key]; ok {
		return id, nil
	}
	return router.Identity{}, openai.Unauthorized("")
}

// Only is an Identity.MayUse that allows the models named.
func Only(models ...string) func(string) bool {
	allowed := make(map[string]bool, len(models))
	for _, m := range models {
		allowed[m] = true
	}
	return func(m string) bool { return allowed[m] }
}

// Meter is a [router.Charger] that counts requests.
type Meter struct {
	// Limit is how many requests may be charged and not yet settled; beyond it
	// they are refused with 429. 0 is no limit.
	Limit int64

	charged, settled, open atomic.Int64
}

// Charge charges one request.
func (m *Meter) Charge(context.Context, router.Estimate) (router.Charge, error) {
	if n := m.open.Add(1); m.Limit > 0 && n > m.Limit {
		m.open.Add(-1)
		return nil, openai.RateLimited(time.Second, "Too many requests at once. Try again shortly.")
	}
	m.charged.Add(1)
	return &charge{meter: m}, nil
}

// Charged and Settled are how many requests were; a charge that is settled
// twice counts twice here, and once in Open.
func (m *Meter) Charged() int64 { return m.charged.Load() }

// Settled is how often Settle was called.
func (m *Meter) Settled() int64 { return m.settled.Load() }

// Open is how many charges are not settled.
func (m *Meter) Open() int64 { return m.open.Load() }

type charge struct {
	meter *Meter
	once  sync.Once
}

func (c *charge) Settle(*router.Outcome) {
	c.meter.settled.Add(1)
	c.once.Do(func() { c.meter.open.Add(-1) })
}

// Gate is a [router.Admitter] that lets a number of requests run at a time and
// the others wait.
type Gate struct {
	mu       sync.Mutex
	places   int           // guarded by mu; 0 is no bound
	admitted int64         // guarded by mu
	released int64         // guarded by mu
	running  int           // guarded by mu
	waiting  int           // guarded by mu
	changed  chan struct{} // guarded by mu; closed at the next change, nil if nobody waits
}

// SetPlaces sets how many may run at a time: 0 is no bound, and less than 0
// lets nobody run.
func (g *Gate) SetPlaces(n int) { g.change(func() { g.places = n }) }

// change runs f under mu and wakes all who wait.
func (g *Gate) change(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}

// Admit waits for a place. When ctx ends its cause is returned.
func (g *Gate) Admit(ctx context.Context, _ router.Admission) (router.Lease, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.places != 0 && g.running >= g.places {
		if g.changed == nil {
			g.changed = make(chan struct{})
		}
		changed := g.changed
		g.waiting++
		g.mu.Unlock()
		var err error
		select {
		case <-changed:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		g.mu.Lock()
		g.waiting--
		if err != nil {
			return nil, err
		}
	}
	g.running++
	g.admitted++
	return &lease{gate: g}, nil
}

// Running is how many leases are held.
func (g *Gate) Running() int { g.mu.Lock(); defer g.mu.Unlock(); return g.running }

// Waiting is how many requests wait for a place.
func (g *Gate) Waiting() int { g.mu.Lock(); defer g.mu.Unlock(); return g.waiting }

// Admitted is how many leases were given.
func (g *Gate) Admitted() int64 { g.mu.Lock(); defer g.mu.Unlock(); return g.admitted }

// Released is how often Release was called.
func (g *Gate) Released() int64 { g.mu.Lock(); defer g.mu.Unlock(); return g.released }

type lease struct {
	gate *Gate
	once sync.Once
}

func (l *lease) Release() {
	l.gate.change(func() {
		l.gate.released++
		l.once.Do(func() { l.gate.running-- })
	})
}

// Log is a [router.Recorder] that keeps what it is told.
type Log struct {
	mu       sync.Mutex
	outcomes []router.Outcome // guarded by mu
	changed  chan struct{}    // guarded by mu; closed at the next change
}

// Record keeps a copy of o, without its Decision.
func (l *Log) Record(o *router.Outcome) {
	kept := *o
	kept.Decision = nil
	if o.Identity != nil {
		kept.Identity = new(*o.Identity)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outcomes = append(l.outcomes, kept)
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// Outcomes returns what was recorded so far, in that order.
func (l *Log) Outcomes() []router.Outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]router.Outcome(nil), l.outcomes...)
}

// Wait returns the i-th outcome, from 0 on, once it is there: a client has its
// answer a moment before. When ctx ends, its error is returned.
func (l *Log) Wait(ctx context.Context, i int) (router.Outcome, error) {
	for {
		l.mu.Lock()
		if i < len(l.outcomes) {
			defer l.mu.Unlock()
			return l.outcomes[i], nil
		}
		if l.changed == nil {
			l.changed = make(chan struct{})
		}
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return router.Outcome{}, ctx.Err()
		}
	}
}
