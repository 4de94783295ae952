package admission

import "time"

// Recorder is told what a controller's core was asked and what it answered.
type Recorder interface {
	// Record is called in the order of the steps and under the controller's
	// lock, so it must neither block nor call the controller. r and all it
	// points to are valid until it returns. Tenants stand in it as they were
	// given; who writes them down may want to write a fingerprint, which
	// replays as well.
	Record(r *Record)
}

// Op is what a core was asked. Its String is for logs.
type Op uint8

// The operations.
const (
	OpUnset Op = iota
	OpOffer
	OpCancel
	OpRelease
	OpStep
	OpForget
	OpClose
)

// String returns the operation's name.
func (o Op) String() string {
	switch o {
	case OpOffer:
		return "offer"
	case OpCancel:
		return "cancel"
	case OpRelease:
		return "release"
	case OpStep:
		return "step"
	case OpForget:
		return "forget"
	case OpClose:
		return "close"
	default:
		return "unset"
	}
}

// Record is one call of a core. With the configuration, its seed included, the
// records of a controller's life give its decisions again: see [Replay].
type Record struct {
	Op Op
	At time.Time
	// ID is the request's number; 0 for an offer that was refused.
	ID uint64
	// Request, Granted and Err are an offer and its answer.
	Request Request
	Granted bool
	Err     error
	// Saturation is the pool's after an offer, if it is known.
	Saturation    float64
	HasSaturation bool
	// Loads and Decisions are what a step got and gave; Decisions those of a
	// close, too.
	Loads     []PoolLoad
	Decisions []Decision
}

// Replay makes a core go through recorded calls. Not safe for concurrent use.
type Replay struct {
	core    *Core
	tickets map[uint64]Ticket // by the recorded number
}

// NewReplay returns a replay onto core, which should be new. With the recorded
// controller's configuration it decides as that did; with another it shows what
// that one would have decided on the same offers, loads and lengths of work.
func NewReplay(core *Core) *Replay {
	return &Replay{core: core, tickets: make(map[uint64]Ticket)}
}

// Apply makes the call that r records and returns a record of it with the
// core's own answer, valid until the next call. Where the core decided
// otherwise than the recorded one, the release of a lease that it never granted
// cancels the wait.
func (p *Replay) Apply(r *Record) Record {
	out := Record{Op: r.Op, At: r.At, Request: r.Request, Loads: r.Loads}
	switch r.Op {
	case OpUnset:
	case OpOffer:
		var t Ticket
		t, out.Granted, out.Err = p.core.Offer(r.At, r.Request)
		out.ID = t.ID()
		out.Saturation, out.HasSaturation = p.core.Saturation(r.Request.Pool)
		if r.ID != 0 && out.Err == nil {
			p.tickets[r.ID] = t
		}
		if r.ID == 0 && out.Err == nil {
			// Nothing is known of how long it would have run.
			p.end(r.At, t)
		}
	case OpCancel, OpRelease:
		t := p.tickets[r.ID]
		delete(p.tickets, r.ID)
		out.ID = t.ID()
		p.end(r.At, t)
	case OpStep:
		out.Decisions = p.core.Step(r.At, r.Loads...)
	case OpForget:
		p.core.Forget(r.At)
	case OpClose:
		out.Decisions = p.core.Close(r.At)
	}
	return out
}

func (p *Replay) end(now time.Time, t Ticket) {
	if !p.core.Cancel(now, t) {
		p.core.Release(now, t)
	}
}
