package controlplane

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/control"
	"github.com/llmgw/llmgw/fleet/fleetpb"
	"github.com/llmgw/llmgw/placement"
	"github.com/llmgw/llmgw/placement/reconcile"
	"github.com/llmgw/llmgw/storage"
)

// machines tells a reconciler of the nodes that agents told of, as
// [reconcile.NodeSource].
type machines struct {
	plane   *control.Plane
	targets *targets
	needs   *needs        // are told of each node
	every   time.Duration // between two looks at all readings
	wake    chan struct{} // has an element when there may be a change

	mu    sync.Mutex
	told  map[string]*reconcile.Node // guarded by mu; as the reconciler has them
	holds map[string]*holdings       // guarded by mu; what weights nodes have, as placement has it
	dirty map[string]bool            // guarded by mu; nodes with a change since
	all   bool                       // guarded by mu; every node may have one
	// looked is when all readings were looked at last; guarded by mu.
	looked time.Time
}

// holdings are what weights a node has, as placement has it.
type holdings struct {
	of      *control.Weights // it is made of
	weights map[string]placement.Holding
	shared  map[string]string
}

func newMachines(plane *control.Plane, targets *targets, needs *needs, every time.Duration) *machines {
	return &machines{
		plane: plane, targets: targets, needs: needs, every: every, wake: make(chan struct{}, 1), told: map[string]*reconcile.Node{},
		holds: map[string]*holdings{}, dirty: map[string]bool{}, all: true,
	}
}

// run passes on what the streams' side and operators change, until ctx is done.
func (m *machines) run(ctx context.Context) error {
	watcher := m.plane.Watch()
	defer watcher.Close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-watcher.C():
			if changes, some := watcher.Take(); some {
				m.mark(changes)
			}
		case <-m.targets.changes:
			m.mark(control.Changes{All: true})
		}
		select {
		case m.wake <- struct{}{}:
		default:
		}
	}
}

func (m *machines) mark(changes control.Changes) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = m.all || changes.All
	for _, c := range changes.List {
		m.dirty[c.Node] = true
	}
}

// C implements [reconcile.NodeSource].
func (m *machines) C() <-chan struct{} { return m.wake }

// Changed implements [reconcile.NodeSource]. Beside what was watched it looks now and
// then at every node's newest reading, of which nobody is woken: how much memory is
// free, how cards are, what engines have to do.
func (m *machines) Changed(again bool) (changed []reconcile.Node, gone []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if again {
		clear(m.told)
		m.all = true
	}
	now := time.Now()
	if !m.all && now.Sub(m.looked) < m.every {
		return m.watched()
	}
	m.looked = now
	nodes := m.plane.Nodes()
	seen := make(map[string]bool, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		seen[n.ID] = true
		was := m.told[n.ID]
		if was != nil && !m.all && !m.dirty[n.ID] && unmoved(was, n) {
			continue // most: nothing is made of it
		}
		is := m.node(n)
		if was != nil && !m.all && !m.dirty[n.ID] && alike(was, &is) {
			continue
		}
		m.told[n.ID] = &is
		changed = append(changed, is)
	}
	for _, id := range slices.Sorted(maps.Keys(m.holds)) {
		if seen[id] {
			continue
		}
		if m.told[id] != nil {
			gone = append(gone, id)
		}
		m.forget(id)
	}
	m.all = false
	clear(m.dirty)
	return changed, gone
}

// watched returns the nodes of which a change was told. The caller holds mu.
func (m *machines) watched() (changed []reconcile.Node, gone []string) {
	for _, id := range slices.Sorted(maps.Keys(m.dirty)) {
		n, known := m.plane.Node(id)
		if !known {
			if m.told[id] != nil {
				m.forget(id)
				gone = append(gone, id)
			}
			continue
		}
		is := m.node(&n)
		m.told[id] = &is
		changed = append(changed, is)
	}
	clear(m.dirty)
	return changed, gone
}

// forget forgets a node. The caller holds mu.
func (m *machines) forget(id string) {
	delete(m.told, id)
	delete(m.holds, id)
	m.needs.gone(id)
}

// holding is what weights a node has. The caller holds mu.
func (m *machines) holding(n *control.Node) *holdings {
	if h := m.holds[n.ID]; h != nil && h.of == n.Weights {
		return h
	}
	h := &holdings{of: n.Weights}
	if n.Weights != nil {
		h.weights = make(map[string]placement.Holding, len(n.Weights.Found))
		for key, f := range n.Weights.Found {
			switch f.GetState() {
			case fleetpb.WeightsState_WEIGHTS_STATE_PRESENT:
				if f.GetShared() == "" {
					h.weights[key] = placement.Holds
					continue
				}
				if h.shared == nil {
					h.shared = make(map[string]string)
				}
				h.shared[key] = f.GetShared()
			case fleetpb.WeightsState_WEIGHTS_STATE_ABSENT, fleetpb.WeightsState_WEIGHTS_STATE_PARTIAL:
				h.weights[key] = placement.Lacks
			default: // whether they are there is not known
			}
		}
	}
	m.holds[n.ID] = h
	return h
}

