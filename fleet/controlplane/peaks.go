package controlplane

import (
	"maps"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/control"
	"github.com/llmgw/llmgw/placement"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/placement/reconcile"
	"github.com/llmgw/llmgw/storage/weights"
)

const (
	// settledFor is for how long a replica has to be ready before what its cards use
	// counts: a reading may be older than its start.
	settledFor = 15 * time.Second
	// peakStep is how much more a peak has to be to be told: each makes needs anew.
	peakStep = 32 << 20
)

// peakOf is what a peak is of: a model, the fingerprint of a profile, a class of cards.
type peakOf struct{ model, command, class string }

// peaks are the most that cards of ready replicas were seen to use. They are of the
// profiles of the catalog alone, and so bounded by it.
type peaks struct {
	seen   map[peakOf]weights.Peak
	looked time.Time
}

// largest is the largest peak of a profile on any class.
func (p *peaks) largest(model, command string) (out engines.Opt[weights.Peak]) {
	for of, peak := range p.seen {
		if of.model == model && of.command == command && peak.Bytes > out.Or(weights.Peak{}).Bytes {
			out = engines.Known(peak)
		}
	}
	return out
}

// note enters what a card was seen to use, and reports whether that is news.
func (p *peaks) note(of peakOf, peak weights.Peak) bool {
	was, seen := p.seen[of]
	if peak.Bytes == 0 || (seen && peak.Bytes < was.Bytes+peakStep) {
		return false
	}
	p.seen[of] = peak
	return true
}

// learn looks now and then at what the cards of ready replicas use. The caller holds
// mu.
func (n *needs) learn(wanted *catalog.Catalog, stood *reconcile.View, now time.Time) {
	if n.dirtyAll || now.Sub(n.peaks.looked) < n.every {
		return // of another catalog nothing was made yet
	}
	n.peaks.looked = now
	commands := make(map[string]string, len(n.byName))
	for name, need := range n.byName {
		commands[name] = need.need.Command
	}
	maps.DeleteFunc(n.peaks.seen, func(of peakOf, _ weights.Peak) bool { return commands[of.model] != of.command })
	nodes := make(map[string]*control.Node)
	for i := range stood.Replicas {
		r := &stood.Replicas[i]
		if r.State != reconcile.Ready || commands[r.Model] != r.Command || stood.Now.Sub(r.Since) < settledFor {
			continue
		}
		for _, s := range r.Shards {
			if nodes[s.Node] == nil {
				node, known := n.control.Node(s.Node)
				if !known {
					continue
				}
				nodes[s.Node] = &node
			}
			for _, id := range s.Cards {
				if of, peak, is := usedBy(nodes[s.Node], id); is && n.peaks.note(peakOf{r.Model, r.Command, of}, peak) {
					if m, known := wanted.Resolve(r.Model); known {
						n.dirty[m.WeightsKey()] = true
					}
				}
			}
		}
	}
}

// usedBy is what the one replica on a card uses of it, and the card's class; false:
// that is not known. Cards of unified memory have none of their own, and of one that
// others use too nobody can tell whose it is.
func usedBy(n *control.Node, card string) (class string, peak weights.Peak, is bool) {
	if n.State != control.Ready || n.Inventory == nil || n.Inventory.Memory.Unified || n.Reading.GPUsAge >= settledFor {
		return "", peak, false
	}
	state, read := n.Reading.GPU(card)
	used, known := state.MemoryUsedBytes.Get()
	if !read || !known || len(state.Foreign) > 0 {
		return "", peak, false
	}
	for i := range n.Inventory.GPUs {
		g := &n.Inventory.GPUs[i]
		if size, known := g.MemoryBytes.Get(); g.ID() == card && known && !g.MIG.Is(true) {
			return placement.ClassOf(*g), weights.Peak{Bytes: used, CardBytes: size}, true
		}
	}
	return "", peak, false
}
