package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/control"
	"github.com/llmgw/llmgw/fleet/fleetpb"
	"github.com/llmgw/llmgw/fleet/internal/convert"
	"github.com/llmgw/llmgw/placement"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/placement/reconcile"
	"github.com/llmgw/llmgw/storage/weights"
)

// askedFor is how long weights are looked for that no model of the catalog has:
// those of a model that somebody thinks of adding.
const askedFor = time.Minute

// needs knows what memory replicas take where the catalog does not state it, as
// [reconcile.NeedSource]: from what the weights say that agents found, and from the
// most that cards of ready replicas were seen to use.
type needs struct {
	control *control.Plane
	every   time.Duration // between two looks at what cards use
	wake    chan struct{} // has an element when there may be a change

	mu      sync.Mutex
	catalog *catalog.Catalog            // guarded by mu; what was told last
	byName  map[string]*modelNeed       // guarded by mu; of that
	byKey   map[string][]*catalog.Model // guarded by mu; of that
	asked   map[string]asked            // guarded by mu; keys beside those of the catalog
	nodes   map[string]*weightsNode     // guarded by mu
	lookers int                         // guarded by mu; nodes that answer now
	keys    map[string]*weightsKey      // guarded by mu
	classes map[string]cardSizes        // guarded by mu
	peaks   peaks                       // guarded by mu
	heard   chan struct{}               // guarded by mu; closed and replaced when a node has answered

	dirty    map[string]bool // guarded by mu; keys of which something else is known
	dirtyAll bool            // guarded by mu
	cards    bool            // guarded by mu; some node has other cards
	changed  bool            // guarded by mu; who has answered
}

// asked is weights that are looked for although no model of the catalog has them.
type asked struct {
	wanted control.Wanted
	until  time.Time
}

// weightsNode is what was told of a node.
type weightsNode struct {
	looks bool // it is connected, and looks when it is asked
	held  *control.Weights
	cards []cardSize
}

type cardSize struct {
	class string
	bytes uint64
}

// cardSizes are the smallest and the largest card of a class.
type cardSizes struct{ least, most uint64 }

// weightsKey is what nodes told of weights.
type weightsKey struct {
	answered int // nodes that look now and have answered
	facts    map[*fleetpb.WeightsFacts]*weightsFacts
}

// weightsFacts are weights that nodes have, which say the same of themselves.
type weightsFacts struct {
	facts *weights.Facts // nil: they cannot be
	nodes map[string]*fleetpb.WeightsFound
}

func newNeeds(plane *control.Plane, every time.Duration) *needs {
	return &needs{
		control: plane, every: every, wake: make(chan struct{}, 1), heard: make(chan struct{}), asked: map[string]asked{},
		byName: map[string]*modelNeed{}, nodes: map[string]*weightsNode{}, keys: map[string]*weightsKey{}, dirty: map[string]bool{},
		classes: map[string]cardSizes{}, peaks: peaks{seen: map[peakOf]weights.Peak{}},
	}
}

// C implements [reconcile.NeedSource].
func (n *needs) C() <-chan struct{} { return n.wake }

// note takes a node as it is told now, with what placement has of its cards.
func (n *needs) note(node *control.Node, placed *placement.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	next := &weightsNode{looks: node.Connected && node.LooksForWeights, held: node.Weights}
	for i := range placed.Cards {
		if size, known := placed.Cards[i].MemoryBytes.Get(); known {
			next.cards = append(next.cards, cardSize{placed.Cards[i].Class, size})
		}
	}
	n.replace(node.ID, next)
}

// gone forgets a node.
func (n *needs) gone(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.replace(id, nil)
}

// replace puts what is told of a node in the place of what was. The caller holds mu.
func (n *needs) replace(id string, next *weightsNode) {
	was, is := cmp.Or(n.nodes[id], &weightsNode{}), cmp.Or(next, &weightsNode{})
	if !slices.Equal(was.cards, is.cards) {
		n.cards = true
	}
	if was.held != is.held || was.looks != is.looks {
		n.count(id, was, is)
		n.changed = true
		close(n.heard)
		n.heard = make(chan struct{})
		select {
		case n.wake <- struct{}{}:
		default:
		}
	}
	if next == nil {
		delete(n.nodes, id)
		return
	}
	n.nodes[id] = next
}

