package admission

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Request is what asks to run.
type Request struct {
	// Pool names the engines that the request may go to: the canonical model.
	// State is kept per pool, so names must come from a closed set.
	Pool string
	// Band is the priority class; empty is Config.DefaultBand.
	Band string
	// Tenant is whose turn it is within the band. Empty is a tenant, too.
	Tenant string
}

// Ticket stands for one offered request: for its place in the queue, then for
// its lease. The zero value stands for none. Tickets of different requests
// differ.
type Ticket struct {
	entry *entry
	gen   uint64
}

// ID returns the request's number: 1 for the first that a core was offered and
// did not refuse, and so on. 0 once the ticket's request has ended.
func (t Ticket) ID() uint64 {
	if !t.valid() {
		return 0
	}
	return t.entry.id
}

func (t Ticket) valid() bool { return t.entry != nil && t.entry.gen == t.gen }

// Decision is how a wait ended.
type Decision struct {
	Ticket Ticket
	ID     uint64
	// Err is nil for a grant; else a *RejectedError, and the ticket stands for
	// nothing any more.
	Err error
}

// PoolLoad is a pool's load.
type PoolLoad struct {
	Pool string
	Load *Load
}

// Core decides: it holds the queues and the leases, and no goroutine, timer or
// clock. The same calls with the same seed give the same decisions. Not safe
// for concurrent use; [Controller] puts a lock around it.
//
// A time that lies before one that it heard already counts as that one.
//
// After Offer, Release and Cancel call Step: it alone grants what waits.
type Core struct {
	cfg         Config
	bands       []Band // highest priority first
	byName      map[string]int
	defaultBand int
	newDetector func(pool string) Detector
	rng         *rand.Rand

	now       time.Time
	pools     map[string]*pool
	last      *pool   // of pools, the one asked for last; nil: none
	touched   []*pool // whose waiting requests Step has to look at
	arrivals  arrivals
	waiting   []int // by band
	leases    int
	offered   uint64
	closed    bool
	decisions []Decision // reused

	free      *entry
	freeCount int
}

// maxFree bounds the entries kept for use again.
const maxFree = 4096

// forgetAfter is how long a pool's state outlives its last use.
const forgetAfter = 10 * time.Minute

// NewCore validates cfg and returns an empty core. newDetector makes the
// detector of each pool; nil makes [WorseOf] of cfg.Saturation. Config.Enabled
// and Config.Interval mean nothing to a core.
func NewCore(cfg Config, newDetector func(pool string) Detector) (*Core, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("admission: %w", err)
	}
	if newDetector == nil {
		newDetector = func(string) Detector { return &WorseOf{cfg: cfg.Saturation} }
	}
	c := &Core{
		cfg:         cfg,
		bands:       slices.Clone(cfg.Bands),
		byName:      make(map[string]int, len(cfg.Bands)),
		newDetector: newDetector,
		rng:         rand.New(rand.NewPCG(cfg.Seed, 0x61646d697373696f)),
		pools:       make(map[string]*pool),
		waiting:     make([]int, len(cfg.Bands)),
	}
	slices.SortStableFunc(c.bands, func(a, b Band) int { return cmp.Compare(b.Priority, a.Priority) })
	for i, b := range c.bands {
		c.byName[b.Name] = i
	}
	c.defaultBand = c.byName[cfg.DefaultBand]
	return c, nil
}

// Offer asks for a request to run. It is granted at once if its band's ceiling
// allows and nobody waits who would go before it; the ticket is then its lease.
// Else it waits, and a Step decides. An error is a [*RejectedError], or wraps
// ErrUnknownBand; there is no ticket then.
func (c *Core) Offer(now time.Time, r Request) (t Ticket, granted bool, err error) {
	c.advance(now)
	band, err := c.band(r.Band)
	if err != nil {
		return Ticket{}, false, err
	}
	if c.closed {
		return Ticket{}, false, &RejectedError{Reason: ReasonClosed, Pool: r.Pool, Band: c.bands[band].Name}
	}
	p := c.pool(r.Pool)
	p.used = c.now
	if c.mayPass(p, band) {
		return c.ticket(c.grant(c.take(p, band))), true, nil
	}
	if c.waiting[band] >= c.cfg.QueueCapacityPerBand {
		p.stats[band].rejected[ReasonQueueFull]++
		return Ticket{}, false, c.rejection(ReasonQueueFull, p, band, 0)
	}
	e := c.take(p, band)
	e.state = entryWaiting
	p.queues[band].push(e, r.Tenant)
	p.waiting++
	c.waiting[band]++
	c.arrivals.push(e)
	c.touch(p)
	return c.ticket(e), false, nil
}

// band returns the index of the band with that name.
func (c *Core) band(name string) (int, error) {
	if name == "" {
		return c.defaultBand, nil
	}
	i, ok := c.byName[name]
	if !ok {
		return 0, fmt.Errorf("%w %q", ErrUnknownBand, name)
	}
	return i, nil
}

// Cancel ends the wait of the ticket's request; false means that it was not
// waiting: it has been granted, then its lease is to be released, or it ended.
func (c *Core) Cancel(now time.Time, t Ticket) bool { return c.cancel(now, t) != nil }

// cancel is Cancel that says how the wait ended.
func (c *Core) cancel(now time.Time, t Ticket) *RejectedError {
	c.advance(now)
	if !t.valid() || t.entry.state != entryWaiting {
		return nil
	}
	e := t.entry
	c.unqueue(e)
	e.pool.stats[e.band].rejected[ReasonCancelled]++
	err := c.rejection(ReasonCancelled, e.pool, e.band, c.now.Sub(e.since))
	c.put(e)
	return err
}

