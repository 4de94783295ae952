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
	// Bands are all bands, the highest priority first.
	Bands []BandState
}

// BandState is how a band of a pool stands.
type BandState struct {
	Name     string
	Priority int
	// Ceiling is the saturation above which its requests wait; above 1: they never do
	// for that.
	Ceiling float64
	Waiting int
	// Admitted and Rejected count its requests since the pool was used first, or since
	// it was used again after nobody had for ten minutes.
	Admitted, Rejected uint64
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
		p := PoolState{Name: name, Leases: s.leases, Bands: make([]BandState, len(s.waiting))}
		for i, n := range s.waiting {
			p.Waiting += n
			b := &c.core.bands[i] // never changes
			p.Bands[i] = BandState{Name: b.Name, Priority: b.Priority, Ceiling: b.SaturationCeiling, Waiting: n}
			p.Bands[i].Admitted, p.Bands[i].Rejected = s.bands[i].outcomes()
		}
		if !math.IsNaN(s.sat) {
			p.Saturation, p.HasSaturation = s.sat, true
		}
		pools = append(pools, p)
	}
	return pools
}