// count enters what a node has told in the place of what it had. The caller holds mu.
func (n *needs) count(id string, was, is *weightsNode) {
	if was.looks {
		n.lookers--
	}
	if is.looks {
		n.lookers++
	}
	for key, f := range was.found() {
		k := n.keys[key]
		if k == nil {
			continue // nobody looks for it any more, and it was not there
		}
		if was.looks {
			k.answered--
		}
		if of := k.facts[f.GetFacts()]; f.GetFacts() != nil && (is.held == nil || is.held.Found[key].GetFacts() != f.GetFacts()) {
			n.dirty[key] = true
			if delete(of.nodes, id); len(of.nodes) == 0 {
				delete(k.facts, f.GetFacts())
			}
		}
	}
	for key, f := range is.found() {
		k := n.keys[key]
		if k == nil {
			k = &weightsKey{facts: map[*fleetpb.WeightsFacts]*weightsFacts{}}
			n.keys[key] = k
		}
		if is.looks {
			k.answered++
		}
		if f.GetFacts() == nil {
			continue
		}
		of := k.facts[f.GetFacts()]
		if of == nil {
			of = &weightsFacts{nodes: map[string]*fleetpb.WeightsFound{}}
			of.facts, _ = convert.WeightsFromWire(f.GetFacts(), int64(min(f.GetBytes(), 1<<62))) //nolint:gosec // bounded
			k.facts[f.GetFacts()] = of
			n.dirty[key] = true
		}
		of.nodes[id] = f
	}
}

func (w *weightsNode) found() map[string]*fleetpb.WeightsFound {
	if w.held == nil {
		return nil
	}
	return w.held.Found
}

// Needs implements [reconcile.NeedSource].
func (n *needs) Needs(wanted *catalog.Catalog, stood *reconcile.View, again bool) []reconcile.Need {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	n.want(wanted, now)
	n.learn(wanted, stood, now)
	if n.cards {
		n.measure()
	}
	if !again && !n.dirtyAll && len(n.dirty) == 0 && !n.changed {
		return nil
	}
	if n.dirtyAll {
		clear(n.byName)
	}
	out := make([]reconcile.Need, 0, len(n.byName))
	for _, models := range n.byKey {
		for _, m := range models {
			need := n.byName[m.Name]
			if need == nil || n.dirty[m.WeightsKey()] {
				need = n.of(m)
				n.byName[m.Name] = need
			}
			need.need.Looking = n.looking(m)
			out = append(out, need.need)
		}
	}
	clear(n.dirty)
	n.dirtyAll, n.changed = false, false
	return out
}

// want takes what is wanted, and has agents look for its weights. The caller holds
// mu.
func (n *needs) want(wanted *catalog.Catalog, now time.Time) {
	over := false
	maps.DeleteFunc(n.asked, func(_ string, a asked) bool {
		late := !now.Before(a.until)
		over = over || late
		return late
	})
	if wanted == n.catalog && !over {
		return
	}
	if wanted != n.catalog {
		n.catalog, n.byKey, n.dirtyAll = wanted, map[string][]*catalog.Model{}, true
		models := wanted.Models()
		for i := range models {
			if m := &models[i]; m.Profile != nil {
				n.byKey[m.WeightsKey()] = append(n.byKey[m.WeightsKey()], m)
			}
		}
	}
	n.lookFor()
}

// lookFor tells agents what to look for: what models of the catalog load, and what is
// asked for besides. The caller holds mu.
func (n *needs) lookFor() {
	var list []control.Wanted
	for key, models := range n.byKey {
		if w, looked := lookedFor(models[0]); looked && n.asked[key].until.IsZero() {
			list = append(list, w)
		}
	}
	for _, a := range n.asked {
		list = append(list, a.wanted)
	}
	slices.SortFunc(list, func(a, b control.Wanted) int { return cmp.Compare(a.Key, b.Key) })
	n.control.LookFor(list)
	for key, k := range n.keys {
		if len(k.facts) == 0 && k.answered == 0 {
			delete(n.keys, key)
		}
	}
}

// lookedFor is what agents are asked of a model's weights; false: nothing, since its
// source is none of which a node can tell.
func lookedFor(m *catalog.Model) (control.Wanted, bool) {
	switch m.SourceKind() {
	case catalog.SourcePath, catalog.SourceName:
		w := control.Wanted{Key: m.WeightsKey(), Source: m.Source}
		if m.SourceKind() == catalog.SourceName {
			w.Revision = m.Profile.Revision
		}
		return w, true
	case catalog.SourceNone, catalog.SourceURL:
	}
	return control.Wanted{}, false
}

// looking reports whether nodes are being asked for a model's weights, and not all
// have answered. The caller holds mu.
func (n *needs) looking(m *catalog.Model) bool {
	_, looked := lookedFor(m)
	if !looked || n.lookers == 0 {
		return false
	}
	k := n.keys[m.WeightsKey()]
	return k == nil || k.answered < n.lookers
}

