package router

import (
	"container/list"
	"sync"
	"time"
)

// pin says which endpoint has a stored response, and whose it is.
type pin struct {
	endpoint string // its ID
	model    string // canonical
	tenant   string
}

// pins remembers where stored responses are: the engine that made one has it and
// no other. It is bounded; who was not asked for longest goes first.
//
// There is one lock, held for a look-up. It is taken only for what is stateful:
// once for each answer that is stored and each request that refers to one.
type pins struct {
	limit int
	ttl   time.Duration

	mu      sync.Mutex
	entries map[string]*list.Element // guarded by mu
	order   list.List                // of pinned, the last used in front; guarded by mu
	evicted uint64                   // guarded by mu
}

type pinned struct {
	id    string
	pin   pin
	until time.Time
	// disputed: two tenants got this ID, and it is neither's.
	disputed bool
}

// learn notes where the response is. Some engines let clients choose the IDs, so
// one that was given to two tenants is from there on nobody's: whose response the
// engine has under it cannot be told. Who chose the other's on purpose has at
// worst hidden it.
func (p *pins) learn(now time.Time, id string, where pin) {
	if p.limit == 0 || id == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if e, ok := p.entries[id]; ok {
		at := e.Value.(*pinned)
		switch {
		case now.After(at.until):
			at.pin, at.disputed = where, false
		case at.pin.tenant != where.tenant:
			at.disputed = true
		default:
			at.pin = where
		}
		at.until = now.Add(p.ttl)
		p.order.MoveToFront(e)
		return
	}
	if len(p.entries) >= p.limit {
		oldest := p.order.Back()
		if !now.After(oldest.Value.(*pinned).until) {
			p.evicted++
		}
		p.remove(oldest)
	}
	if p.entries == nil {
		p.entries = map[string]*list.Element{}
	}
	p.entries[id] = p.order.PushFront(&pinned{id: id, pin: where, until: now.Add(p.ttl)})
}

// find returns where the response is. To be asked for keeps it remembered.
func (p *pins) find(now time.Time, id string) (pin, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e, ok := p.entries[id]
	if !ok {
		return pin{}, false
	}
	at := e.Value.(*pinned)
	if now.After(at.until) {
		p.remove(e)
		return pin{}, false
	}
	if at.disputed {
		return pin{}, false
	}
	at.until = now.Add(p.ttl)
	p.order.MoveToFront(e)
	return at.pin, true
}

// peek is find for who only wants to know: it keeps nothing remembered.
func (p *pins) peek(now time.Time, id string) (pin, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e, ok := p.entries[id]
	if !ok {
		return pin{}, false
	}
	at := e.Value.(*pinned)
	if now.After(at.until) || at.disputed {
		return pin{}, false
	}
	return at.pin, true
}

// forget drops what is known of the response.
func (p *pins) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e, ok := p.entries[id]; ok {
		p.remove(e)
	}
}

// remove is called with mu held.
func (p *pins) remove(e *list.Element) {
	delete(p.entries, e.Value.(*pinned).id)
	p.order.Remove(e)
}

// counts returns how many responses are remembered, and how many were forgotten
// before their time for want of room.
func (p *pins) counts() (known int, evicted uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.entries), p.evicted
}
