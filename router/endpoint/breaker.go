package endpoint

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// State is what an endpoint's breaker does with requests.
type State uint8

const (
	// StateUnset is the zero value and no state.
	StateUnset State = iota
	// Closed lets every request through.
	Closed
	// Open lets none through: too many failures in a row.
	Open
	// CoolingDown lets none through: the engine asked for time.
	CoolingDown
	// HalfOpen lets the next request through, as a probe.
	HalfOpen
	// Probing lets none through until the probe has ended or has expired.
	Probing
)

// String returns the state's name in lower case.
func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case Open:
		return "open"
	case CoolingDown:
		return "cooling"
	case HalfOpen:
		return "half-open"
	case Probing:
		return "probing"
	case StateUnset:
	}
	return "unset"
}

// The bits of breaker.word. A word of zero is the common case: closed, and
// nothing to remember.
const (
	tripped    uint32 = 1 << 31
	scarred    uint32 = 1 << 30 // some failure still weighs
	failureCap uint32 = scarred - 1
)

// forgotten is the weight below which a failure no longer counts: after five
// half-lives.
const forgotten = 1.0 / 32

// breaker is one instance's breaker. Asking a closed one is one atomic load;
// everything else goes under mu.
type breaker struct {
	// word holds the bits above and the failures in a row. Written under mu.
	word atomic.Uint32

	threshold uint32
	cooldown  time.Duration

	mu       sync.Mutex
	until    time.Time // guarded by mu; end of the cooldown while tripped
	load     bool      // guarded by mu; tripped by load, not by failures
	probe    uint64    // guarded by mu; who holds the probe, 0 nobody
	probeAt  time.Time // guarded by mu; when it was taken
	probes   uint64    // guarded by mu; how many there ever were
	scar     float64   // guarded by mu; weight of past failures at scarAt
	scarAt   time.Time // guarded by mu
	openings uint64    // guarded by mu; times it opened
	cools    uint64    // guarded by mu; times it began to cool down
}

func (b *breaker) init(cfg Config) {
	b.threshold = min(uint32(cfg.FailureThreshold), failureCap)
	b.cooldown = cfg.Cooldown
}

// state says what a request at now would meet. Callers hold mu.
func (b *breaker) state(now time.Time) State {
	switch {
	case b.word.Load()&tripped == 0:
		return Closed
	case now.Before(b.until) && b.load:
		return CoolingDown
	case now.Before(b.until):
		return Open
	case b.probe != 0 && now.Sub(b.probeAt) < b.cooldown:
		return Probing
	}
	return HalfOpen
}

func (b *breaker) admissible(now time.Time) bool {
	if b.word.Load()&tripped == 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	state := b.state(now)
	return state == Closed || state == HalfOpen
}

// admitsIn returns how long after now a request would be let through, 0 for at
// once. A probe that is out may end before the time it is given.
func (b *breaker) admitsIn(now time.Time) time.Duration {
	if b.word.Load()&tripped == 0 {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch b.state(now) {
	case Open, CoolingDown:
		return b.until.Sub(now)
	case Probing:
		return b.probeAt.Add(b.cooldown).Sub(now)
	default:
		return 0
	}
}

// begin admits one request, and hands it the probe if one is owed.
func (b *breaker) begin(now time.Time) (probe uint64, ok bool) {
	if b.word.Load()&tripped == 0 {
		return 0, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch b.state(now) {
	case Closed:
		return 0, true
	case HalfOpen:
		b.probes++
		b.probe, b.probeAt = b.probes, now
		return b.probe, true
	default:
		return 0, false
	}
}

// endProbe lets the next probe through if this one is the latest. A probe that
// reported its outcome has nothing left to give back.
func (b *breaker) endProbe(probe uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.probe == probe {
		b.probe = 0
	}
}

// succeeded reports whether the breaker closed. A success while the cooldown
// lasts belongs to a request that began before it and shortens nothing.
func (b *breaker) succeeded(now time.Time) (closed bool) {
	if b.word.Load()&^scarred == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	word := b.word.Load()
	if word&tripped != 0 && now.Before(b.until) {
		return false
	}
	b.probe = 0
	b.word.Store(word & scarred)
	return word&tripped != 0
}

// failed reports whether the breaker opened. A failure while the cooldown
// lasts belongs to a request that began before it and lengthens nothing.
func (b *breaker) failed(now time.Time) (opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.scar = b.weight(now) + 1
	b.scarAt = now
	word := b.word.Load() | scarred
	switch {
	case word&tripped != 0 && now.Before(b.until):
	case word&tripped != 0:
		opened = true
	default:
		failures := min(word&failureCap+1, failureCap)
		word = scarred | failures
		opened = failures >= b.threshold
	}
	if opened {
		word |= tripped
		b.until, b.load = now.Add(b.cooldown), false
		b.openings++
	}
	b.word.Store(word)
	return opened
}

// cool takes the endpoint out until now+d, or later if it is out for longer
// already, and reports whether that changed anything.
func (b *breaker) cool(now time.Time, d time.Duration) bool {
	if d <= 0 {
		d = b.cooldown
	}
	until := now.Add(min(d, MaxCooldown))
	b.mu.Lock()
	defer b.mu.Unlock()
	word := b.word.Load()
	if word&tripped != 0 && !until.After(b.until) {
		return false
	}
	fresh := word&tripped == 0 || !now.Before(b.until)
	b.until, b.load = until, true
	b.word.Store(word | tripped)
	if fresh {
		b.cools++
	}
	return fresh
}

// weight returns what past failures weigh at now. Callers hold mu.
func (b *breaker) weight(now time.Time) float64 {
	if b.scar == 0 {
		return 0
	}
	age := max(now.Sub(b.scarAt), 0)
	return b.scar * math.Exp2(-float64(age)/float64(b.cooldown))
}

func (b *breaker) recentFailures(now time.Time) float64 {
	if b.word.Load()&scarred == 0 {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	left := b.weight(now)
	if left < forgotten {
		b.scar = 0
		b.word.Store(b.word.Load() &^ scarred)
		return 0
	}
	return left
}