// measure finds how large the cards of each class are. The caller holds mu.
func (n *needs) measure() {
	n.cards = false
	classes := make(map[string]cardSizes)
	for _, node := range n.nodes {
		for _, c := range node.cards {
			size, seen := classes[c.class]
			if !seen {
				size = cardSizes{c.bytes, c.bytes}
			}
			classes[c.class] = cardSizes{min(size.least, c.bytes), max(size.most, c.bytes)}
		}
	}
	if !maps.Equal(classes, n.classes) {
		n.classes, n.dirtyAll = classes, true
	}
}

// await has nodes look for the weights of models that the catalog may not have, and
// waits until they have answered, or patience is over.
func (n *needs) await(ctx context.Context, patience time.Duration, models ...*catalog.Model) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	n.mu.Lock()
	more := false
	for _, m := range models {
		if w, looked := lookedFor(m); looked {
			_, known := n.asked[w.Key]
			more = more || !known
			n.asked[w.Key] = asked{w, time.Now().Add(askedFor)}
		}
	}
	if more {
		n.lookFor()
	}
	for slices.ContainsFunc(models, n.looking) {
		heard := n.heard
		n.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-heard:
		}
		n.mu.Lock()
	}
	n.mu.Unlock()
}

// over returns the wish of a model with what is known of its need beside what it
// states.
func (n *needs) over(m *catalog.Model, w placement.Wish) placement.Wish {
	need := n.need(m)
	return need.need.Over(w)
}

// need returns what is known of a model's need, of the catalog or not.
func (n *needs) need(m *catalog.Model) *modelNeed {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cards {
		n.measure()
	}
	need := n.of(m)
	need.need.Looking = n.looking(m)
	return need
}

// modelNeed is what is known of the memory that a replica of a model takes.
type modelNeed struct {
	need    reconcile.Need
	profile engines.Profile
	stated  engines.Opt[uint64]
	seen    *weightsFacts // nil: no node has the weights, or none has told
	others  int           // nodes that have others under the same key
	missing string        // why none was told
	classes []classNeed   // of cards, by class; without cards one, of the machine's memory
	host    engines.Opt[uint64]
}

// classNeed is what is known for cards of one class.
type classNeed struct {
	class string
	weights.Memory
	weights.Comparison
	// never is why no card of the class can hold it.
	never string
	plan  engines.Opt[uint64] // not known: the whole card
}

// of finds what is known of a model's need. The caller holds mu.
func (n *needs) of(m *catalog.Model) *modelNeed {
	profile, _ := m.RunProfile()
	out := &modelNeed{profile: profile, need: reconcile.Need{Model: m.Name, Command: reconcile.Fingerprint(profile)}}
	if m.Placement != nil && m.Placement.CardMemoryBytes > 0 {
		out.stated = engines.Known(m.Placement.CardMemoryBytes)
	}
	var facts weights.Facts // of nothing: some engines take a part of the card whatever the weights are
	out.seen, out.others, out.missing = n.found(m)
	if out.seen != nil {
		facts = *out.seen.facts
	}
	whatever := weights.Estimate(facts, profile, engines.Opt[uint64]{})
	out.host = whatever.HostBytes
	out.need.HostBytes = whatever.HostBytes
	if profile.WithDefaults().Cards() == 0 {
		c := weights.Compare(whatever, engines.Opt[weights.Peak]{})
		if bytes, known := whatever.NeedBytes.Get(); known {
			c.EstimateBytes, c.Bytes, c.Why = engines.Known(bytes), engines.Known(bytes), "estimated: of machines' own memory nothing is measured"
		}
		out.classes = []classNeed{{Memory: whatever, Comparison: c, plan: c.Bytes}}
		return out
	}
	peak := n.peaks.largest(m.Name, out.need.Command)
	general := classNeed{Memory: whatever, Comparison: weights.Compare(whatever, peak)}
	general.plan = general.Bytes
	if whatever.Shares {
		general.plan = engines.Opt[uint64]{} // by the card, which is not known
	}
	out.need.CardBytes = general.plan
	for _, class := range slices.Sorted(maps.Keys(n.classes)) {
		if m.Placement != nil && len(m.Placement.Classes) > 0 &&
			!slices.ContainsFunc(m.Placement.Classes, func(accepted string) bool { return placement.ClassMatches(accepted, class) }) {
			continue
		}
		one := n.onClass(m.Name, out.need.Command, class, facts, profile)
		out.classes = append(out.classes, one)
		if one.plan != general.plan || one.never != "" {
			if out.need.ByClass == nil {
				out.need.ByClass = make(map[string]placement.ClassNeed)
			}
			out.need.ByClass[class] = placement.ClassNeed{CardBytes: one.plan, Never: one.never}
		}
	}
	if len(out.classes) == 0 {
		out.classes = []classNeed{general}
	}
	return out
}

