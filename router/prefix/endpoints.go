package prefix

import "math"

// ID is one endpoint instance in an index: one life of one engine. The zero ID
// is none. An ID of an endpoint that was removed is never valid again; every
// method takes one and then does nothing.
type ID struct{ slot, life uint32 }

// Slot is a small number that no other endpoint of the index has at the same
// time.
func (id ID) Slot() int { return int(id.slot) }

// endpoint is what is known of one endpoint.
type endpoint struct {
	life   uint32 // 0: the slot is free
	model  *model
	oldest list
	chunks int64  // held
	clock  uint64 // grows with each Send, by the chunks that were new and one
	clears uint32 // how often Clear was called
	ghosts ghosts // nil until something was forgotten for want of capacity
	full   bool   // something was forgotten for want of capacity

	capacity float64 // estimated, in tokens
	told     float64 // by SetCapacity, in tokens; 0: not told
	reach    float64 // how many tokens it has kept and taken up since, at most, as answers showed
	excess   float64 // evictions told, less those made here, in tokens

	trusted, tested float64 // predicted tokens that were there, predicted tokens; decaying
	misses          int     // in a row, of what should have been there for sure
}

// model is what the endpoints of one model share.
type model struct {
	users  int
	bytes  float64 // of prompts, decaying
	tokens float64 // that they had
}

// learnBytes is after how many bytes of prompts what was learned before counts half.
const learnBytes = 4 << 20

func (m *model) learn(bytes, tokens float64) {
	if r := bytes / tokens; !(r >= minBytesPerToken && r <= maxBytesPerToken) {
		return // an image, or a prompt that is elsewhere: no text to learn from
	}
	m.bytes += bytes
	m.tokens += tokens
	if m.bytes > learnBytes {
		m.bytes /= 2
		m.tokens /= 2
	}
}

// capacityChunks is what e is taken to hold.
func (e *endpoint) capacityChunks() int64 {
	return int64(math.Min(e.capacity*e.model.bytes/e.model.tokens/ChunkBytes, 1<<50))
}

// tokens is how many tokens so many chunks are.
func (e *endpoint) tokens(chunks int64) float64 {
	return float64(chunks) * ChunkBytes * e.model.tokens / e.model.bytes
}

// trust is in [0,1].
func (e *endpoint) trust() float64 {
	const prior = 1000 // tokens that count as half right before any answer
	return (e.trusted + prior/2) / (e.tested + prior)
}

// test counts a prediction against what the engine said, both in tokens.
func (e *endpoint) test(predicted, cached float64) {
	const memory = 200_000 // tokens after which older predictions fade
	e.trusted += math.Min(predicted, cached)
	e.tested += predicted
	if e.tested > memory {
		e.trusted /= 2
		e.tested /= 2
	}
}

// endpoints are the endpoints of an index by slot, from 1.
type endpoints struct {
	all    []*endpoint
	free   []uint32
	models map[string]*model
	names  []string // by slot
}

func (es *endpoints) at(slot uint32) *endpoint { return es.all[slot] }

// get returns the endpoint, nil if it is none or gone.
func (es *endpoints) get(id ID) *endpoint {
	if int(id.slot) >= len(es.all) || id.life == 0 || es.all[id.slot].life != id.life {
		return nil
	}
	return es.all[id.slot]
}

func (es *endpoints) count() int { return max(len(es.all)-1, 0) - len(es.free) }

func (es *endpoints) add(name string, life uint32, cfg *Config) ID {
	if len(es.all) == 0 {
		es.all, es.names = append(es.all, &endpoint{}), append(es.names, "") // slot 0 is none
	}
	var slot uint32
	if n := len(es.free); n > 0 {
		slot, es.free = es.free[n-1], es.free[:n-1]
	} else {
		slot = uint32(len(es.all))
		es.all, es.names = append(es.all, nil), append(es.names, "")
	}
	m := es.models[name]
	if m == nil {
		// Worth one prompt of 64 KB.
		m = &model{bytes: 64 << 10, tokens: (64 << 10) / cfg.BytesPerToken}
		es.models[name] = m
	}
	m.users++
	es.all[slot] = &endpoint{life: life, model: m, capacity: float64(cfg.CapacityTokens)}
	es.names[slot] = name
	return ID{slot, life}
}

func (es *endpoints) remove(id ID) {
	m := es.all[id.slot].model
	if m.users--; m.users == 0 {
		delete(es.models, es.names[id.slot])
	}
	es.all[id.slot] = &endpoint{}
	es.names[id.slot] = ""
	es.free = append(es.free, id.slot)
}
