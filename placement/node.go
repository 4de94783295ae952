package placement

import (
	"slices"

	"github.com/llmgw/llmgw/engines"
)

// Node is one machine as placement sees it. It and what it refers to must not be
// changed once a [Cluster] has it. What is not known refuses nothing, unless the
// field says otherwise: an engine that then fails to start says why itself, and
// a node that is never tried stays unknown.
type Node struct {
	// ID is the node's name, its own in the fleet. Required.
	ID string
	// State is what its silence amounts to. Nothing is placed on a node that is
	// not [Ready]; what it holds stays held.
	State NodeState
	// Connected: orders can be given to it now.
	Connected bool
	// Cordon is what an operator wants of the node, CordonReason why, in the
	// operator's words. It may be empty.
	Cordon       Cordon
	CordonReason string
	// Labels are those of its configuration.
	Labels map[string]string
	// Fabrics are the fast networks that it says it is in.
	Fabrics []FabricMember
	// CardsUnknown: nobody has read what cards it has, so that none of them is
	// planned with. Replicas without cards may be placed there.
	CardsUnknown bool
	// Cards are its cards, or the parts of cards that are used like cards, the
	// lowest index first. Of equally close sets of cards the first in this order
	// is taken.
	Cards []Card
	// Links says how cards reach each other, by their places in Cards and in the
	// words of [engines.Inventory.Links]. Nil: not known; then their NUMA and
	// PCIPath say how near they are.
	Links [][]string
	// Unified: the cards have no memory but the machine's, so what a card needs
	// is taken from HostFreeBytes.
	Unified bool
	// HostBytes is all its memory, HostFreeBytes what new processes can have.
	HostBytes, HostFreeBytes engines.Opt[uint64]
	// CPUFeatures are as in [engines.CPU]. Empty: not known.
	CPUFeatures []string
	// Engines are the engines that it can launch, with why it cannot do so now,
	// or "". Nil: not known.
	Engines map[engines.Name]string
	// Weights says, by the key of a wish, what a look for the weights found. A key
	// that is not there was never looked for, which ranks as [Lacks] does.
	Weights map[string]Holding
	// WeightsShared has the identity of the shared filer on which the node sees
	// the weights of a key. Storage that only this node can reach is in Weights.
	WeightsShared map[string]string
	// FreePorts is how many ports of its range are free.
	FreePorts engines.Opt[int]
}

// NodeState is what a node's silence amounts to. The zero value is a node that
// was not heard yet.
type NodeState uint8

// The states of nodes. Only a Ready one is placed on.
const (
	Unheard NodeState = iota
	Ready
	Unreachable
	Lost
)

// String returns the state in words.
func (s NodeState) String() string {
	names := [...]string{"not heard yet", "ready", "unreachable", "lost"}
	if int(s) < len(names) {
		return names[s]
	}
	return names[Unheard]
}

// Cordon is what an operator wants of a node. The zero value is nothing.
type Cordon uint8

// What operators want of nodes.
const (
	NoCordon Cordon = iota
	// Cordoned: what runs stays, nothing comes.
	Cordoned
	// Draining: what runs goes elsewhere, nothing comes.
	Draining
)

// String returns the wish in one word; "none" where there is none.
func (c Cordon) String() string {
	switch c {
	case Cordoned:
		return "cordoned"
	case Draining:
		return "draining"
	case NoCordon:
	}
	return "none"
}

// Holding is what a look for weights on a node found. The zero value is that
// nobody looked.
type Holding uint8

// What a look for weights found.
const (
	NotLooked Holding = iota
	// Lacks: they are not there, or not whole.
	Lacks
	// Holds: they are there, whole.
	Holds
)

// FabricMember is a node's place in a fabric.
type FabricMember struct {
	Name string
	// Verdict is what its ports say of that. A node whose ports contradict it is
	// in no gang of the fabric; one of which that is not known comes after those
	// that are confirmed.
	Verdict engines.Verdict
	// Reason says why, for people. It may be empty.
	Reason string
}

// Card is a card of a node, or a part of one that is used like a card.
type Card struct {
	// ID is its name, its own on the node.
	ID string
	// Index is its number on the node as its vendor's tools count.
	Index int
	// Class is what all cards of one replica have in common: what the vendor
	// calls the card. Empty: not known, which is a class like another.
	Class  string
	Vendor engines.Vendor
	// MemoryBytes is all its memory, FreeBytes what nobody holds now. Where the
	// latter is not known it is the former less what Foreign is known to hold.
	// Both are not looked at where [Node.Unified] is set.
	MemoryBytes, FreeBytes engines.Opt[uint64]
	// Problem is why nothing may be placed on it. Empty: it may be used.
	Problem string
	// Foreign are processes on it that the node's agent did not start.
	Foreign []engines.GPUProcess
	// NUMA and PCIPath are as in [engines.GPU].
	NUMA    engines.Opt[int]
	PCIPath []string
}