// onClass finds what is known of a model's need on cards of a class. The caller
// holds mu.
func (n *needs) onClass(model, command, class string, facts weights.Facts, p engines.Profile) classNeed {
	size := n.classes[class]
	peak, seen := n.peaks.seen[peakOf{model, command, class}]
	measured := engines.Known(peak)
	if !seen {
		measured = n.peaks.largest(model, command) // of another class: an engine that takes what it needs takes it here too
	}
	out := classNeed{class: class, Memory: weights.Estimate(facts, p, engines.Known(size.least))}
	out.Comparison = weights.Compare(out.Memory, measured)
	out.plan = out.Bytes
	if bytes, known := out.plan.Get(); out.Shares && known && (bytes >= size.least || unlike(size)) {
		// It takes all that is free, which is never all of the card; or cards of one
		// name differ, and each gives another part.
		out.plan = engines.Opt[uint64]{}
	}
	// What was seen to run there can run there, whatever was computed.
	if tooSmall, is := errors.AsType[*weights.TooSmallError](weights.Estimate(facts, p, engines.Known(size.most)).Check()); is && !seen {
		out.never = fmt.Sprintf("%s needs %s of a card, as estimated, and has %s of one of %s",
			tooSmall.Engine, sizeText(tooSmall.NeedBytes), sizeText(tooSmall.RoomBytes), sizeText(tooSmall.CardBytes))
	}
	return out
}

// unlike reports whether cards of one class are not of one size.
func unlike(s cardSizes) bool { return s.most-s.least > s.most/50 }

// sizeText writes a number of bytes for people.
func sizeText(bytes uint64) string {
	if bytes < 1<<30 {
		return fmt.Sprintf("%.0f MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}

// found returns the weights of a model that nodes have: of different ones under one
// name the largest, which fits wherever the others do. missing says why there are
// none. The caller holds mu.
func (n *needs) found(m *catalog.Model) (best *weightsFacts, others int, missing string) {
	k := n.keys[m.WeightsKey()]
	if k != nil {
		for _, of := range k.facts {
			if of.facts == nil {
				continue
			}
			switch {
			case best == nil:
				best = of
			case of.facts.TensorBytes > best.facts.TensorBytes || of.facts.TensorBytes == best.facts.TensorBytes && of.first() < best.first():
				others += len(best.nodes)
				best = of
			default:
				others += len(of.nodes)
			}
		}
	}
	if best != nil {
		return best, others, ""
	}
	switch _, looked := lookedFor(m); {
	case m.SourceKind() == catalog.SourceURL:
		return nil, 0, "its source is a URL, of which nothing is known before a node has fetched it"
	case !looked:
		return nil, 0, "it has no source"
	case n.lookers == 0 && k == nil:
		return nil, 0, "no node looks for weights: weights.dirs of a node's configuration names the directories that may hold them"
	}
	states, reason := map[fleetpb.WeightsState]int{}, ""
	for _, id := range slices.Sorted(maps.Keys(n.nodes)) {
		f := n.nodes[id].found()[m.WeightsKey()]
		if f == nil {
			continue
		}
		states[f.GetState()]++
		if f.GetState() != fleetpb.WeightsState_WEIGHTS_STATE_ABSENT && reason == "" {
			reason = fmt.Sprintf("; on %s: %s", id, f.GetReason())
		}
	}
	var parts []string
	for _, state := range []struct {
		of   fleetpb.WeightsState
		text string
	}{
		{fleetpb.WeightsState_WEIGHTS_STATE_PRESENT, "whose weights say what cannot be"},
		{fleetpb.WeightsState_WEIGHTS_STATE_ABSENT, "without them"},
		{fleetpb.WeightsState_WEIGHTS_STATE_PARTIAL, "with a part of them"},
		{fleetpb.WeightsState_WEIGHTS_STATE_UNREADABLE, "where they could not be read"},
	} {
		if states[state.of] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", states[state.of], state.text))
		}
	}
	if len(parts) == 0 {
		return nil, 0, "no node has answered yet whether it has the weights"
	}
	return nil, 0, "no node is known to have them whole: " + strings.Join(parts, ", ") + reason
}

// first is the first node that has them, by id.
func (w *weightsFacts) first() string { return slices.Min(slices.Collect(maps.Keys(w.nodes))) }
