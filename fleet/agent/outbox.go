package agent

import (
	"slices"
	"sync"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// outbox is what has to be told to the control plane. Whoever has news leaves it
// here and goes on: a shard's statuses are one entry, the newest, and answers are
// bounded, for an order that was not answered comes again.
type outbox struct {
	wake chan struct{} // has room for one; filled when there is something

	mu      sync.Mutex
	session uint64 // guarded by mu; 0: nobody listens
	news    news   // guarded by mu
}

// news are what waits to be told.
type news struct {
	shards    []engines.ShardID // in the order in which they changed
	answers   []*fleetpb.Answer
	inventory bool
	reach     bool // where the node is reached, and its ports
	// weights are what was found, the newest of each.
	weights map[string]*fleetpb.WeightsFound
}

// pendingAnswers bounds the answers that wait; the oldest go.
const pendingAnswers = 1024

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1)} }

func (b *outbox) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// open begins a session, which has nothing of the one before; 0 ends one.
func (b *outbox) open(session uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.session, b.news = session, news{}
}

// changed notes that a shard has a new status.
func (b *outbox) changed(id engines.ShardID) {
	b.mu.Lock()
	if b.session != 0 && !slices.Contains(b.news.shards, id) {
		b.news.shards = append(b.news.shards, id)
	}
	b.mu.Unlock()
	b.signal()
}

// hardware notes that the node has another inventory.
func (b *outbox) hardware() {
	b.mu.Lock()
	b.news.inventory = b.session != 0
	b.mu.Unlock()
	b.signal()
}

// reached notes that the node is reached elsewhere, or has other ports.
func (b *outbox) reached() {
	b.mu.Lock()
	b.news.reach = b.session != 0
	b.mu.Unlock()
	b.signal()
}

// answered leaves an answer for the session that gave the order.
func (b *outbox) answered(session uint64, a *fleetpb.Answer) {
	b.mu.Lock()
	if session == b.session {
		b.news.answers = append(b.news.answers[max(0, len(b.news.answers)+1-pendingAnswers):], a)
	}
	b.mu.Unlock()
	b.signal()
}

// found leaves what was found of weights for the session that asked. It is bounded
// by what that asks about.
func (b *outbox) found(session uint64, f *fleetpb.WeightsFound) {
	b.mu.Lock()
	if session == b.session {
		if b.news.weights == nil {
			b.news.weights = make(map[string]*fleetpb.WeightsFound)
		}
		b.news.weights[f.GetKey()] = f
	}
	b.mu.Unlock()
	b.signal()
}

// take empties the outbox.
func (b *outbox) take() news {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.news
	b.news = news{}
	return out
}
