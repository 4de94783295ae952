package prefix

import (
	"fmt"
	"math"
	"sync"
)

// Index remembers which prompts were sent to which endpoint. Make one with New.
// All methods are safe for concurrent use; lookups do not wait for each other.
type Index struct {
	cfg     Config
	metrics *metrics

	mu    sync.RWMutex
	tree  tree      // guarded by mu
	es    endpoints // guarded by mu
	lives uint32    // guarded by mu
	path  []step    // guarded by mu: scratch of writers
}

// New validates cfg and returns an empty Index.
func New(cfg Config, deps Deps) (*Index, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("prefix: %w", err)
	}
	x := &Index{
		cfg:  cfg,
		tree: tree{first: make(map[uint64]int32)},
		es:   endpoints{models: make(map[string]*model)},
	}
	x.metrics = newMetrics(x)
	if deps.Registerer != nil {
		if err := deps.Registerer.Register(x.metrics); err != nil {
			return nil, fmt.Errorf("prefix: register metrics: %w", err)
		}
	}
	return x, nil
}

// Add puts an endpoint into the index, which holds nothing yet. Endpoints of
// the same model share what is learned about its bytes per token. The error is
// [ErrTooManyEndpoints].
func (x *Index) Add(model string) (ID, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.es.count() >= x.cfg.MaxEndpoints {
		return ID{}, fmt.Errorf("%w: the limit is %d", ErrTooManyEndpoints, x.cfg.MaxEndpoints)
	}
	if x.lives++; x.lives == 0 {
		x.lives = 1
	}
	return x.es.add(model, x.lives, &x.cfg), nil
}

// Remove takes an endpoint and all it holds out of the index.
func (x *Index) Remove(id ID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e := x.es.get(id); e != nil {
		x.forget(e, math.MaxUint64)
		x.dropGhosts(e)
		x.es.remove(id)
	}
}

// Clear forgets all that an endpoint holds: its cache was cleared or the engine
// started anew. What was learned of its capacity stays.
func (x *Index) Clear(id ID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e := x.es.get(id); e != nil {
		x.forget(e, math.MaxUint64)
		x.dropGhosts(e)
		e.full, e.excess, e.misses = false, 0, 0
		e.clears++
	}
}

// SetCapacity says how many tokens an endpoint's cache has room for, as from the
// number of its KV blocks. Answers may still show that it holds fewer, since
// requests that run take part of the room. Tokens below 1 are ignored.
func (x *Index) SetCapacity(id ID, tokens int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.es.get(id)
	if e == nil || tokens < 1 {
		return
	}
	if t := float64(min(tokens, maxCapacityTokens)); t != e.told {
		e.told, e.capacity = t, t
		x.trim(e)
	}
}

// Evicted says that an endpoint took so many tokens out of its cache, without
// saying which: as many, less those that the index took itself, are forgotten,
// the longest unused first, and the capacity is estimated as what is left.
func (x *Index) Evicted(id ID, tokens int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.es.get(id)
	if e == nil || tokens < 1 {
		return
	}
	e.excess += float64(tokens)
	if e.excess <= 0 {
		return
	}
	held := e.tokens(e.chunks)
	e.capacity = math.Max(math.Min(e.capacity, held-e.excess), minCapacityTokens)
	x.trim(e) // which takes it off excess
	e.excess = 0
}

// forget drops what e has not used after stamp.
func (x *Index) forget(e *endpoint, stamp uint64) {
	for j := e.oldest.oldest; j != 0; j = e.oldest.oldest {
		if x.tree.holds.at(j).stamp > stamp {
			return
		}
		x.tree.drop(j, e)
	}
}

func (x *Index) dropGhosts(e *endpoint) {
	if e.ghosts != nil {
		e.ghosts = nil
		x.tree.bytes -= ghostBytes
	}
}

// trim takes what e holds beyond its capacity, the oldest first. Of the last
// node it takes part: engines free a prompt's end before its beginning.
func (x *Index) trim(e *endpoint) {
	over := e.chunks - e.capacityChunks()
	if over <= 0 {
		return
	}
	e.full = true
	e.excess = math.Max(e.excess-e.tokens(over), -e.capacity/2)
	if e.ghosts == nil {
		e.ghosts = make(ghosts, ghostCount)
		x.tree.bytes += ghostBytes
	}
	for over > 0 {
		j := e.oldest.oldest
		h := x.tree.holds.at(j)
		label := x.tree.nodes.at(h.node).label
		if int64(h.chunks) > over {
			h.chunks -= int32(over)
			e.chunks -= over
			e.ghosts.add(label[h.chunks])
			return
		}
		over -= int64(h.chunks)
		e.ghosts.add(label[0])
		x.tree.drop(j, e)
	}
}

// bound keeps the index within its memory.
func (x *Index) bound() {
	for x.tree.bytes > x.cfg.MaxBytes && x.tree.oldest.oldest != 0 {
		j := x.tree.oldest.oldest
		x.tree.drop(j, x.es.at(x.tree.holds.at(j).slot))
		x.metrics.evicted++
	}
}

// Stats are an index's gauges.
type Stats struct {
	Endpoints int
	Nodes     int   // of the tree
	Bytes     int64 // of memory, at most Config.MaxBytes
}

// Stats returns the current gauges.
func (x *Index) Stats() Stats {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return Stats{Endpoints: x.es.count(), Nodes: len(x.tree.first), Bytes: x.tree.bytes}
}

// Capacity returns how many tokens an endpoint is taken to have room for, and
// how many it is taken to hold; 0, 0 for an endpoint that is not there.
func (x *Index) Capacity(id ID) (tokens, held int64) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	e := x.es.get(id)
	if e == nil {
		return 0, 0
	}
	return int64(e.capacity), int64(e.tokens(e.chunks))
}

// BytesPerToken returns how many bytes of a prompt of this model make a token,
// as configured or learned; false if no endpoint has the model.
func (x *Index) BytesPerToken(name string) (float64, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	m := x.es.models[name]
	if m == nil {
		return 0, false
	}
	return m.bytes / m.tokens, true
}
