package admission

import "time"

// Fate is what would become of a request.
type Fate uint8

// The fates.
const (
	FateUnset Fate = iota
	// FatePasses: it would run at once.
	FatePasses
	// FateHeld: it would wait, for the pool's saturation is above its band's
	// ceiling.
	FateHeld
	// FateQueued: it would wait, for others wait whose turn is before.
	FateQueued
	// FateFull: it would be refused with ErrQueueFull.
	FateFull
	// FateClosed: it would be refused with ErrClosed.
	FateClosed
)

// String returns the fate in lower case.
func (f Fate) String() string {
	switch f {
	case FatePasses:
		return "passes"
	case FateHeld:
		return "held"
	case FateQueued:
		return "queued"
	case FateFull:
		return "full"
	case FateClosed:
		return "closed"
	case FateUnset:
	}
	return "unset"
}

// Outlook is what Admit would do with a request, and why.
type Outlook struct {
	Fate Fate
	// Band is the request's, that of Config.DefaultBand if it named none.
	Band Band
	// Saturation is the pool's. With a Detector that cannot be copied it is as of
	// the pool's last look at its load; HasSaturation false: there was none yet.
	// Only Value is set by a Detector that is no Explainer.
	Saturation    Saturation
	HasSaturation bool
	// Leases is how many requests of the pool run.
	Leases int
	// Waiting is how many requests of the band wait in the pool, and Ahead how
	// many of the pool wait in bands whose turn would be before the request's or
	// in its own. Within a band tenants take turns, so not all that are ahead need
	// go first.
	Waiting, Ahead int
	// BandWaiting is how many of the band wait in all pools together, of at most
	// Capacity.
	BandWaiting, Capacity int
	// QueueTTL is how long the request would wait at most.
	QueueTTL time.Duration
}

// cloner is a Detector of which there can be two, so that one can observe what
// the other is not to know.
type cloner interface{ clone() Detector }

// Outlook returns what Admit would do with r now. It takes no place, counts
// nothing, and the pool's detector learns nothing of it. The error wraps
// ErrUnknownBand. Switched off, every request passes.
func (c *Controller) Outlook(r Request) (Outlook, error) {
	load := c.read(r.Pool)
	defer c.loads.Put(load)
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	o, err := c.core.outlook(now, r, load)
	if err == nil && !c.enabled {
		o.Fate = FatePasses
	}
	return o, err
}

// outlook is Offer without the offer. load is the pool's.
func (c *Core) outlook(now time.Time, r Request, load *Load) (Outlook, error) {
	index, err := c.band(r.Band)
	if err != nil {
		return Outlook{}, err
	}
	o := Outlook{
		Band: c.bands[index], BandWaiting: c.waiting[index], Capacity: c.cfg.QueueCapacityPerBand, QueueTTL: c.cfg.QueueTTL,
	}
	known := c.pools[r.Pool]
	var p pool // as known would be after a look at load
	if known != nil {
		p = *known
	} else {
		p = pool{detector: c.newDetector(r.Pool), queues: make([]fairQueue, len(c.bands))}
	}
	switch d, ok := p.detector.(cloner); {
	case known == nil: // its detector is nobody's yet
		p.detector.Observe(now, load, 0)
		o.HasSaturation = true
	case ok:
		p.detector = d.clone()
		p.detector.Observe(now, load, p.leases)
		o.HasSaturation = true
	default:
		o.HasSaturation = !p.observed.IsZero()
	}
	o.Saturation = Saturation{Value: p.detector.Saturation(p.leases)}
	if x, ok := p.detector.(Explainer); ok {
		o.Saturation = x.Explain(p.leases)
	}
	o.Leases, o.Waiting = p.leases, p.queues[index].n
	for i := range c.bands {
		if b := &c.bands[i]; i == index || b.Priority >= o.Band.Priority && !b.held(o.Saturation.Value) {
			o.Ahead += p.queues[i].n
		}
	}
	switch {
	case c.closed:
		o.Fate = FateClosed
	case c.mayPass(&p, index):
		o.Fate = FatePasses
	case o.BandWaiting >= o.Capacity:
		o.Fate = FateFull
	case o.Band.held(o.Saturation.Value):
		o.Fate = FateHeld
	default:
		o.Fate = FateQueued
	}
	return o, nil
}

func (d *WorseOf) clone() Detector {
	other := *d
	other.engines = append([]engine(nil), d.engines...)
	other.spare = nil
	return &other
}
