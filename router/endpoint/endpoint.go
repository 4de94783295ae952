package endpoint

import (
	"log/slog"
	"net/url"
	"sync/atomic"
	"time"
)

// Endpoint is one instance: one life of one address. Its methods may be called
// concurrently, also after it has left its set.
type Endpoint struct {
	// What every decision reads comes first, close together.
	inflight atomic.Int64
	begun    atomic.Int64
	load     atomic.Pointer[LoadState]
	weight   float64
	hash     uint64
	gone     atomic.Bool
	breaker  breaker

	lastUsed atomic.Int64 // Unix nanoseconds, 0 never
	moved    atomic.Int64 // Unix nanoseconds, 0 never
	tickets  *ticketPool

	spec       Spec
	instance   uint64
	url        *url.URL
	upstream   map[string]string
	attachment any
	log        *slog.Logger
}

// newEndpoint makes an instance of a normal, valid spec.
func newEndpoint(spec Spec, instance uint64, cfg Config, tickets *ticketPool, log *slog.Logger) (*Endpoint, error) {
	u, err := url.Parse(spec.URL)
	if err != nil {
		return nil, err
	}
	e := &Endpoint{
		spec:     spec,
		instance: instance,
		url:      u,
		weight:   spec.Weight,
		hash:     hashID(spec.ID),
		upstream: make(map[string]string, len(spec.Models)),
		tickets:  tickets,
		log:      log,
	}
	e.breaker.init(cfg)
	for _, m := range spec.Models {
		e.upstream[m.Name] = m.Upstream
	}
	return e, nil
}

// ID returns the endpoint's name, which an instance that comes after it may
// bear too.
func (e *Endpoint) ID() string { return e.spec.ID }

// Instance returns the instance's number: 1 for the first that its set made, and
// so on. It tells those apart that bear one ID after another.
func (e *Endpoint) Instance() uint64 { return e.instance }

// Spec returns what the instance was made from, defaults filled in. The caller
// must not change it.
func (e *Endpoint) Spec() *Spec { return &e.spec }

// URL returns the engine's base URL, its path without a final slash. The
// caller must not change it.
func (e *Endpoint) URL() *url.URL { return e.url }

// Weight returns the endpoint's share, which is positive.
func (e *Endpoint) Weight() float64 { return e.weight }

// Hash returns a number that depends on the ID alone, the same in every
// process, for consistent choices.
func (e *Endpoint) Hash() uint64 { return e.hash }

// Attachment returns what Deps.Attach made for the instance, or nil.
func (e *Endpoint) Attachment() any { return e.attachment }

// UpstreamModel returns what the engine calls the model that requests call by
// the given name, and the name itself if the endpoint does not list it.
func (e *Endpoint) UpstreamModel(model string) string {
	if upstream, ok := e.upstream[model]; ok {
		return upstream
	}
	return model
}

// Gone reports whether the instance has left its set.
func (e *Endpoint) Gone() bool { return e.gone.Load() }

// Load returns the last measurement, or nil before the first one.
func (e *Endpoint) Load() *LoadState { return e.load.Load() }

// SetLoad replaces the measurement. The endpoint keeps l, which must not
// change from here on; nil forgets the last one.
//
// One that says something else than the last one shows that the engine works:
// see [Endpoint.Moved].
func (e *Endpoint) SetLoad(l *LoadState) {
	if was := e.load.Swap(l); was != nil && l != nil && was.Load != l.Load {
		e.moved.Store(l.At.UnixNano())
	}
}

// Moved returns when a measurement was last another one than that before it, and
// false if none was in this instance's life: counters and gauges of an engine
// that hangs, or has nothing to do, stand.
func (e *Endpoint) Moved() (time.Time, bool) {
	at := e.moved.Load()
	return time.Unix(0, at), at != 0
}

// Touch notes that the endpoint was used at now. An earlier time than the one
// noted is ignored.
func (e *Endpoint) Touch(now time.Time) {
	at := now.UnixNano()
	for {
		seen := e.lastUsed.Load()
		if at <= seen || e.lastUsed.CompareAndSwap(seen, at) {
			return
		}
	}
}

// LastUsed returns when the endpoint was last used, and false if it never was
// in this instance's life.
func (e *Endpoint) LastUsed() (time.Time, bool) {
	at := e.lastUsed.Load()
	if at == 0 {
		return time.Time{}, false
	}
	return time.Unix(0, at), true
}

// hashID is FNV-1a over the ID, stirred by the finaliser of MurmurHash3 so
// that identifiers that differ in their last byte differ in every bit.
func hashID(id string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
