package admission

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Detector says how full one pool is. It is called under the controller's lock:
// it must not block. Calls do not overlap.
type Detector interface {
	// Observe takes what is known of the pool's endpoints at now, and how many
	// leases of the pool are out. It keeps neither load nor its slice. A
	// controller shows a load that says nothing new once a second; requests in
	// flight that come and go with their leases are not new.
	Observe(now time.Time, load *Load, leases int)
	// Saturation returns the pool's saturation with that many leases out: 1 is
	// full, more is possible. A NaN is unknown and holds nobody back. It is on
	// the path of every request.
	Saturation(leases int) float64
}

// Explainer is a Detector that can tell what its number is made of, for
// metrics.
type Explainer interface {
	// Explain says how the saturation with that many leases comes about.
	Explain(leases int) Saturation
}

// Saturation is what a pool's saturation is made of.
type Saturation struct {
	// Value is the saturation, the worst of the three that follow.
	Value float64
	// Occupancy is requests in flight ÷ what the engines can run. Above 1 the
	// difference is queued work.
	Occupancy float64
	// Queue is what the engines say that they hold back ÷ the healthy number.
	Queue float64
	// KV is the used share of KV cache ÷ the healthy share.
	KV float64
	// InFlight is leases plus what others have on the endpoints.
	InFlight float64
	// Learned is how many requests the engines were seen to run at once; what
	// was never seen counts 0.
	Learned float64
	// Capacity is what Occupancy is measured against.
	Capacity float64
	// Endpoints is how many there are, Blind how many of them have no fresh
	// measurement, so that only local knowledge speaks for them.
	Endpoints, Blind int
}

// SaturationConfig is what the default detector measures against. Start from
// DefaultSaturationConfig.
type SaturationConfig struct {
	// AssumedCapacity is how many requests an engine is taken to run at once of
	// which nothing else is known, until it was seen to run more or to be full.
	// Default 256; at least 1. It is all there is to go by for an engine without
	// metrics, unless EndpointLoad says more.
	AssumedCapacity float64
	// TargetWaiting is how many requests an engine of weight 1 may hold back
	// and count as just full. Default 4; must be positive.
	TargetWaiting float64
	// KVCeiling is the used share of KV cache at which an engine counts as
	// just full; beyond it engines preempt. Default 0.9; in (0,1].
	KVCeiling float64
	// StaleAfter is the age from which a measurement is no longer believed.
	// Default 10s; must be positive.
	StaleAfter time.Duration
}

// DefaultSaturationConfig returns the defaults.
func DefaultSaturationConfig() SaturationConfig {
	return SaturationConfig{AssumedCapacity: 256, TargetWaiting: 4, KVCeiling: 0.9, StaleAfter: 10 * time.Second}
}

// Validate reports every fault of the configuration, joined.
func (c SaturationConfig) Validate() error {
	var errs []error
	if !(c.AssumedCapacity >= 1) || math.IsInf(c.AssumedCapacity, 0) {
		errs = append(errs, fmt.Errorf("assumed_capacity: %v is out of range; want 1 or more, e.g. 256", c.AssumedCapacity))
	}
	if !(c.TargetWaiting > 0) || math.IsInf(c.TargetWaiting, 0) {
		errs = append(errs, fmt.Errorf("target_waiting: %v is not positive; want e.g. 4", c.TargetWaiting))
	}
	if !(c.KVCeiling > 0 && c.KVCeiling <= 1) {
		errs = append(errs, fmt.Errorf("kv_ceiling: %v is out of range; want more than 0 and at most 1, e.g. 0.9", c.KVCeiling))
	}
	if c.StaleAfter <= 0 {
		errs = append(errs, fmt.Errorf("stale_after: %v is not positive; want e.g. 10s", c.StaleAfter))
	}
	return errors.Join(errs...)
}

