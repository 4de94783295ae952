package auth

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmgw/llmgw/storage"
)

// shardCount divides the known keys, so that requests on many processors do not
// meet at one lock. Which key is where its hash says, which is uniform.
const shardCount = 64

// entry is a key that the store vouched for. Times are since the
// authenticator's beginning.
type entry struct {
	hash storage.KeyHash
	id   atomic.Pointer[Identity] // never nil

	checked atomic.Int64           // when the store was last asked and vouched for it
	flight  atomic.Pointer[flight] // the look-up under way; nil if none
	retry   atomic.Int64           // no look-up before
	noWait  atomic.Int64           // no request waits for a look-up before
	used    atomic.Bool            // since the hand of the clock passed
	gone    atomic.Bool            // it is not in the cache any more

	pos int // in known.ring; guarded by Authenticator.mu
}

// known holds the keys that open something. Reads take a shard's lock for a look
// into its map. Writers hold Authenticator.mu too, which comes first.
type known struct {
	shards [shardCount]shard

	max  int
	byID map[string]*entry // guarded by Authenticator.mu
	ring []*entry          // guarded by Authenticator.mu
	hand int               // guarded by Authenticator.mu
}

type shard struct {
	mu      sync.RWMutex
	entries map[storage.KeyHash]*entry // guarded by mu
	_       [64]byte                   // keeps neighbours out of each other's cache lines
}

func newKnown(most int) *known {
	k := &known{max: most, byID: make(map[string]*entry)}
	for i := range k.shards {
		k.shards[i].entries = make(map[storage.KeyHash]*entry)
	}
	return k
}

func (k *known) shard(h *storage.KeyHash) *shard { return &k.shards[h[0]%shardCount] }

// get returns the entry of a key, or nil. It allocates nothing.
func (k *known) get(h *storage.KeyHash) *entry {
	s := k.shard(h)
	s.mu.RLock()
	e := s.entries[*h]
	s.mu.RUnlock()
	return e
}

// put adds an entry that is not there, and reports whether another one had to
// go: the next that was not used since the hand last passed it.
func (k *known) put(h storage.KeyHash, id *Identity, checked time.Duration) (evicted bool) {
	if len(k.ring) >= k.max {
		for k.ring[k.hand%len(k.ring)].used.Swap(false) {
			k.hand++
		}
		k.remove(k.ring[k.hand%len(k.ring)])
		evicted = true
	}
	e := &entry{hash: h, pos: len(k.ring)}
	e.id.Store(id)
	e.checked.Store(int64(checked))
	// Not used: a key that comes once goes before one that comes again.
	k.ring = append(k.ring, e)
	k.byID[id.KeyID()] = e
	s := k.shard(&h)
	s.mu.Lock()
	s.entries[h] = e
	s.mu.Unlock()
	return evicted
}

func (k *known) remove(e *entry) {
	e.gone.Store(true)
	last := len(k.ring) - 1
	k.ring[last].pos = e.pos
	k.ring[e.pos] = k.ring[last]
	k.ring[last] = nil
	k.ring = k.ring[:last]
	delete(k.byID, e.id.Load().KeyID())
	s := k.shard(&e.hash)
	s.mu.Lock()
	delete(s.entries, e.hash)
	s.mu.Unlock()
}

// refusal is that a key opens nothing.
type refusal struct {
	reason Reason
	keyID  string        // of an expired or revoked key
	asked  time.Duration // when the store was asked, since the authenticator's beginning
}

// recent maps a bounded number of keys to values. The one that was put first
// goes first, so that a flood takes the place of itself.
type recent[K comparable, V any] struct {
	max   int
	items map[K]recentItem[V]
	ring  []K
	next  int
}

type recentItem[V any] struct {
	value V
	slot  int // in ring
}

func newRecent[K comparable, V any](most int) *recent[K, V] {
	return &recent[K, V]{max: most, items: make(map[K]recentItem[V])}
}

func (r *recent[K, V]) get(k K) (V, bool) {
	it, ok := r.items[k]
	return it.value, ok
}

// put sets a value, as the newest, and reports whether another one had to go.
func (r *recent[K, V]) put(k K, v V) (evicted bool) {
	delete(r.items, k)
	slot := r.next
	if len(r.ring) < r.max {
		slot = len(r.ring)
		r.ring = append(r.ring, k)
	} else {
		// A key that was removed or put anew has left its slot behind.
		if it, ok := r.items[r.ring[slot]]; ok && it.slot == slot {
			delete(r.items, r.ring[slot])
			evicted = true
		}
		r.ring[slot] = k
		r.next = (slot + 1) % r.max
	}
	r.items[k] = recentItem[V]{value: v, slot: slot}
	return evicted
}

func (r *recent[K, V]) remove(k K) { delete(r.items, k) }
