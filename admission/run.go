package admission

import (
	"context"
	"time"
)

const (
	// sleepAfter is for how many intervals there must be neither lease nor
	// waiting request until Run stops ticking.
	sleepAfter = 100
	// forgetEvery is how often pools that nobody uses are looked for.
	forgetEvery = time.Minute
)

// Run reads loads, ends waits that lasted too long and grants what may run,
// every Config.Interval while there is a lease or a waiting request. Without it
// requests are still admitted and woken by what is released; but none expires
// and none notices that a load has changed. It returns nil when ctx is done;
// what waits then, or comes later, is refused with ErrClosed. Call it once.
func (c *Controller) Run(ctx context.Context) error {
	if !c.enabled {
		<-ctx.Done()
		return nil
	}
	defer c.close()
	ticker := time.NewTicker(c.interval)
	defer ticker.Stop()
	var (
		busy    []string
		idle    int
		forgets = c.now()
	)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		busy = c.busy(busy[:0])
		for _, pool := range busy {
			c.refresh(pool)
		}
		if now := c.now(); now.Sub(forgets) >= forgetEvery {
			forgets = now
			c.forget(now)
		}
		if idle++; len(busy) > 0 {
			idle = 0
		}
		if idle < sleepAfter || !c.sleep() {
			continue
		}
		idle = 0
		ticker.Stop()
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
		}
		ticker.Reset(c.interval)
	}
}

// busy appends the names of the pools that have a lease or a waiting request.
func (c *Controller) busy(names []string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.core.leases == 0 && c.core.arrivals.oldest == nil {
		return names
	}
	for name, p := range c.core.pools {
		if p.leases > 0 || p.waiting > 0 {
			names = append(names, name)
		}
	}
	return names
}

// refresh reads the pool's load and steps on it if it says anything new.
func (c *Controller) refresh(pool string) {
	load := c.read(pool)
	defer c.loads.Put(load)
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.core.news(pool, now, load):
		c.step(now, PoolLoad{pool, load})
	case c.core.overdue(now):
		c.step(now)
	}
}

func (c *Controller) forget(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.core.Forget(now)
	if c.recorder != nil {
		c.record = Record{Op: OpForget, At: now}
		c.tell("")
	}
}

// sleep makes the next offer wake Run; false means that there is work.
func (c *Controller) sleep() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.core.leases > 0 || c.core.arrivals.oldest != nil {
		return false
	}
	c.asleep = true
	return true
}

func (c *Controller) close() {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	decisions := c.core.Close(now)
	if c.recorder != nil {
		c.record = Record{Op: OpClose, At: now, Decisions: decisions}
		c.tell("")
	}
}