// WorseOf is the default detector: the worst of occupancy, of the queues that
// the engines report, and of KV occupancy.
//
// Occupancy is requests in flight ÷ capacity, so above 1 it says how much work
// is queued: in flight minus capacity. In flight are the leases, counted from
// the moment of the grant whether or not a measurement has seen them, and what
// others have on the endpoints: requests of other pools, and what an engine
// runs or holds back beyond all that its router had there as it was measured.
//
// A queue is believed once two measurements in a row have seen it, and then the
// shorter of the two, since a burst that an engine takes in with its next batch
// looks like a queue for a moment; the first measurement of an engine is
// believed alone.
//
// What is missing or stale says nothing and is not read as zero: leases and
// requests in flight still count, against the capacity known so far. A pool
// without endpoints is open (see [Load]).
type WorseOf struct {
	cfg SaturationConfig

	engines, spare []engine // spare is the next Observe's backing
	shift          int      // how far from its old place the last engine looked up stood

	external, capacity, learned float64
	queue, kv                   float64
	blind                       int
}

// NewWorseOf validates cfg and returns the default detector for one pool.
func NewWorseOf(cfg SaturationConfig) (*WorseOf, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("admission: %w", err)
	}
	return &WorseOf{cfg: cfg}, nil
}

// Observe implements Detector.
func (d *WorseOf) Observe(now time.Time, load *Load, leases int) {
	engines := d.spare[:0]
	var demand, waiting, waitingTarget, kv, kvKnown float64
	d.capacity, d.learned, d.blind = 0, 0, 0
	for i := range load.Endpoints {
		e := &load.Endpoints[i]
		if !e.believable() {
			believed := e.believed()
			e = &believed
		}
		state := d.engine(i, e.ID, e.Instance)
		state.observe(now, e, &d.cfg)
		engines = append(engines, state)

		fresh := state.fresh(now, &d.cfg)
		demand += state.demand(e, fresh)
		d.capacity += state.capacity(e, &d.cfg)
		d.learned += state.learned
		if !fresh {
			d.blind++
			continue
		}
		if w, ok := e.Waiting.Get(); ok {
			waiting += min(w, state.queue)
			waitingTarget += d.cfg.TargetWaiting * weight(e)
		}
		if v, ok := e.KVUsedRatio.Get(); ok {
			kv += v
			kvKnown++
		}
	}
	d.engines, d.spare = engines, d.engines
	d.shift = 0
	d.external = max(0, demand-float64(leases))
	d.queue, d.kv = 0, 0
	if waitingTarget > 0 {
		d.queue = waiting / waitingTarget
	}
	if kvKnown > 0 {
		d.kv = kv / kvKnown / d.cfg.KVCeiling
	}
}

// engine returns what is kept of the instance that stands at index i of the
// new load: mostly it stood there before, or as far from it as its neighbour
// did.
func (d *WorseOf) engine(i int, id string, instance uint64) engine {
	if j := i + d.shift; j >= 0 && j < len(d.engines) && d.engines[j].is(id, instance) {
		return d.engines[j]
	}
	for j := range d.engines {
		if d.engines[j].is(id, instance) {
			d.shift = j - i
			return d.engines[j]
		}
	}
	return engine{id: id, instance: instance}
}

// Saturation implements Detector.
func (d *WorseOf) Saturation(leases int) float64 {
	return max(d.occupancy(leases), d.queue, d.kv)
}

func (d *WorseOf) occupancy(leases int) float64 {
	if d.capacity == 0 {
		return 0
	}
	return (float64(leases) + d.external) / d.capacity
}

// Explain implements Explainer.
func (d *WorseOf) Explain(leases int) Saturation {
	return Saturation{
		Value:     d.Saturation(leases),
		Occupancy: d.occupancy(leases),
		Queue:     d.queue,
		KV:        d.kv,
		InFlight:  float64(leases) + d.external,
		Learned:   d.learned,
		Capacity:  d.capacity,
		Endpoints: len(d.engines),
		Blind:     d.blind,
	}
}

// weight is the endpoint's weight within reason.
func weight(e *EndpointLoad) float64 {
	if !(e.Weight > 0) {
		return 1
	}
	return min(max(e.Weight, 0.001), 1000)
}
