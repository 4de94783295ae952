package feed

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/llmgw/llmgw/engines"
)

// changed notes that Use would return something else that matters. p.mu is held.
func (p *Publisher) changed() {
	p.revision++
	p.tell()
}

func (p *Publisher) tell() {
	select {
	case p.useC <- struct{}{}:
	default:
	}
}

// C has an element when routers have said something that somebody may wait for:
// that they go by another version, that requests at what is not in the feed any more
// have ended, or that some have begun to wait for a model.
func (p *Publisher) C() <-chan struct{} { return p.useC }

// Use returns what routers that live know of every instance that is in the feed,
// was lately, or is spoken of, by replica, generation and start; and the revision
// of that. Since is the revision that the caller has: nil, if nothing was heard
// after it. 0 has none.
//
// For [Lease] after the publisher came to lead, routers of which it does not know
// may live: until then nothing is known to be idle or released.
func (p *Publisher) Use(since uint64) (uses []Use, revision uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.revision == since && since != 0 {
		return nil, since
	}
	uses = make([]Use, 0, len(p.known))
	routers := slices.Collect(maps.Values(p.routers))
	for _, i := range p.known {
		uses = append(uses, p.useOf(i, routers))
	}
	slices.SortFunc(uses, func(a, b Use) int {
		return cmp.Or(cmp.Compare(a.Replica, b.Replica), cmp.Compare(a.Generation, b.Generation), cmp.Compare(a.Start, b.Start))
	})
	p.revision = max(p.revision, 1)
	return uses, p.revision
}

// UseOf returns what routers that live know of an instance, also of one that was
// never in the feed.
func (p *Publisher) UseOf(id Instance) Use {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.known[id]
	if i == nil {
		i = &instance{id: id, slot: math.MaxInt, removed: max(p.forgotten, 1)}
	}
	return p.useOf(i, slices.Collect(maps.Values(p.routers)))
}

// useOf needs p.mu.
func (p *Publisher) useOf(i *instance, routers []*router) Use {
	u := Use{Instance: i.id, Published: i.published}
	now := p.clock.at(p.now())
	settled := p.leads && now-p.begun >= Lease
	if i.seen {
		u.Worked = engines.Known(max(p.now()-i.worked, 0))
	}
	known, sum := settled, 0
	u.Released = settled && !i.published
	for _, r := range routers {
		released := !i.published && r.applied.Cluster == p.cluster && r.applied.Term == p.term && r.applied.Seq >= i.removed && r.applied.Seq <= p.seq
		u.Released = u.Released && released
		f := r.at(i.slot)
		if n, counted := f.requests.Get(); counted {
			u.Requests = engines.Known(u.Requests.Or(0) + n)
		}
		switch {
		case r.session == nil || !r.reported || now-r.heard > fresh:
			known = false
		case f.said:
			sum += f.inFlight
		case !released:
			known = false
		}
	}
	if known {
		u.InFlight = engines.Known(sum)
	}
	return u
}
