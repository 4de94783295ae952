package schedule

import "github.com/llmgw/llmgw/router/endpoint"

// maxHolders bounds the holders of one prompt that a decision looks at. A
// beginning that more endpoints hold is on the way to being everywhere, and then
// load decides well enough.
const maxHolders = 64

// holders are the endpoints that hold the beginning of one prompt, found by
// endpoint in constant time. The zero value has none.
type holders struct {
	list        []Holder
	promptBytes int
	// slots is an open-addressed table of positions in list, plus one, at most
	// half full.
	slots [2 * maxHolders]uint8
}

func (h *holders) reset() { h.list, h.promptBytes = h.list[:0], 0 }

// look asks the index about the request.
func (h *holders) look(index PrefixIndex, req *Request) {
	if h.list == nil {
		h.list = make([]Holder, maxHolders)
	}
	h.list = h.list[:maxHolders]
	n, promptBytes := index.Holders(req, h.list)
	found := h.list[:max(0, min(n, maxHolders))]
	h.list, h.promptBytes = h.list[:0], promptBytes
	if len(found) == 0 || promptBytes <= 0 {
		return
	}
	clear(h.slots[:])
	for _, f := range found {
		if f.Endpoint == nil || f.Bytes <= 0 {
			continue
		}
		f.Bytes = min(f.Bytes, promptBytes)
		if f.Doubt = min(max(f.Doubt, 0), 1); f.Doubt != f.Doubt { // NaN
			f.Doubt = 0
		}
		slot := h.slot(f.Endpoint, f.Endpoint.Hash())
		if h.slots[slot] != 0 {
			continue // there twice; the first is the longer
		}
		h.list = append(h.list, f)
		h.slots[slot] = uint8(len(h.list))
	}
}

// slot returns where the endpoint stands in the table, or the free place where
// it would.
func (h *holders) slot(e *endpoint.Endpoint, hash uint64) int {
	for at := int(hash % uint64(len(h.slots))); ; at = (at + 1) % len(h.slots) {
		if i := h.slots[at]; i == 0 || h.list[i-1].Endpoint == e {
			return at
		}
	}
}

// find returns where in the list the endpoint stands, or -1.
func (h *holders) find(e *endpoint.Endpoint, hash uint64) int {
	if len(h.list) == 0 {
		return -1
	}
	return int(h.slots[h.slot(e, hash)]) - 1
}

// match returns what the endpoint holds.
func (h *holders) match(e *endpoint.Endpoint, hash uint64) PrefixMatch {
	i := h.find(e, hash)
	if i < 0 {
		return PrefixMatch{}
	}
	f := &h.list[i]
	return PrefixMatch{Bytes: f.Bytes, PromptBytes: h.promptBytes, Exact: f.Exact, Seen: f.Seen, Doubt: f.Doubt}
}
