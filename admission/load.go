package admission

import (
	"math"
	"time"
)

// Reading is a measurement that may be missing. The zero value is "unknown",
// which is not a measurement of zero.
type Reading struct {
	value float64
	known bool
}

// Read returns the known reading v. A NaN, an infinity and a number below 0
// are no measurements and give the unknown reading.
func Read(v float64) Reading {
	if !(v >= 0) || math.IsInf(v, 0) {
		return Reading{}
	}
	return Reading{value: v, known: true}
}

// Get returns the value and whether it is known. An unknown reading gives 0.
func (r Reading) Get() (float64, bool) { return r.value, r.known }

// Load is what is known of a pool's endpoints at one moment.
type Load struct {
	// Endpoints are those that a request of the pool may go to, in an order
	// that changes seldom. None means that nothing is known to wait for: the
	// pool is open, and who is to send the request finds out that it cannot.
	Endpoints []EndpointLoad
}

// EndpointLoad is what is known of one endpoint's load.
type EndpointLoad struct {
	// ID names the endpoint, unique in the pool.
	ID string
	// Instance tells those apart that bear one ID after another; 0 will do where
	// none does. What is learned of an engine is kept as long as its ID and
	// Instance are there.
	Instance uint64
	// Weight is the endpoint's share beside others, from 0.001 to 1000; 0
	// means 1. The target of what may wait is meant per unit of it.
	Weight float64
	// InFlight is how many requests the caller has on the endpoint now, those
	// of other pools included.
	InFlight Reading
	// MeasuredAt is when Running, Waiting and KVUsedRatio were measured; zero
	// if they never were.
	MeasuredAt time.Time
	// MeasuredInFlight is what InFlight was then; unknown: InFlight is taken.
	// What the engine had beyond it came from others.
	MeasuredInFlight Reading
	// Running is the number of requests in the running batch. More than a million
	// of these, of Waiting or of a capacity are taken for unknown.
	Running Reading
	// Waiting is the number of requests that the engine holds back.
	Waiting Reading
	// KVUsedRatio is used KV-cache blocks over all, in [0,1]. Up to 2 is taken for
	// 1, more for unknown.
	KVUsedRatio Reading
	// BatchCapacity is how many requests the engine runs at once at most, from
	// its configuration for example. It is never taken for more, and for fewer
	// once it was seen to hold requests back while it ran fewer.
	BatchCapacity Reading
	// AssumedCapacity is how many it is taken to run at once as long as neither
	// is known, from its kind for example. Unknown:
	// SaturationConfig.AssumedCapacity.
	AssumedCapacity Reading
}

// What no engine can mean: more requests than it could ever have, and a share of its
// cache that is no share (a percentage, say). Taken for true, one such number would
// be the engine's capacity for good, or hold everybody back.
const (
	mostRequests = 1e6
	mostKVRatio  = 2
)

func (e *EndpointLoad) believable() bool {
	return e.Running.value <= mostRequests && e.Waiting.value <= mostRequests && e.BatchCapacity.value <= mostRequests &&
		e.AssumedCapacity.value <= mostRequests && e.KVUsedRatio.value <= 1
}

// believed is e without what it cannot mean; a little more than a whole cache is a
// whole one.
func (e *EndpointLoad) believed() EndpointLoad {
	b := *e
	for _, r := range []*Reading{&b.Running, &b.Waiting, &b.BatchCapacity, &b.AssumedCapacity} {
		if r.value > mostRequests {
			*r = Reading{}
		}
	}
	if v := b.KVUsedRatio.value; v > mostKVRatio {
		b.KVUsedRatio = Reading{}
	} else {
		b.KVUsedRatio.value = min(v, 1)
	}
	return b
}

// LoadSource says how loaded pools are.
type LoadSource interface {
	// Load appends what is known of the pool's endpoints to dst.Endpoints. It
	// must not block and may be called concurrently. The controller owns dst
	// and reuses it.
	Load(pool string, dst *Load)
}
