package weights

import (
	"fmt"
	"math"

	"github.com/llmgw/llmgw/engines"
)

// Memory is what a replica needs, as estimated. All sizes are in bytes.
type Memory struct {
	Engine engines.Name `json:"engine"`
	// Cards is how many cards the replica takes over all ranks. 0: it runs on the
	// processors, and the parts are of the memory of one rank's machine.
	Cards int `json:"cards"`

	// The parts are of the card that takes most. Weights are the tensors, KV what
	// must at least be there for keys and values, Activations what a step computes
	// in between, Overhead what a process has before it loads anything, Runtime what
	// an engine prepares to be faster, such as CUDA graphs.
	Weights     Part `json:"weights"`
	KV          Part `json:"kv"`
	Activations Part `json:"activations"`
	Overhead    Part `json:"overhead"`
	Runtime     Part `json:"runtime"`

	// NeedBytes is the sum of the parts: the least that must fit. Not known if one
	// of them is not.
	NeedBytes engines.Opt[uint64] `json:"need_bytes"`
	// ClaimBytes is what the engine takes of a card, and so what must be free on it.
	// It is NeedBytes for engines that take what they need, and more for those that
	// take a part of the card whatever they need: see Shares. Not known if that
	// depends on the card, and the card is not known.
	ClaimBytes engines.Opt[uint64] `json:"claim_bytes"`
	// Shares: the engine takes ShareRatio, in (0,1], of the card. ShareAside: that
	// is for weights and cache alone, and the other parts are beside it.
	Shares     bool                 `json:"shares"`
	ShareAside bool                 `json:"share_aside"`
	ShareRatio engines.Opt[float64] `json:"share_ratio"`
	// CardBytes is the card that was asked about.
	CardBytes engines.Opt[uint64] `json:"card_bytes"`
	// HostBytes is what one rank takes of its machine's own memory. Not known for
	// engines of which it was not studied.
	HostBytes engines.Opt[uint64] `json:"host_bytes"`

	// TokenBytes is what one token takes in the KV cache of the whole model, over
	// all cards, while it is in every window.
	TokenBytes engines.Opt[uint64] `json:"token_bytes"`
	// AskedKVBytes is what keys and values take of a card when as many requests as
	// the profile allows run, each with the longest context. Engines that take a
	// part of the card use what is left, and let requests wait if that is less.
	AskedKVBytes engines.Opt[uint64] `json:"asked_kv_bytes"`
}

// Part is one part of an estimate.
type Part struct {
	// Bytes is its size. Not known: How says why.
	Bytes engines.Opt[uint64] `json:"bytes"`
	// How says in one sentence how it was computed.
	How string `json:"how"`
}

// known returns a part. A size that cannot be counted is not known.
func known(bytes uint64, format string, args ...any) Part {
	if bytes == uncounted {
		return unknown("more than can be counted")
	}
	return Part{Bytes: engines.Known(bytes), How: fmt.Sprintf(format, args...)}
}

func unknown(format string, args ...any) Part { return Part{How: fmt.Sprintf(format, args...)} }

// NamedPart is a part with its name.
type NamedPart struct {
	Name string
	Part
}

// Parts returns the parts in the order in which they are shown.
func (m Memory) Parts() []NamedPart {
	return []NamedPart{
		{"weights", m.Weights}, {"kv cache", m.KV}, {"activations", m.Activations}, {"overhead", m.Overhead}, {"runtime", m.Runtime},
	}
}

// Estimate returns what a replica of that profile needs for weights of those facts.
// card is the size of the cards that it would run on, in bytes; where it is not
// known, the engine's defaults for cards of 70 GiB and more are assumed.
//
// It is an estimate: docs/explanation/memory.md says how far off to expect it. What
// f does not say, and what is not known of the engine, stays unknown. A profile
// that its adapter refuses gives a result without meaning.
func Estimate(f Facts, p engines.Profile, card engines.Opt[uint64]) Memory {
	p = p.WithDefaults()
	h := habitsOf(p, card)
	s := spreadOf(f, p)
	m := Memory{Engine: p.Engine, Cards: p.Cards(), CardBytes: card}

	m.Weights = weightsPart(f, p, s)
	m.KV, m.AskedKVBytes = kvParts(f, p, s, h)
	m.TokenBytes = tokenBytes(f, p)
	m.Activations = activationsPart(f, p, s, h)
	m.Overhead, m.Runtime = h.overhead, h.runtime
	m.NeedBytes = sum(m.Weights, m.KV, m.Activations, m.Overhead, m.Runtime)

	m.HostBytes = hostBytes(f, p, h, m)
	m.claim(h)
	return m
}

// claim sets what the engine takes of a card.
func (m *Memory) claim(h habits) {
	if m.Cards == 0 {
		m.CardBytes = engines.Opt[uint64]{}
		return
	}
	if !h.shares {
		m.ClaimBytes = m.NeedBytes
		return
	}
	m.Shares, m.ShareRatio, m.ShareAside = true, h.share, h.aside
	card, cardKnown := m.CardBytes.Get()
	ratio, ratioKnown := h.share.Get()
	if !cardKnown || !ratioKnown {
		return
	}
	claim := uint64(float64(card) * ratio)
	if h.aside {
		beside, ok := sum(m.Activations, m.Overhead, m.Runtime).Get()
		if !ok {
			return
		}
		claim = min(plus(claim, beside), card)
	}
	m.ClaimBytes = engines.Known(claim)
}

// uncounted stands for a number of bytes that is too large for one.
const uncounted = math.MaxUint64

func plus(a, b uint64) uint64 {
	if a > uncounted-b {
		return uncounted
	}
	return a + b
}

func times(a uint64, bs ...uint64) uint64 {
	for _, b := range bs {
		switch {
		case a == 0 || b == 0:
			return 0
		case a > uncounted/b:
			return uncounted
		}
		a *= b
	}
	return a
}

// ceil returns a ÷ b, rounded up.
func ceil(a, b uint64) uint64 {
	if a == uncounted {
		return uncounted
	}
	return a/b + min(a%b, 1)
}

// sum adds parts up. It is not known if one of them is not.
func sum(parts ...Part) engines.Opt[uint64] {
	total := uint64(0)
	for _, p := range parts {
		bytes, ok := p.Bytes.Get()
		if !ok {
			return engines.Opt[uint64]{}
		}
		total = plus(total, bytes)
	}
	if total == uncounted {
		return engines.Opt[uint64]{}
	}
	return engines.Known(total)
}
