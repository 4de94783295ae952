package reconcile

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement"
)

const (
	// mostTried bounds how many replicas are thought of when room is made.
	mostTried = 32
	// evictRetry is after which time room is looked for again where none could be
	// made, or where what was made was not seen yet: a node's word of its memory may
	// come after that of its shards.
	evictRetry = 20 * time.Second
	// usualLoad is how long a replica is taken to load of which that is not known.
	usualLoad = time.Minute
	// thrashWindow is within which time after an eviction another load of the model
	// is one that the eviction has cost.
	thrashWindow = 10 * time.Minute
)

// makeRoom ends replicas that run on demand and do nothing, so that one of a model
// that has no place gets one. It ends as few and as cheap ones as it finds, and none
// if that would not do.
func (c *Core) makeRoom(m *model) {
	if m.unplaced == nil || c.now.Before(m.evictAt) {
		return
	}
	for _, r := range c.replicas {
		if r.evictedFor == m.name && !r.asleep { // on its way
			m.evictAt = c.now.Add(evictRetry)
			return
		}
	}
	candidates := c.evictable(m)
	if len(candidates) == 0 {
		return // one may be idle, or have stayed long enough, at any time
	}
	m.evictAt = c.now.Add(evictRetry)
	for _, r := range c.leastLoss(m, candidates) {
		c.evict(r, m)
	}
}

// evictable returns the replicas that may be ended for a model's sake, those whose
// loss costs least first: what was not used for long and is soon loaded again. What
// sleeps is one of them, for the rest that it has of its cards' memory. One
// that had a token within LostAfter is none of them.
func (c *Core) evictable(m *model) []*replica {
	var out []*replica
	for _, other := range c.models {
		for _, r := range other.kin.asleep {
			if other != m && r.asleep && r.evictedFor == "" {
				out = append(out, r)
			}
		}
		spare := len(other.kin.fresh) - other.floor
		if other == m || spare <= 0 || other.kin.ready <= other.floor {
			continue
		}
		for _, r := range other.kin.fresh {
			idle, known := c.idleFor(r).Get()
			if known && idle >= c.cfg.LostAfter && c.serves(r) && c.now.Sub(r.readyAt) >= c.cfg.Residence {
				out = append(out, r)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b *replica) int {
		return cmp.Or(-cmp.Compare(c.price(a), c.price(b)), cmp.Compare(a.row.ID, b.row.ID))
	})
	return out[:min(len(out), mostTried)]
}

// price is for how long a replica has been idle, in units of what it takes to load
// it again: the more, the less its loss costs.
func (c *Core) price(r *replica) float64 {
	idle, _ := c.idleFor(r).Get()
	if r.asleep {
		idle = c.now.Sub(r.since)
	}
	load := usualLoad
	if m := c.byName[r.row.Model]; m != nil {
		load = m.loads.estimate(c.classOf(r)).Or(usualLoad)
	}
	return float64(idle) / float64(max(load, time.Second))
}

// leastLoss returns those of the candidates that are ended: one alone if that is
// enough, else several, without any that is not needed. Nil: all of them would not do.
func (c *Core) leastLoss(m *model, candidates []*replica) []*replica {
	for _, r := range candidates {
		if c.fitsWithout(m, []*replica{r}) {
			return []*replica{r}
		}
	}
	var chosen []*replica
	left := map[*model]int{}
	for _, r := range candidates {
		other := c.byName[r.row.Model]
		if !r.asleep {
			if left[other]++; len(other.kin.fresh)-left[other] < other.floor {
				continue
			}
		}
		chosen = append(chosen, r)
		if !c.fitsWithout(m, chosen) {
			continue
		}
		for i := 0; i < len(chosen); { // the first cost least: they are spared last
			if without := slices.Delete(slices.Clone(chosen), i, i+1); c.fitsWithout(m, without) {
				chosen = without
				continue
			}
			i++
		}
		return chosen
	}
	return nil
}

// fitsWithout reports whether a replica of the model would have a place if others
// were not there.
func (c *Core) fitsWithout(m *model, gone []*replica) bool {
	trial := c.cluster.Clone()
	for _, r := range gone {
		vacate(trial, &r.row)
	}
	wish := m.wish
	wish.Replica = oneMore(m.name, 0)
	return trial.Place(wish).Placed
}

// vacate takes a replica out of a cluster as if its engine had ended: what it has of
// memory and ports is free.
func vacate(in *placement.Cluster, row *Row) {
	in.Release(row.ID)
	for _, place := range row.Shards {
		n, known := in.Node(place.Node)
		if !known {
			continue
		}
		n.Cards = slices.Clone(n.Cards)
		for i := range n.Cards {
			if slices.Contains(place.Cards, n.Cards[i].ID) {
				n.Cards[i].FreeBytes = engines.Opt[uint64]{} // all but what strangers hold
			}
		}
		if free, known := n.HostFreeBytes.Get(); known {
			n.HostFreeBytes = engines.Known(free + place.HostBytes)
		}
		if free, known := n.FreePorts.Get(); known {
			n.FreePorts = engines.Known(free + place.Ports)
		}
		in.SetNode(n)
	}
}

// evict ends a replica for a model's sake.
func (c *Core) evict(r *replica, m *model) {
	why := "its cards are needed for model " + m.name
	if idle, known := c.idleFor(r).Get(); known {
		why += fmt.Sprintf("; it was idle for %v", idle.Round(time.Second))
	}
	r.evictedFor = m.name
	other := c.byName[r.row.Model]
	if r.asleep { // what it keeps of its cards is what is missing
		r.to(Stopping, why, c.now)
		c.end(r)
		return
	}
	if c.sleepable(other, r) {
		other.kin.asleep, r.toSleep = append(other.kin.asleep, r), true
	}
	other.evicted = c.now
	other.scaler.Less(c.now, why)
	other.kin.fresh = slices.DeleteFunc(other.kin.fresh, func(have *replica) bool { return have == r })
	other.kin.ready--
	c.retire(r, why)
}

// classOf is the class of the cards that a replica has; empty: it has none, or they
// are not known.
func (c *Core) classOf(r *replica) string {
	place := r.leads().place
	if len(place.Cards) == 0 {
		return ""
	}
	for _, card := range c.node(place.Node).Cards {
		if card.ID == place.Cards[0] {
			return card.Class
		}
	}
	return ""
}