// Release gives the ticket's lease back; false means that it has none: it
// waits, or it ended.
func (c *Core) Release(now time.Time, t Ticket) bool {
	c.advance(now)
	if !t.valid() || t.entry.state != entryGranted {
		return false
	}
	p := t.entry.pool
	p.leases--
	c.leases--
	p.used = c.now
	p.pace.tick(c.now)
	c.touch(p)
	c.put(t.entry)
	return true
}

// Step takes in loads, ends the waits that have lasted for Config.QueueTTL, and
// grants what may run. The decisions stand in the order in which they were
// made and are valid until the next call of Step or Close. A step costs O(1)
// per decision, and O(endpoints) per load.
func (c *Core) Step(now time.Time, loads ...PoolLoad) []Decision {
	c.advance(now)
	c.decisions = c.decisions[:0]
	for _, l := range loads {
		p := c.pool(l.Pool)
		p.detector.Observe(c.now, l.Load, p.leases)
		p.observed = c.now
		c.touch(p)
	}
	for e := c.arrivals.oldest; e != nil && c.now.Sub(e.since) >= c.cfg.QueueTTL; e = c.arrivals.oldest {
		c.reject(e, ReasonExpired)
	}
	for _, p := range c.touched {
		p.touched = false
		c.drain(p)
	}
	c.touched = c.touched[:0]
	return c.decisions
}

// drain grants what waits in p as long as it may.
func (c *Core) drain(p *pool) {
	for p.waiting > 0 {
		band, ok := c.next(p)
		if !ok {
			return
		}
		e := p.queues[band].pop()
		c.dequeued(e)
		c.grant(e)
		c.decisions = append(c.decisions, Decision{Ticket: c.ticket(e), ID: e.id})
	}
}

// Close ends every wait with ErrClosed and refuses what comes from here on.
// Leases stay valid.
func (c *Core) Close(now time.Time) []Decision {
	c.advance(now)
	c.decisions = c.decisions[:0]
	c.closed = true
	for c.arrivals.oldest != nil {
		c.reject(c.arrivals.oldest, ReasonClosed)
	}
	return c.decisions
}

// reject ends the wait of e.
func (c *Core) reject(e *entry, r Reason) {
	c.unqueue(e)
	e.pool.stats[e.band].rejected[r]++
	err := c.rejection(r, e.pool, e.band, c.now.Sub(e.since))
	c.decisions = append(c.decisions, Decision{Ticket: c.ticket(e), ID: e.id, Err: err})
	c.finish(e, err)
	c.put(e)
}

// Forget drops the state of pools that nobody has used for ten minutes.
// Counters of theirs begin anew.
func (c *Core) Forget(now time.Time) {
	c.advance(now)
	c.last = nil
	for name, p := range c.pools {
		if p.leases == 0 && p.waiting == 0 && !p.touched && c.now.Sub(p.used) > forgetAfter {
			delete(c.pools, name)
		}
	}
}

// Waiting returns how many requests wait.
func (c *Core) Waiting() int {
	n := 0
	for _, w := range c.waiting {
		n += w
	}
	return n
}

// Leases returns how many leases are out.
func (c *Core) Leases() int { return c.leases }

// Saturation returns the saturation of the pool; false if nothing is known of
// it.
func (c *Core) Saturation(pool string) (float64, bool) {
	p := c.known(pool)
	if p == nil {
		return 0, false
	}
	return p.detector.Saturation(p.leases), true
}

// due reports whether the pool's load was last observed that long ago, or
// never, and takes note that the caller is about to read it.
func (c *Core) due(pool string, now time.Time, interval time.Duration) bool {
	p := c.known(pool)
	if p == nil {
		return true
	}
	if now.Sub(p.observed) < interval {
		return false
	}
	p.observed = now
	return true
}

func (c *Core) advance(now time.Time) {
	if now.After(c.now) {
		c.now = now
	}
}

func (c *Core) ticket(e *entry) Ticket { return Ticket{entry: e, gen: e.gen} }

// take returns an entry for a new request.
func (c *Core) take(p *pool, band int) *entry {
	e := c.free
	if e == nil {
		e = &entry{core: c}
	} else {
		c.free = e.next
		c.freeCount--
		e.next = nil
	}
	c.offered++
	e.id, e.pool, e.band, e.since = c.offered, p, band, c.now
	return e
}

// put ends the use of e.
func (c *Core) put(e *entry) {
	e.gen++
	e.state, e.pool, e.outcome = entryFree, nil, nil
	if c.freeCount == maxFree {
		return
	}
	e.next = c.free
	c.free = e
	c.freeCount++
}

func (c *Core) grant(e *entry) *entry {
	e.state = entryGranted
	e.pool.leases++
	c.leases++
	e.pool.stats[e.band].waits.observe(c.now.Sub(e.since))
	c.finish(e, nil)
	return e
}

// finish tells who waits for e how that ended.
func (c *Core) finish(e *entry, err error) {
	if e.outcome != nil {
		// Never blocks: the channel has room for the one outcome of a wait.
		e.outcome <- err
		e.outcome = nil
	}
}

func (c *Core) unqueue(e *entry) {
	e.pool.queues[e.band].remove(e)
	c.dequeued(e)
}

func (c *Core) dequeued(e *entry) {
	c.arrivals.remove(e)
	c.waiting[e.band]--
	e.pool.waiting--
}

func (c *Core) rejection(r Reason, p *pool, band int, waited time.Duration) *RejectedError {
	return &RejectedError{
		Reason: r, Pool: p.name, Band: c.bands[band].Name,
		Waited: waited, Depth: c.waiting[band], RetryAfter: p.retryAfter(),
	}
}
