package prefix

import (
	"cmp"
	"slices"
)

// Match is what one endpoint is believed to hold of a prompt.
type Match struct {
	ID ID
	// Bytes is the length of the beginning it holds, a multiple of ChunkBytes,
	// positive.
	Bytes int
	// Tokens is what that is in tokens, by the ratio learned for its model.
	Tokens int
	// Seen is how often a prompt with this beginning was sent there, at least 1.
	// Of endpoints that hold as much, the one seen most often is the home.
	Seen int
	// Trust is the share of such beliefs about this endpoint that held lately,
	// in [0,1]; 1/2 before any answer.
	Trust float64
}

// Result is what Lookup found. The zero Result is ready; one that is used again
// keeps its memory. Not safe for concurrent use.
type Result struct {
	// Matches are the endpoints that hold something of the prompt, each once:
	// those on the deepest node of the tree first, on one node by slot.
	Matches []Match
	// PromptBytes is the length of the prompt that was looked up, 0 from an Exact.
	PromptBytes int

	path      []step
	at        []int32 // by slot: index in Matches, plus 1
	now, next slotSet
}

// Of returns what an endpoint holds, false for nothing.
func (r *Result) Of(id ID) (Match, bool) {
	if int(id.slot) < len(r.at) {
		if i := r.at[id.slot]; i > 0 && r.Matches[i-1].ID == id {
			return r.Matches[i-1], true
		}
	}
	return Match{}, false
}

// sort puts the matches in the order that does not depend on maps.
func (r *Result) sort() {
	slices.SortFunc(r.Matches, func(a, b Match) int {
		return cmp.Or(cmp.Compare(a.Tokens, b.Tokens), cmp.Compare(a.ID.slot, b.ID.slot))
	})
	for i := range r.Matches {
		r.at[r.Matches[i].ID.slot] = int32(i + 1)
	}
}

func (r *Result) reset(promptBytes, slots int) {
	for i := range r.Matches {
		r.at[r.Matches[i].ID.slot] = 0
	}
	r.Matches, r.path, r.PromptBytes = r.Matches[:0], r.path[:0], promptBytes
	if len(r.at) < slots {
		r.at = make([]int32, slots)
	}
}

// Lookup finds who holds the beginning of the prompt c, and puts them into r
// for what was there. It costs O(nodes on the way + holders), allocates only to
// grow r and waits only for a write under way.
func (x *Index) Lookup(c *Chain, r *Result) {
	x.Peek(c, r)
	x.metrics.lookups.Add(1)
	if len(r.Matches) == 0 {
		x.metrics.misses.Add(1)
	}
}

// Peek is Lookup for who only wants to know: it does not show in the metrics.
func (x *Index) Peek(c *Chain, r *Result) {
	x.mu.RLock()
	r.reset(c.bytes, len(x.es.all))
	r.path = x.tree.walk(r.path, c)
	for _, s := range slices.Backward(r.path) {
		n := x.tree.nodes.at(s.node)
		for _, f := range n.holds {
			if r.at[f.slot] != 0 {
				continue
			}
			h := x.tree.holds.at(f.hold)
			e := x.es.all[f.slot]
			bytes := int(n.start+min(s.matched, h.chunks)) * ChunkBytes
			r.Matches = append(r.Matches, Match{
				ID:     ID{f.slot, e.life},
				Bytes:  bytes,
				Tokens: int(float64(bytes) * e.model.tokens / e.model.bytes),
				Seen:   int(h.seen),
				Trust:  e.trust(),
			})
			r.at[f.slot] = int32(len(r.Matches))
		}
	}
	x.mu.RUnlock()
}
