package shared

import (
	"sync"
	"time"
)

const (
	// breakAfter is how many calls must fail in a row.
	breakAfter = 3
	// probeEvery is how often one request tries whether Redis is back.
	probeEvery = time.Second
)

// breaker spares requests the wait for a Redis that is away.
type breaker struct {
	mu     sync.Mutex
	failed int       // in a row; guarded by mu
	probe  time.Time // when the next one may try; guarded by mu
	change func(away bool, err error)
}

// allow reports whether a request may ask.
func (b *breaker) allow(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed < breakAfter {
		return true
	}
	if now.Before(b.probe) {
		return false
	}
	b.probe = now.Add(probeEvery)
	return true
}

func (b *breaker) away() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed >= breakAfter
}

// report enters how a call went.
func (b *breaker) report(now time.Time, err error) {
	b.mu.Lock()
	before := b.failed >= breakAfter
	if err == nil {
		b.failed = 0
	} else if b.failed++; b.failed == breakAfter {
		b.probe = now.Add(probeEvery)
	}
	after := b.failed >= breakAfter
	b.mu.Unlock()
	if before != after {
		b.change(after, err)
	}
}
