package admission

import (
	"slices"
	"time"
)

// showEvery is how often a load is shown to a detector although it says nothing
// new, so that measurements become stale within that time of the moment at
// which they should.
const showEvery = time.Second

// shown is the load that a pool's detector was shown last.
type shown struct {
	at        time.Time
	endpoints []EndpointLoad
	beyond    float64 // requests in flight that no lease stands for
}

// news reports whether load says anything that the pool's detector was not
// shown, and takes it for shown if so. That requests in flight come and go with
// their leases is nothing new: leases are counted as they are. Loads are read
// many times between two measurements, and a recorder should not have to keep
// them all.
func (c *Core) news(pool string, now time.Time, load *Load) bool {
	p, ok := c.pools[pool]
	if !ok {
		return true
	}
	beyond := -float64(p.leases)
	for i := range load.Endpoints {
		own, _ := load.Endpoints[i].InFlight.Get()
		beyond += own
	}
	s := &p.shown
	if now.Sub(s.at) < showEvery && s.beyond == beyond && slices.EqualFunc(s.endpoints, load.Endpoints, sameButInFlight) {
		return false
	}
	s.at, s.beyond, s.endpoints = now, beyond, append(s.endpoints[:0], load.Endpoints...)
	return true
}

func sameButInFlight(a, b EndpointLoad) bool {
	a.InFlight.value, b.InFlight.value = 0, 0
	return a == b
}

// overdue reports whether a request has waited too long.
func (c *Core) overdue(now time.Time) bool {
	e := c.arrivals.oldest
	return e != nil && now.Sub(e.since) >= c.cfg.QueueTTL
}
