package reconcile

import (
	"slices"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement"
)

// replica is one that is known: its row, and what became of it.
type replica struct {
	row   Row
	since time.Time // of row.State
	// written: the row was given to be stored. stored: it is, in whatever state.
	// dirty: not as it is now.
	written, stored, dirty bool
	put, remove            attempt
	// refused is why the store did not take the row, or let it go, last; empty: it did.
	refused string
	shards  []*shard
	apart   []string // models that may not be beside it

	// begun is when its first shard was ordered.
	begun time.Time
	// served: routers may have requests there.
	served bool
	// address and start are what routers may be told: those of the row that was
	// stored, or could not be.
	address, start string
	// readyAt is when it became ready last.
	readyAt time.Time

	use    Use
	worked time.Time // when it was last seen to work
	unsure time.Time // when it was last not known to have nothing to do
	// toSleep: it is to sleep once it is drained. asleep: all its shards do, and its
	// cards are free. woken is when it was told to wake; zero: it was not, or has.
	toSleep, asleep bool
	woken           time.Time
	// evictedFor is the model that its cards are needed for; empty: none.
	evictedFor string
	// held says what would take it down if nothing showed that it works.
	held string
	// move says why it is to leave where it is, moveAt since when; outdated: it runs
	// what its model's profile said before.
	move     string
	moveAt   time.Time
	outdated bool
}

// shard is one rank of a replica.
type shard struct {
	replica *replica
	rank    int
	place   placement.ShardPlace

	status *engines.ShardStatus // as its node told last; nil: it has none
	// reported: its node has said what it has since this core began.
	reported bool
	// begun: its node has said that it has it, or had. mayRun: it was ordered, and
	// may have been begun.
	begun, mayRun bool
	// absent is since when its node reports without it; bad since when the status
	// is one that ends a replica. Zero: it is not so.
	absent, bad time.Time

	// freed: it has ended, and the stored row gives its cards to others.
	freed bool

	start, stop, drain attempt
	sleep, wake        attempt
	drained            bool
}

// attempt is an order that is given until it shows.
type attempt struct {
	open bool      // no result yet
	next time.Time // not before
}

// due reports whether the order may be given; given notes that it is.
func (a *attempt) due(now time.Time, _ time.Duration) bool { return !a.open && !now.Before(a.next) }
func (a *attempt) given(now time.Time)                     { a.open, a.next = true, now }

// afresh has the order given without a pause: it is another one than before.
func (a *attempt) afresh() { a.next = time.Time{} }

// answered notes a result, after which the order is given again only after pause.
func (a *attempt) answered(now time.Time, pause time.Duration) {
	a.open, a.next = false, now.Add(pause)
}

func newReplica(row Row, now time.Time) *replica {
	r := &replica{row: row, since: now}
	for rank, place := range row.Shards {
		r.shards = append(r.shards, &shard{replica: r, rank: rank, place: place})
	}
	return r
}

func (s *shard) id() engines.ShardID { return engines.ShardID{Replica: s.replica.row.ID, Rank: s.rank} }

// heard takes a status of the shard's own generation.
func (s *shard) heard(status *engines.ShardStatus, now time.Time) {
	s.status, s.begun, s.mayRun, s.absent = status, true, true, time.Time{}
	switch status.State {
	case engines.ShardFailed, engines.ShardStopped, engines.ShardStopping:
		if s.bad.IsZero() {
			s.bad = now
		}
	case engines.ShardUnset, engines.ShardStarting, engines.ShardLoading, engines.ShardReady, engines.ShardDraining, engines.ShardSleeping:
		s.bad = time.Time{}
	}
}

// missed notes that the node reports without the shard.
func (s *shard) missed(now time.Time) {
	s.status, s.bad = nil, time.Time{}
	if s.absent.IsZero() {
		s.absent = now
	}
}

// ready reports whether the shard is as it should be.
func (s *shard) ready() bool { return s.status != nil && s.status.State == engines.ShardReady }

// ended reports whether its node has said that nothing of it runs, of all that
// was ever ordered of it.
func (s *shard) ended() bool {
	switch {
	case s.status != nil:
		return s.status.State == engines.ShardStopped
	case !s.mayRun:
		return true
	}
	return s.reported && !s.absent.IsZero() && !s.start.open
}

// to puts the replica in another state.
func (r *replica) to(s State, reason string, now time.Time) {
	if r.row.State != s {
		r.since = now
	}
	if s == Ready {
		r.readyAt, r.served = now, true
	}
	r.row.State, r.row.Reason = s, reason
	switch s {
	case Draining, Stopping, Failed, Sleeping: // what a start must not undo
		r.dirty = true
	case Placed, Starting, Loading, Ready, Settling, Lost: // what nodes report tells it again
	}
}

// works reports whether the replica was seen to work after a moment, and within
// the time that counts.
func (r *replica) works(after, now time.Time, within time.Duration) bool {
	return r.worked.After(after) && now.Sub(r.worked) < within
}

// leads is the shard that answers requests.
func (r *replica) leads() *shard { return r.shards[0] }

// all reports whether f holds for every shard.
func (r *replica) all(f func(*shard) bool) bool {
	return !slices.ContainsFunc(r.shards, func(s *shard) bool { return !f(s) })
}