// healthUnknown is the problem of a card whose health nobody could read.
const healthUnknown = "its health is not known"

// NodeOf returns the node with the hardware that inv tells of, by the state in
// it: cards, links, fabrics, memory, processor. Where a card is split, its
// instances take its place. Everything else, State included, is left to the
// caller. Nil: nothing of its hardware is known.
func NodeOf(id string, inv *engines.Inventory) Node {
	if inv == nil {
		return Node{ID: id, CardsUnknown: true}
	}
	n := Node{
		ID:            id,
		Unified:       inv.Memory.Unified,
		HostBytes:     hostBytes(inv.Memory),
		HostFreeBytes: inv.State.MemoryAvailableBytes,
		CPUFeatures:   inv.CPU.Features,
	}
	for _, f := range inv.Fabrics {
		member := FabricMember{Name: f.Name}
		if state, ok := inv.State.Fabric(f.Name); ok {
			member.Verdict = state.Verdict
			if len(state.Reasons) > 0 {
				member.Reason = state.Reasons[0]
			}
		}
		n.Fabrics = append(n.Fabrics, member)
	}
	var from []int // the place in inv.GPUs of each of n.Cards
	for i, g := range inv.GPUs {
		state, ok := inv.State.GPU(g.ID())
		if !ok {
			state.GPU = g.ID()
		}
		for _, c := range cardsOf(g, state) {
			n.Cards = append(n.Cards, c)
			from = append(from, i)
		}
	}
	n.Links = linksOf(inv.Links, from)
	return n
}

func hostBytes(m engines.Memory) engines.Opt[uint64] {
	total, known := m.TotalBytes.Get()
	if limit, limited := m.LimitBytes.Get(); limited && (!known || limit < total) {
		return m.LimitBytes
	}
	return m.TotalBytes
}

// cardsOf returns a card, or its instances where it is split.
func cardsOf(g engines.GPU, s engines.GPUState) []Card {
	card := Card{
		ID: g.ID(), Index: g.Index, Class: ClassOf(g), Vendor: g.Vendor,
		MemoryBytes: g.MemoryBytes, FreeBytes: s.MemoryFreeBytes,
		Problem: problemOf(s.Health), Foreign: s.Foreign, NUMA: g.NUMA, PCIPath: g.PCIPath,
	}
	if !g.MIG.Is(true) {
		return []Card{card}
	}
	if len(g.Instances) == 0 {
		if card.Problem == "" {
			card.Problem = "it is split into instances (MIG), and has none"
		}
		return []Card{card}
	}
	cards := make([]Card, 0, len(g.Instances))
	for _, m := range g.Instances {
		part := card
		part.ID, part.Class, part.MemoryBytes = m.UUID, card.Class+" MIG "+m.Profile, m.MemoryBytes
		// What is read of a card is of all its instances together, and which
		// of them a process uses is not told.
		part.FreeBytes, part.Foreign = engines.Opt[uint64]{}, nil
		if part.Problem == "" && len(card.Foreign) > 0 {
			part.Problem = "others use an instance of the card, and which is not known: " + foreignText(card.Foreign)
		}
		cards = append(cards, part)
	}
	return cards
}

// ClassOf returns the class of a card that is not split: what its vendor calls it.
func ClassOf(g engines.GPU) string {
	switch {
	case g.Name != "":
		return g.Name
	case g.Architecture != "":
		return g.Architecture
	}
	return string(g.Vendor)
}

// problemOf returns why a card may not be used, in the words of its gravest
// reason.
func problemOf(h engines.Health) string {
	switch {
	case h.Usable():
		return ""
	case len(h.Reasons) > 0:
		return h.Reasons[0].Kind
	case h.State == "":
		return healthUnknown
	}
	return string(h.State)
}

// linksOf returns the links between the cards that are made of those at the
// places in from.
func linksOf(links [][]string, from []int) [][]string {
	if len(links) == 0 {
		return nil
	}
	at := func(i, j int) string {
		if i < len(links) && j < len(links[i]) {
			return links[i][j]
		}
		return ""
	}
	if slices.IsSorted(from) && len(from) == len(links) && (len(from) == 0 || from[len(from)-1] == len(from)-1) {
		return links
	}
	out := make([][]string, len(from))
	for i := range from {
		out[i] = make([]string, len(from))
		for j := range from {
			out[i][j] = at(from[i], from[j])
		}
	}
	return out
}
