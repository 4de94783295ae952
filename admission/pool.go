package admission

import "time"

// pool is what a core keeps of one pool.
type pool struct {
	name     string
	detector Detector
	leases   int
	waiting  int
	queues   []fairQueue // by band
	stats    []bandStats // by band
	pace     pace
	touched  bool      // stands in Core.touched
	observed time.Time // when a load came last; zero never
	used     time.Time
	shown    shown // the shell's
}

// pool returns the state of the pool with that name, new if need be.
func (c *Core) pool(name string) *pool {
	p := c.known(name)
	if p == nil {
		p = &pool{
			name:     name,
			detector: c.newDetector(name),
			queues:   make([]fairQueue, len(c.bands)),
			stats:    make([]bandStats, len(c.bands)),
			used:     c.now,
		}
		c.pools[name] = p
	}
	return p
}

// known returns the state of the pool with that name, nil if there is none.
func (c *Core) known(name string) *pool {
	if c.last == nil || c.last.name != name {
		c.last = c.pools[name]
	}
	return c.last
}

// touch makes the next Step look at what waits in p.
func (c *Core) touch(p *pool) {
	if !p.touched && p.waiting > 0 {
		p.touched = true
		c.touched = append(c.touched, p)
	}
}

// held reports whether a band must wait at that saturation.
func (b *Band) held(saturation float64) bool {
	return b.SaturationCeiling <= 1 && saturation > b.SaturationCeiling
}

// mayPass reports whether a request that comes now may run: its band is not
// held, nothing of the band waits, nor anything that would go first.
func (c *Core) mayPass(p *pool, band int) bool {
	saturation := p.detector.Saturation(p.leases)
	if c.bands[band].held(saturation) {
		return false
	}
	if p.waiting == 0 {
		return true
	}
	for i := range c.bands {
		if c.bands[i].Priority < c.bands[band].Priority {
			break
		}
		if p.queues[i].n > 0 && !c.bands[i].held(saturation) {
			return false
		}
	}
	return true
}

// next returns the band whose turn it is in p: of those that have a request
// waiting and are not held, the one of the highest priority; among equals
// chance decides.
func (c *Core) next(p *pool) (band int, ok bool) {
	saturation := p.detector.Saturation(p.leases)
	equals := 0
	for i := range c.bands {
		if equals > 0 && c.bands[i].Priority < c.bands[band].Priority {
			break
		}
		if p.queues[i].n == 0 || c.bands[i].held(saturation) {
			continue
		}
		equals++
		if equals == 1 || c.rng.IntN(equals) == 0 {
			band = i
		}
	}
	return band, equals > 0
}

// pace is how often something happens: a moving mean of the time between.
type pace struct {
	last time.Time
	mean time.Duration // 0: not known yet
}

// paceWeight is how many events the mean reaches back.
const paceWeight = 16

func (a *pace) tick(now time.Time) {
	if !a.last.IsZero() {
		gap := now.Sub(a.last)
		if a.mean == 0 {
			a.mean = max(gap, 1)
		} else {
			a.mean += (gap - a.mean) / paceWeight
		}
	}
	a.last = now
}

// retryAfter estimates when what waits in p will have gone.
func (p *pool) retryAfter() time.Duration {
	return min(max(time.Duration(p.waiting)*p.pace.mean, time.Second), time.Minute)
}
