package agent

import (
	"math/rand/v2"
	"time"
)

// backoff says how long to wait before the next try.
type backoff struct {
	cfg   Reconnect
	tries int
}

// next returns the pause after another try that failed, or was refused. Failed
// ones are spread over the whole of their bound, so that a fleet that lost its
// control plane at one moment does not come back at one moment; one that is
// refused will be again, and waits for half of its bound at least.
func (b *backoff) next(refused bool) time.Duration {
	limit := b.cfg.MaxDelay
	if refused {
		limit = b.cfg.RefusedMaxDelay
	}
	bound := limit
	if b.tries < 30 {
		bound = min(limit, b.cfg.Delay<<b.tries)
	}
	b.tries++
	if refused {
		return bound/2 + rand.N(bound/2+1)
	}
	return rand.N(bound + 1)
}

// reset begins anew: the link was seen to work, which a connection alone does not
// show.
func (b *backoff) reset() { b.tries = 0 }
