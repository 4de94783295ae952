package endpoint

import (
	"log/slog"
	"time"
)

// State says what a request that came at now would meet.
func (e *Endpoint) State(now time.Time) State {
	if e.breaker.word.Load()&tripped == 0 {
		return Closed
	}
	e.breaker.mu.Lock()
	defer e.breaker.mu.Unlock()
	return e.breaker.state(now)
}

// Admissible reports whether a request that came at now would be let through.
// It takes nothing: two callers may hear yes about the same probe, and Begin
// settles who gets it.
func (e *Endpoint) Admissible(now time.Time) bool { return e.breaker.admissible(now) }

// AdmitsIn returns how long after now a request would be let through if nothing
// happens meanwhile; 0 means at once.
func (e *Endpoint) AdmitsIn(now time.Time) time.Duration { return e.breaker.admitsIn(now) }

// RecentFailures returns how many failures weigh on the endpoint at now, each
// counting half after every Config.Cooldown. Zero is a clean record. It keeps
// an endpoint that fails fast, and so never looks busy, from drawing traffic.
func (e *Endpoint) RecentFailures(now time.Time) float64 { return e.breaker.recentFailures(now) }

// Succeeded notes that the engine works. Call it once an answer is whole, since
// an engine may begin answers and end none; after a cooldown also when the first
// byte of one has come, so that others need not wait for the probe's end. An
// answer that blames the client (400, 401, 404, 413, 422) is a success of the
// engine. It ends the row of failures, and closes the breaker unless the cooldown
// lasts.
func (e *Endpoint) Succeeded(now time.Time) {
	if e.breaker.succeeded(now) {
		e.log.Info("endpoint is back", slog.String("endpoint", e.spec.ID))
	}
}

// Failed notes a failure of the engine: it was not reached, reset, timed out
// or answered 5xx. The Config.FailureThreshold-th in a row opens the breaker;
// so does a single one once a cooldown is over, until the first success.
func (e *Endpoint) Failed(now time.Time) {
	if e.breaker.failed(now) {
		e.log.Warn("endpoint keeps failing and is left out",
			slog.String("endpoint", e.spec.ID), slog.Duration("cooldown", e.breaker.cooldown))
	}
}

// CoolDown notes that the engine asked for time, by 429 or by 503 with
// Retry-After: no request goes there before now+d, and then one at a time
// until one succeeds. Zero or less means Config.Cooldown; more than
// MaxCooldown counts as that. It is load and not a failure: the row of
// failures stays as it is. A shorter time than one that lasts changes nothing.
func (e *Endpoint) CoolDown(now time.Time, d time.Duration) {
	if e.breaker.cool(now, d) {
		e.log.Info("endpoint asked for time and is left out",
			slog.String("endpoint", e.spec.ID), slog.Duration("retry_after", d))
	}
}
