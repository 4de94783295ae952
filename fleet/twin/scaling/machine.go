package scaling

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/placement"
	"github.com/llmgw/llmgw/placement/reconcile"
)

// stopTime is how long an engine takes to end.
const stopTime = 2 * time.Second

// machine is a node and what runs on it.
type machine struct {
	id      string
	node    placement.Node
	shards  []*process // by id
	changed bool       // since the control plane heard of it
}

// process is a replica on its machine; all of them have one shard.
type process struct {
	status engines.ShardStatus
	model  *model
	since  time.Duration // of its state
	begun  time.Duration
	cards  int
	engine *engine // nil: it is not up
}

// engine is what answers requests.
type engine struct {
	core     *sim.Core
	at       time.Duration // when its iteration ends; never: it has nothing to do
	inFlight int
	worked   time.Duration // when it had a token last
}

func (t *Twin) buildMachines() {
	for i := range t.cfg.Nodes {
		m := &machine{id: fmt.Sprintf("n%d", i+1), changed: true}
		m.node = placement.Node{ID: m.id, State: placement.Ready, Connected: true, Engines: map[engines.Name]string{engines.Sim: ""}}
		for card := range t.cfg.CardsPerNode {
			m.node.Cards = append(m.node.Cards, placement.Card{ID: fmt.Sprintf("%s-%d", m.id, card), Index: card, Class: "card"})
		}
		t.machines = append(t.machines, m)
	}
}

// move brings what runs on the machines to where it is by now.
func (t *Twin) move() error {
	for _, m := range t.machines {
		for _, p := range m.shards {
			in := t.now - p.since
			switch p.status.State {
			case engines.ShardStarting:
				t.become(m, p, engines.ShardLoading)
			case engines.ShardLoading:
				if t.now-p.begun >= p.model.size.LoadTime {
					core, err := sim.NewCore(t.cfg.engine(p.model.size))
					if err != nil {
						return fmt.Errorf("scaling: %w", err)
					}
					p.engine = &engine{core: core, at: never, worked: t.now}
					t.engines = append(t.engines, p.engine)
					t.byReplica[p.status.ID.Replica] = p.engine
					t.become(m, p, engines.ShardReady)
				}
			case engines.ShardStopping:
				if in >= stopTime {
					t.become(m, p, engines.ShardStopped)
				}
			case engines.ShardUnset, engines.ShardReady, engines.ShardDraining, engines.ShardStopped, engines.ShardFailed:
			}
		}
		// What has ended and was told of is forgotten, as an agent does in time.
		m.shards = slices.DeleteFunc(m.shards, func(p *process) bool {
			return p.status.State == engines.ShardStopped && t.now-p.since >= time.Minute
		})
	}
	return nil
}

func (t *Twin) become(m *machine, p *process, s engines.ShardState) {
	p.status.State, p.status.Since, p.since = s, t.clock(), t.now
	p.status.Revision++
	m.changed = true
}

// view is a machine as the control plane hears of it.
func (m *machine) view() reconcile.Node {
	n := reconcile.Node{Node: m.node, Address: m.id, Reported: true}
	for _, p := range m.shards {
		n.Shards = append(n.Shards, p.status)
	}
	return n
}

// do carries an order out.
func (t *Twin) do(o reconcile.Order) reconcile.Result {
	res := reconcile.Result{Order: o, Outcome: reconcile.Done}
	if o.Kind == reconcile.PutRow || o.Kind == reconcile.RemoveRow {
		return res
	}
	i := slices.IndexFunc(t.machines, func(m *machine) bool { return m.id == o.Node })
	m := t.machines[i]
	at := slices.IndexFunc(m.shards, func(p *process) bool { return p.status.ID == o.Shard })
	switch {
	case o.Kind == reconcile.Start && at < 0:
		t.launch(m, o)
	case o.Kind == reconcile.Stop && at < 0:
		res.Absent = true
	case o.Kind == reconcile.Stop && m.shards[at].status.State.Runs() && m.shards[at].status.State != engines.ShardStopping:
		p := m.shards[at]
		t.end(p)
		t.become(m, p, engines.ShardStopping)
	}
	return res
}

// launch starts a replica.
func (t *Twin) launch(m *machine, o reconcile.Order) {
	t.starts++
	port := 20000 + t.starts
	name := o.Spec.Profile.ServedNames[0]
	mod := &t.models[slices.IndexFunc(t.models, func(m model) bool { return m.Name == name })]
	mod.loads += t.counted()
	p := &process{
		model: mod, since: t.now, begun: t.now, cards: len(o.Spec.Cards),
		status: engines.ShardStatus{
			ID: o.Shard, Generation: o.Generation, State: engines.ShardStarting, Since: t.clock(), Revision: 1, Start: fmt.Sprint("s", t.starts),
			Cards: o.Spec.Cards, Address: fmt.Sprintf("%s:%d", m.id, port), Ports: map[string]int{engines.PortHTTP: port},
		},
	}
	m.shards = append(m.shards, p)
	slices.SortFunc(m.shards, func(a, b *process) int { return strings.Compare(a.status.ID.String(), b.status.ID.String()) })
	m.changed = true
}

// end takes an engine away. The control plane ends none that has requests.
func (t *Twin) end(p *process) {
	if p.engine == nil {
		return
	}
	t.cut += p.engine.inFlight
	delete(t.byReplica, p.status.ID.Replica)
	t.engines = slices.DeleteFunc(t.engines, func(e *engine) bool { return e == p.engine })
	p.engine = nil
}
