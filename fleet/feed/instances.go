package feed

import (
	"time"

	"github.com/llmgw/llmgw/engines"
)

// Bounds of what is remembered of instances that are not in the feed.
const (
	maxKnown  = 4 * MaxEntries // instances, those in the feed included
	keepKnown = time.Hour
)

// instance is what is known of an instance besides what routers have there.
type instance struct {
	id        Instance
	slot      int
	published bool
	removed   uint64 // from which sequence of the term on it is not in the feed, unless published
	left      time.Duration
	seen      bool          // a router has seen it work
	worked    time.Duration // when last; since the publisher's beginning
}

// slots are small numbers for instances, so that what each router says of each
// takes little room and no looking up.
type slots struct {
	free []int
	next int
}

func (s *slots) take() int {
	if n := len(s.free); n > 0 {
		slot := s.free[n-1]
		s.free = s.free[:n-1]
		return slot
	}
	s.next++
	return s.next - 1
}

// enters notes that an instance is in the feed. p.mu is held.
func (p *Publisher) enters(id Instance) {
	i := p.known[id]
	if i == nil {
		i = &instance{id: id, slot: p.slots.take()}
		p.known[id] = i
	}
	i.published = true
}

// leaves notes that an instance is not in the feed from the next version on. p.mu
// is held.
func (p *Publisher) leaves(id Instance) {
	i := p.known[id]
	i.published, i.removed, i.left = false, p.seq+1, p.now()
}

// find returns what is known of an instance that a router speaks of, or nil if
// there is no room to know more. p.mu is held.
func (p *Publisher) find(id Instance) *instance {
	i := p.known[id]
	if i == nil && len(p.known) < maxKnown && engines.ValidID(id.Replica) == nil && len(id.Start) <= MaxTextBytes && plain(id.Start) {
		i = &instance{id: id, slot: p.slots.take(), removed: max(p.forgotten, 1), left: p.now()}
		p.known[id] = i
	}
	return i
}

// forget drops instances that left the feed long ago and that no router speaks of.
func (p *Publisher) forget() {
	if len(p.known) == len(p.table.entries) {
		return
	}
	spoken := func(slot int) bool {
		for _, r := range p.routers {
			if r.at(slot).said {
				return true
			}
		}
		return false
	}
	full := len(p.known) > maxKnown/2
	for id, i := range p.known {
		if i.published || !full && p.now()-i.left < keepKnown || spoken(i.slot) {
			continue
		}
		p.forgotten = max(p.forgotten, i.removed)
		delete(p.known, id)
		p.slots.free = append(p.slots.free, i.slot)
	}
}
