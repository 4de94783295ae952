package feed

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/apipb"
)

// Report is what one router knows of one instance.
type Report struct {
	Instance
	// InFlight are the router's requests that are there.
	InFlight int
	// LastByte is for how long the router has had no byte of it. Not known: it never
	// had one.
	LastByte engines.Opt[time.Duration]
	// CountersMoved is for how long the router has not seen the engine's own counters
	// move. Not known: it never has.
	CountersMoved engines.Opt[time.Duration]
	// Requests are those that the router has sent there.
	Requests engines.Opt[uint64]
}

// Use is what all routers that live know of one instance.
type Use struct {
	Instance
	// Published: it is in the feed.
	Published bool
	// Worked is for how long no router has had a byte of it nor seen its counters
	// move. Not known: none has seen it work.
	Worked engines.Opt[time.Duration]
	// InFlight are the requests that routers have there. Not known: a router that
	// lives, or may live, has not said.
	InFlight engines.Opt[int]
	// Requests are those that the routers of now have sent there. Not known: none
	// has said.
	Requests engines.Opt[uint64]
	// Released: every router that lives has acknowledged a version in which the
	// instance is not, and goes by it.
	Released bool
}

// ByReplica joins the uses of each replica's instances: one that is working is
// enough, and all have to be released. They come by replica.
func ByReplica(uses []Use) []Use {
	joined := make(map[string]Use, len(uses))
	for _, u := range uses {
		j, more := joined[u.Replica]
		if !more {
			joined[u.Replica] = u
			continue
		}
		j.Published = j.Published || u.Published
		j.Released = j.Released && u.Released
		j.Worked = youngest(j.Worked, u.Worked)
		a, knownA := j.InFlight.Get()
		b, knownB := u.InFlight.Get()
		j.InFlight = engines.Opt[int]{}
		if knownA && knownB {
			j.InFlight = engines.Known(a + b)
		}
		if n, known := u.Requests.Get(); known {
			j.Requests = engines.Known(j.Requests.Or(0) + n)
		}
		if u.Published || !j.Published && u.Generation > j.Generation {
			j.Instance = u.Instance
		}
		joined[u.Replica] = j
	}
	out := make([]Use, 0, len(joined))
	for _, u := range joined {
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b Use) int { return cmp.Compare(a.Replica, b.Replica) })
	return out
}

func youngest(a, b engines.Opt[time.Duration]) engines.Opt[time.Duration] {
	x, knownA := a.Get()
	y, knownB := b.Get()
	switch {
	case !knownA:
		return b
	case !knownB:
		return a
	}
	return engines.Known(min(x, y))
}

func (r *Report) wire() *apipb.FeedUse {
	w := &apipb.FeedUse{Replica: r.Replica, Generation: r.Generation, Start: r.Start, InFlight: count(r.InFlight)}
	if d, known := r.LastByte.Get(); known {
		w.LastByte = durationpb.New(max(d, 0))
	}
	if d, known := r.CountersMoved.Get(); known {
		w.CountersMoved = durationpb.New(max(d, 0))
	}
	if n, known := r.Requests.Get(); known {
		w.Requests = &n
	}
	return w
}

func reportFromWire(w *apipb.FeedUse) Report {
	r := Report{
		Instance: Instance{Replica: w.GetReplica(), Generation: w.GetGeneration(), Start: w.GetStart()},
		InFlight: int(w.GetInFlight()), LastByte: age(w.GetLastByte()), CountersMoved: age(w.GetCountersMoved()),
	}
	if w.Requests != nil {
		r.Requests = engines.Known(w.GetRequests())
	}
	return r
}

func age(w *durationpb.Duration) engines.Opt[time.Duration] {
	if w == nil || w.CheckValid() != nil {
		return engines.Opt[time.Duration]{}
	}
	return engines.Known(max(w.AsDuration(), 0))
}
