package reconcile

import (
	"slices"
	"strings"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement"
)

// View is how everything stands after a step. What it refers to is shared and
// must not be changed.
type View struct {
	// Now is the core's clock at the step; times here are of it. Known: the stored
	// replicas were read, so that what is not here is not.
	Now      time.Time
	Known    bool
	Models   []ModelView   // by name
	Replicas []ReplicaView // by id
	Strays   []StrayView   // by shard
}

// ModelView is a model that has a profile, and its replicas in numbers.
type ModelView struct {
	Name string
	// State is how it stands for who asks for it.
	State ModelState
	// Wanted is how many replicas are, between Floor, which have to run, and Max. Why
	// says what it is by, and Since from when on. Prewarm is the schedule that raises
	// Floor; empty: none does.
	Wanted, Floor, Max int
	Why                string
	Since              time.Time
	Prewarm            string
	// Asked is for how long nobody has asked for it, Load how full its replicas are.
	// Not known: no router has said.
	Asked engines.Opt[time.Duration]
	Load  engines.Opt[float64]
	// Waiting are the requests that wait for a replica to come up, Queued those that
	// wait for room.
	Waiting, Queued int
	// LoadTime is how long a replica takes to be ready, by the last ones. Not known:
	// none was loaded.
	LoadTime engines.Opt[time.Duration]
	// IdleTimeout is how long nobody may use what runs above Floor until it is stopped.
	IdleTimeout time.Duration
	// Thrashed is how often one was loaded again soon after it had been ended for
	// another model's sake.
	Thrashed int
	// Wish is what one more replica asks of the machines; empty with a Problem.
	Wish placement.Wish
	// Ready serve, Coming are on their way, Leaving are being replaced or ended, Lost
	// may come back.
	// Asleep serve once they are woken.
	Ready, Coming, Leaving, Lost, Asleep int
	// Problem says why none can be placed whatever is free. Unplaced is why no place
	// was found last, but for the nodes one by one; nil: none is looked for.
	Problem  string
	Unplaced *placement.Decision
	// Failures in a row, why the last one failed, and when the next start is tried.
	Failures int
	Reason   string
	After    time.Time
}

// ReplicaView is a replica.
type ReplicaView struct {
	Row
	Since time.Time
	// Held says what would take it down if nothing showed that it works.
	Held string
	// Leaving says why it is to be replaced; empty: it is not.
	Leaving string
	Use     Use
	// Idle is for how long nothing has shown that it works; 0 while a router has a
	// request there. Not known: nobody has seen it work.
	Idle   engines.Opt[time.Duration]
	Shards []ShardView // by rank
}

// ShardView is a shard of a replica.
type ShardView struct {
	placement.ShardPlace
	// Status is what its node said last. Nil: nothing.
	Status *engines.ShardStatus
}

// View returns how everything stands.
func (c *Core) View() *View {
	v := &View{Now: c.now, Known: c.rows, Replicas: make([]ReplicaView, 0, len(c.replicas)), Strays: c.strayViews()}
	counts := make(map[string]*ModelView, len(c.models))
	for _, m := range c.models {
		if m.fingerprint == "" {
			continue
		}
		v.Models = append(v.Models, ModelView{
			Name: m.name, State: m.told.State, Wanted: m.count, Floor: m.floor, Max: m.scaling.Max, Why: m.scaled.Why, Since: m.scaled.At, Prewarm: m.prewarm,
			Asked: c.asked(m), Load: m.demand.Load, Waiting: m.demand.Waiting, Queued: m.demand.Queued, LoadTime: m.loads.estimate(""), Thrashed: m.thrashed, IdleTimeout: c.scaleConfig(m).IdleTimeout,
			Wish: m.wish, Problem: m.problem, Unplaced: m.unplaced, Failures: m.failures, Reason: m.reason, After: m.after,
		})
	}
	slices.SortFunc(v.Models, func(a, b ModelView) int { return strings.Compare(a.Name, b.Name) })
	for i := range v.Models {
		counts[v.Models[i].Name] = &v.Models[i]
	}
	for _, r := range c.replicas {
		view := ReplicaView{Row: r.row, Since: r.since, Held: r.held, Use: r.use, Idle: r.idle(c.now)}
		view.Reason = r.reason(c.now)
		for _, s := range r.shards {
			view.Shards = append(view.Shards, ShardView{ShardPlace: s.place, Status: s.status})
		}
		leaving := r.move != "" || r.outdated
		if leaving {
			view.Leaving = r.leaving()
		}
		v.Replicas = append(v.Replicas, view)
		if m := counts[r.row.Model]; m != nil {
			m.count(r.row.State, leaving)
		}
	}
	return v
}

// storeSlow is after which time without an answer of the store it is said.
const storeSlow = 5 * time.Second

// reason is why the replica is as it is, and that the store has not taken what it is,
// where that keeps it from going on.
func (r *replica) reason(now time.Time) string {
	slow := func(a *attempt) bool { return a.open && now.Sub(a.next) >= storeSlow }
	store := ""
	switch {
	case r.refused != "":
		store = "the store has not taken that: " + r.refused
	case slow(&r.put) || slow(&r.remove):
		store = "the store has not answered yet"
	}
	if store == "" || r.row.Reason == "" {
		return r.row.Reason + store
	}
	return r.row.Reason + "; " + store
}

// idle is for how long nothing has shown that the replica works.
func (r *replica) idle(now time.Time) engines.Opt[time.Duration] {
	if n, known := r.use.InFlight.Get(); known && n > 0 {
		return engines.Known(time.Duration(0))
	}
	if r.worked.IsZero() {
		return engines.Opt[time.Duration]{}
	}
	return engines.Known(max(now.Sub(r.worked), 0))
}

func (m *ModelView) count(s State, leaving bool) {
	switch {
	case s == Lost:
		m.Lost++
	case s == Sleeping:
		m.Asleep++
	case leaving && s.holds() || s == Draining || s.ends():
		m.Leaving++
	case s == Ready:
		m.Ready++
	default:
		m.Coming++
	}
}
