package placement

import (
	"slices"

	"github.com/llmgw/llmgw/engines"
)

// refuse adds the reasons why no rank can be on the node.
func (s *search) refuse(e *entry) {
	n, w := &e.node, s.wish
	if !s.empty && !e.takes {
		s.refuseAway(n)
	}
	if s.pinned != nil && !s.pinned[n.ID] {
		s.add(Reason{Kind: NotPinned, Detail: s.pins})
	}
	for _, want := range s.labels {
		if have, ok := n.Labels[want.key]; !ok || have != want.value {
			s.add(Reason{Kind: LabelMissing, Subject: want.text, Detail: have})
		}
	}
	if n.Engines != nil && w.Need.Engine != "" {
		switch problem, offered := n.Engines[w.Need.Engine]; {
		case !offered:
			s.add(Reason{Kind: EngineNotOffered, Subject: string(w.Need.Engine)})
		case problem != "" && !s.empty:
			s.add(Reason{Kind: EngineProblem, Subject: string(w.Need.Engine), Detail: problem})
		}
	}
	if len(n.CPUFeatures) > 0 {
		for _, feature := range w.Need.CPUFeatures {
			if !slices.Contains(n.CPUFeatures, feature) {
				s.add(Reason{Kind: CPUFeatureMissing, Subject: feature})
			}
		}
	}
	if !s.empty {
		s.refuseApart(e)
	}
	if s.ganged {
		s.refuseFabrics(e)
	}
}

// refuseAway adds why a node takes nothing now.
func (s *search) refuseAway(n *Node) {
	if n.State != Ready {
		s.add(Reason{Kind: NotReady, Detail: n.State.String()})
	}
	if !n.Connected {
		s.add(Reason{Kind: NotConnected})
	}
	switch n.Cordon {
	case NoCordon:
	case Draining:
		s.add(Reason{Kind: NodeDraining, Detail: n.CordonReason})
	default:
		s.add(Reason{Kind: NodeCordoned, Detail: n.CordonReason})
	}
}

// refuseApart adds the replicas that this one may not share a node with, by
// either's wish.
func (s *search) refuseApart(e *entry) {
	for i, h := range e.holds {
		if i > 0 && e.holds[i-1].claim == h.claim {
			continue
		}
		if slices.Contains(s.wish.Apart, h.claim.Model) || slices.Contains(h.claim.Apart, s.wish.Model) {
			s.add(Reason{Kind: ApartViolated, Subject: h.claim.Model, Detail: h.claim.Replica})
		}
	}
}

// refuseFabrics adds why the node can be in no gang.
func (s *search) refuseFabrics(e *entry) {
	if e.node.CardsUnknown && s.empty {
		return // nor is it known in which fabrics it is
	}
	for i := range e.node.Fabrics {
		if s.joins(e, i) {
			return
		}
	}
	if len(e.node.Fabrics) == 0 {
		s.add(Reason{Kind: NoFabric, Need: uint64(len(s.wish.Need.Ranks))})
		return
	}
	for i := range e.node.Fabrics {
		if f := &e.node.Fabrics[i]; e.first(i) {
			s.add(Reason{Kind: FabricContradicted, Subject: f.Name, Detail: f.Reason})
		}
	}
}

// refuseRank adds the reasons why a rank that takes so much cannot be on the
// node.
func (s *search) refuseRank(e *entry, need RankNeed) {
	if s.portsShort(e, need) {
		s.add(Reason{Kind: NoPort, Need: uint64(need.Ports), Have: uint64(e.freePorts.Or(0))})
	}
	if host := s.hostNeed(e, need); s.lacks(e, host) {
		r := Reason{Kind: HostMemoryShort, Need: host, Have: s.hostOf(e).Or(0)}
		if e.node.Unified && need.Cards > 0 {
			r.Detail = "its cards have no other memory"
		}
		s.add(r)
	}
	if need.Cards == 0 {
		return
	}
	most := 0
	for i := range e.classes {
		if class := &e.classes[i]; s.accepts(class.name) {
			most = max(most, len(s.suitable(e, class)))
		}
	}
	if most < need.Cards {
		s.add(Reason{Kind: CardsShort, Need: uint64(need.Cards), Have: uint64(most), cards: &cardsShort{entry: e, need: &s.wish.Need, empty: s.empty}})
	}
}

func (s *search) add(r Reason) { s.arena = append(s.arena, r) }

func (s *search) portsShort(e *entry, need RankNeed) bool {
	free, known := e.freePorts.Get()
	return known && !s.empty && free < need.Ports
}

// lacks reports whether the node has too little memory of its own.
func (s *search) lacks(e *entry, need uint64) bool {
	have, known := s.hostOf(e).Get()
	return known && have < need
}

// hostNeed returns the least that a rank takes of the node's own memory: of unified
// memory by the class of cards that there are enough of, or of any that would do.
func (s *search) hostNeed(e *entry, need RankNeed) uint64 {
	if !e.node.Unified || need.Cards == 0 || len(s.wish.Need.ByClass) == 0 {
		return hostNeed(e.node.Unified, need, s.wish.Need.CardBytes)
	}
	var least uint64
	found, enough := false, false
	for i := range e.classes {
		class := &e.classes[i]
		if !s.accepts(class.name) {
			continue
		}
		takes, has := hostNeed(true, need, s.wish.Need.On(class.name).CardBytes), len(s.suitable(e, class)) >= need.Cards
		if !found || (has && !enough) || (has == enough && takes < least) {
			least, found, enough = takes, true, has
		}
	}
	if !found {
		return hostNeed(true, need, s.wish.Need.CardBytes)
	}
	return least
}

func (s *search) hostOf(e *entry) engines.Opt[uint64] {
	if s.empty {
		return e.node.HostBytes
	}
	return e.freeHost
}