// unmoved is alike for a node of which nothing was made yet, where that can be told
// without: its cards are not split, and none is used by others.
func unmoved(was *reconcile.Node, n *control.Node) bool {
	state := &n.Reading
	if n.Inventory == nil || len(was.Cards) != len(n.Inventory.GPUs) || len(state.GPUs) != len(was.Cards) || len(was.Unfit) > 0 ||
		len(n.Shards) != len(was.Shards) || len(state.Fabrics) != len(was.Fabrics) || !near(was.HostFreeBytes, state.MemoryAvailableBytes) {
		return false
	}
	for i := range state.GPUs {
		g, card := &state.GPUs[i], &was.Cards[i]
		if g.GPU != card.ID || g.Health.State != engines.Healthy || card.Problem != "" || len(g.Foreign)+len(card.Foreign) > 0 || !near(card.FreeBytes, g.MemoryFreeBytes) {
			return false
		}
	}
	for i := range state.Fabrics {
		if state.Fabrics[i].Name != was.Fabrics[i].Name || state.Fabrics[i].Verdict != was.Fabrics[i].Verdict {
			return false
		}
	}
	for i := range n.Shards {
		if !same(was.Shards[i].Running, n.Shards[i].Running) || !same(was.Shards[i].Waiting, n.Shards[i].Waiting) {
			return false
		}
	}
	return true
}

// near reports whether two amounts of memory differ by nothing of account.
func near(a, b engines.Opt[uint64]) bool {
	const little = 256 << 20
	x, known := a.Get()
	y, also := b.Get()
	return known == also && max(x, y)-min(x, y) < little
}

// alike reports whether a node that nobody was woken for is as it was, but for
// what is of no account: memory that is a little more or less free.
func alike(was, is *reconcile.Node) bool {
	if !near(was.HostFreeBytes, is.HostFreeBytes) || len(was.Cards) != len(is.Cards) || !maps.Equal(was.Unfit, is.Unfit) ||
		len(was.Shards) != len(is.Shards) || len(was.Fabrics) != len(is.Fabrics) {
		return false
	}
	for i := range is.Cards {
		a, b := &was.Cards[i], &is.Cards[i]
		if a.ID != b.ID || a.Problem != b.Problem || len(a.Foreign) != len(b.Foreign) || !near(a.FreeBytes, b.FreeBytes) {
			return false
		}
	}
	for i := range is.Fabrics {
		if was.Fabrics[i] != is.Fabrics[i] {
			return false
		}
	}
	for i := range is.Shards {
		if !same(was.Shards[i].Running, is.Shards[i].Running) || !same(was.Shards[i].Waiting, is.Shards[i].Waiting) {
			return false
		}
	}
	return true
}

func same(a, b *int) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// node is a node as placement sees it. The caller holds mu.
func (m *machines) node(n *control.Node) reconcile.Node {
	hardware := n.Hardware()
	out := reconcile.Node{
		Node: placement.NodeOf(n.ID, hardware), Address: n.Address, Reported: !n.Registered.IsZero(), Shards: n.Shards,
	}
	switch n.State {
	case control.Ready:
		out.State = placement.Ready
	case control.Unreachable:
		out.State = placement.Unreachable
	case control.Lost:
		out.State = placement.Lost
	case control.Expected:
		out.State = placement.Unheard
	}
	out.Connected = n.Connected
	switch cordon, known := m.targets.of(n.ID); {
	case !known:
		out.Cordon, out.CordonReason = placement.Cordoned, "what operators want of it is not known: the store was not read yet"
	case cordon == nil:
	case cordon.Target == storage.TargetDrained:
		out.Cordon, out.CordonReason = placement.Draining, cordon.Reason
	default:
		out.Cordon, out.CordonReason = placement.Cordoned, cordon.Reason
	}
	out.Labels = n.Labels
	if n.Engines != nil {
		out.Engines = make(map[engines.Name]string, len(n.Engines))
		for _, e := range n.Engines {
			out.Engines[e.Engine] = e.Problem
		}
	}
	if width := n.Ports.Last - n.Ports.First + 1; n.Ports.First > 0 && width > 0 {
		out.FreePorts = engines.Known(max(width-portsTaken(n), 0))
	}
	if hardware != nil {
		out.Unfit = unfit(hardware)
	}
	holds := m.holding(n)
	out.Weights, out.WeightsShared = holds.weights, holds.shared
	m.needs.note(n, &out.Node)
	return out
}

// portsTaken is how many ports of a node's range are not free, as far as it tells:
// those of its shards and those of strangers.
func portsTaken(n *control.Node) int {
	taken := len(n.Strangers)
	for i := range n.Shards {
		if n.Shards[i].State.Runs() {
			for _, port := range n.Shards[i].Ports {
				if port >= n.Ports.First && port <= n.Ports.Last { // else the range was another one, or an order named it
					taken++
				}
			}
		}
	}
	return taken
}

// unfit are the cards from which what runs has to go.
func unfit(inv *engines.Inventory) map[string]string {
	var out map[string]string
	for i := range inv.State.GPUs {
		g := &inv.State.GPUs[i]
		if g.Health.State != engines.Excluded && g.Health.State != engines.RestartEngine {
			continue
		}
		why := string(g.Health.State)
		if len(g.Health.Reasons) > 0 {
			why = reasonText(g.Health.Reasons[0])
		}
		if out == nil {
			out = make(map[string]string)
		}
		out[g.GPU] = why
	}
	return out
}
