package admission

import "math"

// PoolState is how a pool stands.
type PoolState struct {
	Name string
	// Waiting are the requests that wait in it, of all bands, and Leases those that
	// run.
	Waiting, Leases int
	// Saturation is how full it is: 1 is full, more is possible. HasSaturation false:
	// that is not known.
	Saturation    float64
	HasSaturation bool
}

// Pools returns how the pools stand that requests were offered to lately, in no order.
// Their loads are read where that says anything new.
func (c *Controller) Pools() []PoolState {
	_, names := c.names()
	pools := make([]PoolState, 0, len(names))
	for _, name := range names {
		if c.enabled {
			c.refresh(name)
		}
		s, ok := c.poolStats(name)
		if !ok {
			continue // it was forgotten meanwhile
		}
		p := PoolState{Name: name, Leases: s.leases}
		for _, n := range s.waiting {
			p.Waiting += n
		}
		if !math.IsNaN(s.sat) {
			p.Saturation, p.HasSaturation = s.sat, true
		}
		pools = append(pools, p)
	}
	return pools
}
