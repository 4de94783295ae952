package reconcile_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/placement/reconcile"
)

// world is a fleet, a store and routers in one piece, stepped second by second:
// what really runs, and apart from it what each part has heard of the others.
type world struct {
	t   fataler
	rng *rand.Rand
	now time.Time
	cfg reconcile.Config

	machines []*machine
	models   []catalog.Model
	left     []catalog.Model // that were in the catalog before
	cat      *catalog.Catalog
	needs    []reconcile.Need // that the core is told of once; nil: nothing

	store     map[string]reconcile.Row
	storeAway bool
	ids       int

	core      *reconcile.Core // nil: the control plane is down
	began     time.Time       // when it came up
	loaded    bool
	endpoints []reconcile.Endpoint // as routers know them
	orders    []message            // on their way to machines and to the store
	answers   []message            // on their way back
	emitted   map[string]time.Time // by replica; as routers have seen it
	hosts     map[string]string    // by incarnation: what its leading shard bound, dead or not since
	retired   map[string]bool      // replicas that were let go for a reason of people's
	streams   map[string]time.Time // by replica; until when one goes on that began before it left the endpoints
	backup    map[string]reconcile.Row

	// chance of an order and of an answer to be lost, and the longest way of one.
	loss  float64
	delay time.Duration
	// load is how long an engine loads once all its ranks run, wake how long one takes
	// that slept.
	load, wake time.Duration
	// rest is what of a card's memory an engine keeps that sleeps.
	rest uint64
	// busy routers have requests on every endpoint; without, none of them ever has, but
	// on those of models that are used. deaf: a router that lives was not heard.
	busy bool
	used map[string]bool
	deaf bool
	// demand is what routers say of models.
	demand map[string]*reconcile.Demand

	statuses map[string]reconcile.ModelStatus // as routers know them
	told     int                              // how often they were told
	// renamed are replicas that were placed before their fabric had another name.
	renamed map[string]bool
	// shape is what adapters say; nil: what profiles come to.
	shape func(engines.Profile) (engines.Shape, error)
	// long is for how long a stream goes on at a replica that is no endpoint any more.
	long time.Duration

	// ails is what is wrong with a model's engines.
	ails map[string]ailment
	// stuck engines do not end when they are told to; paused is until when the control
	// plane's process does not run.
	stuck  bool
	paused time.Time

	starts int // engines started
	wakes  int // engines woken
	// startedAt is when engines of a model were started: leading shards.
	startedAt map[string][]time.Time
}

// ailment is what is wrong with an engine.
type ailment int

const (
	sound   ailment = iota
	brittle         // it ends while it loads
	hung            // it loads for ever
	fragile         // it ends as soon as somebody uses it
	wakeful         // it will not sleep
	dead            // it will not wake
)

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

type message struct {
	due    time.Time
	result reconcile.Result
	core   *reconcile.Core // whose it is
}

// machine is a node: what runs on it, and what the control plane has heard.
type machine struct {
	id, fabric string
	cards      int
	up         bool // the machine itself
	agent      bool // its agent runs
	link       bool // its agent reaches the control plane
	cordon     placement.Cordon
	unfit      map[string]string

	shards map[engines.ShardID]*process
	barred map[engines.ShardID]uint64

	heard    time.Time
	reported bool
	told     []engines.ShardStatus
	last     reconcile.Node // as the core was told last
}

// process is a shard on its machine.
type process struct {
	status  engines.ShardStatus
	spec    engines.ShardSpec
	started time.Time
	woken   time.Time // zero: it never slept
	slept   bool      // and was not woken since, whatever became of it
}

func newWorld(t fataler, seed uint64) *world {
	cfg := reconcile.DefaultConfig()
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), cfg: cfg,
		store: map[string]reconcile.Row{}, emitted: map[string]time.Time{}, hosts: map[string]string{}, retired: map[string]bool{},
		streams: map[string]time.Time{}, backup: map[string]reconcile.Row{},
		used: map[string]bool{}, demand: map[string]*reconcile.Demand{}, statuses: map[string]reconcile.ModelStatus{},
		load: 10 * time.Second, wake: 2 * time.Second, busy: true, ails: map[string]ailment{}, startedAt: map[string][]time.Time{},
	}
	w.setModels()
	return w
}

// nodes adds machines of a fabric, n with so many cards each.
func (w *world) nodes(fabric string, n, cards int) {
	for range n {
		w.machines = append(w.machines, &machine{
			id: fmt.Sprintf("n%d", len(w.machines)+1), fabric: fabric, cards: cards, up: true, agent: true, link: true,
			shards: map[engines.ShardID]*process{}, barred: map[engines.ShardID]uint64{}, unfit: map[string]string{},
		})
	}
}

func (w *world) machine(id string) *machine {
	i := slices.IndexFunc(w.machines, func(m *machine) bool { return m.id == id })
	if i < 0 {
		w.t.Fatalf("no machine %q", id)
	}
	return w.machines[i]
}

// setModels makes a catalog of models.
func (w *world) setModels(models ...catalog.Model) {
	cat, err := catalog.New(models)
	if err != nil {
		w.t.Fatalf("catalog: %v", err)
	}
	w.models, w.cat = models, cat
}

// simModel is an entry for the simulated engine.
func simModel(name string, count, ranks, cards int) catalog.Model {
	return catalog.Model{
		Name: name, Source: "sim/" + name,
		Profile: &engines.Profile{Engine: "sim", Ranks: ranks, TensorParallel: cards},
		Scaling: &catalog.Scaling{Min: count, Max: count},
	}
}

// start starts a control plane that knows nothing.
func (w *world) startPlane() {
	core, err := reconcile.NewCore(w.cfg, reconcile.CoreDeps{
		Shape: w.shape,
		NewID: func(model string) string {
			w.ids++
			return fmt.Sprintf("%s-%d", model, w.ids)
		},
		NewSecret: func() string { return fmt.Sprintf("secret-%d", w.ids) },
	})
	if err != nil {
		w.t.Fatalf("core: %v", err)
	}
	w.core, w.began, w.loaded = core, w.now, false
	for _, m := range w.machines {
		m.heard, m.reported, m.told = time.Time{}, false, nil
	}
}

func (w *world) stopPlane() { w.core = nil }

// pass lets a second go by.
func (w *world) pass() {
	w.now = w.now.Add(time.Second)
	w.run()
	w.carry()
	w.beat()
	w.emit()
	if w.core != nil && !w.now.Before(w.paused) {
		w.step()
	}
}

// run moves what runs on.
func (w *world) run() {
	for _, m := range w.machines {
		for id, p := range m.shards {
			switch p.status.State {
			case engines.ShardStarting:
				w.become(p, engines.ShardLoading)
			case engines.ShardLoading:
				switch w.ail(p) {
				case brittle:
					if w.now.Sub(p.started) >= w.load/2 {
						w.become(p, engines.ShardFailed)
					}
					continue
				case hung:
					continue
				case dead:
					if !p.woken.IsZero() {
						continue
					}
				case sound, fragile, wakeful:
				}
				if !p.woken.IsZero() {
					if w.now.Sub(p.woken) >= w.wake {
						w.become(p, engines.ShardReady)
					}
				} else if w.whole(id.Replica, p.spec) && w.now.Sub(p.started) >= w.load {
					w.become(p, engines.ShardReady)
				}
			case engines.ShardStopping:
				if !w.stuck {
					w.become(p, engines.ShardStopped)
				}
			case engines.ShardUnset, engines.ShardReady, engines.ShardDraining, engines.ShardStopped, engines.ShardFailed, engines.ShardSleeping:
			}
		}
	}
}

// ail is what is wrong with an engine.
func (w *world) ail(p *process) ailment { return w.ails[p.spec.Profile.ServedNames[0]] }

func (w *world) become(p *process, s engines.ShardState) {
	p.status.State, p.status.Since = s, w.now
	p.status.Revision++
}

// whole reports whether all ranks of a replica really run.
func (w *world) whole(replica string, spec engines.ShardSpec) bool {
	ranks := spec.Profile.WithDefaults().Ranks
	for rank := range ranks {
		if !slices.ContainsFunc(w.machines, func(m *machine) bool {
			p := m.shards[engines.ShardID{Replica: replica, Rank: rank}]
			return m.up && p != nil && p.status.State.Runs()
		}) {
			return false
		}
	}
	return true
}

// beat has the agents that can tell what they have.
func (w *world) beat() {
	for _, m := range w.machines {
		if !m.up || !m.agent || !m.link || w.core == nil {
			continue
		}
		m.heard, m.reported, m.told = w.now, true, nil
		for _, p := range m.shards {
			m.told = append(m.told, p.status)
		}
		slices.SortFunc(m.told, func(a, b engines.ShardStatus) int { return strings.Compare(a.ID.String(), b.ID.String()) })
	}
}

// emit has the routers use what they know, and see who answers.
func (w *world) emit() {
	for _, e := range w.endpoints {
		lead := w.serving(e)
		if lead != nil && w.ail(lead) == fragile && (w.busy || w.used[e.Model] || w.demand[e.Model] != nil && w.demand[e.Model].Waiting > 0) {
			w.become(lead, engines.ShardFailed)
			w.emitted[e.Replica] = time.Time{} // its own agent's word
			continue
		}
		if lead != nil && (w.busy || w.used[e.Model]) {
			w.emitted[e.Replica] = w.now
			w.streams[e.Replica] = w.now.Add(w.long)
		}
	}
	for id := range w.streams {
		switch lead := w.leading(id); {
		case lead == nil || !w.whole(id, lead.spec):
			delete(w.streams, id) // it was cut, and has no second half
		case w.streaming(id):
			w.emitted[id] = w.now
		}
	}
}

// streaming reports whether a replica has a stream, and had it before it was no
// endpoint any more.
func (w *world) streaming(replica string) bool { return w.streams[replica].After(w.now) }

// leading is the process that leads a replica and answers.
func (w *world) leading(replica string) *process {
	for _, m := range w.machines {
		p := m.shards[engines.ShardID{Replica: replica}]
		if m.up && p != nil && (p.status.State == engines.ShardReady || p.status.State == engines.ShardDraining) {
			return p
		}
	}
	return nil
}

// serving returns the leading process behind an endpoint, if the replica is whole
// and ready.
func (w *world) serving(e reconcile.Endpoint) *process {
	for _, m := range w.machines {
		p := m.shards[engines.ShardID{Replica: e.Replica}]
		if m.up && p != nil && p.status.Address == e.Address && (p.status.State == engines.ShardReady || p.status.State == engines.ShardDraining) &&
			w.whole(e.Replica, p.spec) {
			return p
		}
	}
	return nil
}

// view is a machine as the control plane knows it.
func (w *world) view(m *machine) reconcile.Node {
	silent := w.now.Sub(m.heard)
	if m.heard.Before(w.began) {
		silent = w.now.Sub(w.began)
	}
	n := reconcile.Node{Address: "10.0.0." + m.id[1:], Reported: m.reported, Shards: m.told, Unfit: maps.Clone(m.unfit)}
	n.Node = placement.Node{
		ID: m.id, State: placement.Ready, Connected: m.up && m.agent && m.link, Cordon: m.cordon,
		Engines: map[engines.Name]string{"sim": ""},
	}
	switch {
	case silent >= w.cfg.LostAfter:
		n.State = placement.Lost
	case silent >= w.cfg.LostAfter/4 || !m.reported:
		n.State = placement.Unreachable
	}
	if m.fabric != "" {
		n.Fabrics = []placement.FabricMember{{Name: m.fabric, Verdict: engines.Confirmed}}
	}
	for i := range m.cards {
		id := fmt.Sprintf("%s-%d", m.id, i)
		n.Cards = append(n.Cards, placement.Card{
			ID: id, Index: i, Class: "H100", MemoryBytes: engines.Known(uint64(80 << 30)), FreeBytes: engines.Known(uint64(80<<30) - w.kept(m, id)),
			Problem: m.unfit[id],
		})
	}
	return n
}

// kept is what of a card's memory those that sleep have.
func (w *world) kept(m *machine, card string) (bytes uint64) {
	for _, p := range m.shards {
		if p.status.State == engines.ShardSleeping && slices.Contains(p.spec.Cards, card) {
			bytes += w.rest
		}
	}
	return bytes
}

// alike reports whether the core need not be told of a machine again.
func alike(a, b *reconcile.Node) bool {
	return a.State == b.State && a.Connected == b.Connected && a.Cordon == b.Cordon && a.Reported == b.Reported && maps.Equal(a.Unfit, b.Unfit) &&
		slices.EqualFunc(a.Shards, b.Shards, func(a, b engines.ShardStatus) bool {
			return a.ID == b.ID && a.State == b.State && a.Revision == b.Revision && a.Running == b.Running
		})
}

// step has the core decide, and sends its orders off.
func (w *world) step() {
	in := reconcile.Inputs{Leads: true, Catalog: w.cat, Needs: w.needs}
	w.needs = nil
	if !w.loaded && !w.storeAway {
		rows := []reconcile.Row{}
		for _, id := range sortedKeys(w.store) {
			rows = append(rows, w.store[id])
		}
		in.Rows, w.loaded = &rows, true
	}
	for _, m := range w.machines {
		if n := w.view(m); in.Rows != nil || !alike(&n, &m.last) {
			in.Nodes, m.last = append(in.Nodes, n), n
		}
	}
	in.Use = []reconcile.Use{}
	for _, r := range w.core.View().Replicas {
		in.Use = append(in.Use, w.use(r.ID))
	}
	for _, st := range w.core.View().Strays {
		in.Use = append(in.Use, w.use(st.Status.ID.Replica))
	}
	in.Demand = []reconcile.Demand{}
	for _, name := range sortedKeys(w.demand) {
		d := w.demand[name]
		if w.serves(name) > 0 {
			d.Waiting = 0
		}
		if age, known := d.Asked.Get(); known {
			d.Asked = engines.Known(age + time.Second)
		}
		if w.used[name] || d.Waiting > 0 {
			d.Asked = engines.Known(time.Duration(0))
		}
		in.Demand = append(in.Demand, *d)
	}
	for _, a := range w.due(&w.answers) {
		if a.core == w.core {
			in.Results = append(in.Results, a.result)
		}
	}
	d := w.core.Step(w.now, in)
	for _, o := range d.Orders {
		w.orders = append(w.orders, message{due: w.now.Add(w.way()), result: reconcile.Result{Order: o}, core: w.core})
	}
	w.endpoints = d.Endpoints
	if d.StatusesChanged {
		w.told++
		for _, s := range d.Statuses {
			w.statuses[s.Model] = s
		}
	}
	w.check(w.core.View())
}

// use is what routers say of a replica. They follow at once.
func (w *world) use(id string) reconcile.Use {
	u := reconcile.Use{Replica: id, InFlight: engines.Known(0)}
	if at, seen := w.emitted[id]; seen {
		u.Worked = engines.Known(w.now.Sub(at))
	}
	u.Released = !slices.ContainsFunc(w.endpoints, func(e reconcile.Endpoint) bool { return e.Replica == id })
	if row := w.store[id]; !u.Released && (w.busy || w.used[row.Model]) || w.streaming(id) {
		u.InFlight = engines.Known(1)
	}
	if w.deaf {
		u.InFlight, u.Released = engines.Opt[int]{}, false
	}
	return u
}

func (w *world) way() time.Duration {
	if w.delay == 0 {
		return 0
	}
	return time.Duration(w.rng.Int64N(int64(w.delay)))
}

// due takes the messages that have arrived.
func (w *world) due(from *[]message) (arrived []message) {
	*from = slices.DeleteFunc(*from, func(m message) bool {
		if m.due.After(w.now) {
			return false
		}
		arrived = append(arrived, m)
		return true
	})
	return arrived
}

// carry has the orders that arrived done.
func (w *world) carry() {
	for _, msg := range w.due(&w.orders) {
		o := msg.result.Order
		if msg.core != w.core && (o.Node == "" || w.machine(o.Node).reported) {
			continue // another term has begun, and who is asked has heard of it
		}
		res := w.do(o)
		if res.Outcome == 0 || w.rng.Float64() < w.loss {
			res = reconcile.Result{Outcome: reconcile.Unknown}
		}
		res.Order = msg.result.Order
		w.answers = append(w.answers, message{due: w.now.Add(w.way()), result: res, core: msg.core})
	}
}

// do carries one order out. The outcome is unset where nobody answers.
func (w *world) do(o reconcile.Order) reconcile.Result {
	if w.rng.Float64() < w.loss {
		return reconcile.Result{}
	}
	if o.Kind == reconcile.PutRow || o.Kind == reconcile.RemoveRow {
		if w.storeAway {
			return reconcile.Result{Outcome: reconcile.Again, Reason: "the store is away"}
		}
		if o.Kind == reconcile.PutRow {
			w.store[o.Replica] = *o.Row
		} else {
			delete(w.store, o.Replica)
		}
		return reconcile.Result{Outcome: reconcile.Done}
	}
	m := w.machine(o.Node)
	if !m.up || !m.agent || !m.link {
		return reconcile.Result{Outcome: reconcile.Again, Reason: "not connected"}
	}
	p := m.shards[o.Shard]
	switch o.Kind {
	case reconcile.Start:
		return w.launch(m, o, p)
	case reconcile.Drain:
		if p == nil {
			return reconcile.Result{Outcome: reconcile.Refused, Reason: "no such shard"}
		}
	case reconcile.Sleep:
		if p == nil || p.status.State != engines.ShardReady && p.status.State != engines.ShardDraining && p.status.State != engines.ShardSleeping {
			return reconcile.Result{Outcome: reconcile.Refused, Reason: "it does not serve"}
		}
		if w.ail(p) == wakeful {
			return reconcile.Result{Outcome: reconcile.Refused, Reason: "it will not sleep"}
		}
		w.become(p, engines.ShardSleeping)
		p.slept = true
	case reconcile.Wake:
		if p == nil {
			return reconcile.Result{Outcome: reconcile.Refused, Reason: "no such shard"}
		}
		if p.status.State == engines.ShardSleeping {
			w.alone(m, o.Shard, p.spec.Cards)
			w.become(p, engines.ShardLoading)
			p.woken, p.slept = w.now, false
			w.wakes++
		}
	case reconcile.Stop:
		m.barred[o.Shard] = max(m.barred[o.Shard], o.Generation)
		if p == nil {
			return reconcile.Result{Outcome: reconcile.Done, Absent: true}
		}
		if p.status.State != engines.ShardStopped {
			w.mayStop(o, p)
			w.become(p, engines.ShardStopping)
		}
	case reconcile.PutRow, reconcile.RemoveRow:
	}
	return reconcile.Result{Outcome: reconcile.Done}
}

func (w *world) launch(m *machine, o reconcile.Order, p *process) reconcile.Result {
	if m.barred[o.Shard] >= o.Generation {
		return reconcile.Result{Outcome: reconcile.Refused, Reason: "it was ordered to stop"}
	}
	if p != nil {
		return reconcile.Result{Outcome: reconcile.Done}
	}
	w.alone(m, o.Shard, o.Spec.Cards)
	if _, stored := w.store[o.Replica]; !stored {
		w.t.Fatalf("%v is started and not stored", o.Shard)
	}
	if o.Shard.Rank > 0 && len(o.Spec.LeaderPorts) == 0 {
		w.t.Fatalf("%v is not told where to meet", o.Shard)
	}
	if at := w.hosts[incarnation(o)]; o.Shard.Rank > 0 && o.Spec.Leader != at {
		w.t.Fatalf("%v is told to meet at %q; its leader is at %q", o.Shard, o.Spec.Leader, at)
	}
	w.starts++
	if o.Shard.Rank == 0 {
		w.startedAt[o.Spec.Profile.ServedNames[0]] = append(w.startedAt[o.Spec.Profile.ServedNames[0]], w.now)
	}
	p = &process{
		spec: *o.Spec, started: w.now,
		status: engines.ShardStatus{
			ID: o.Shard, Generation: o.Generation, State: engines.ShardStarting, Since: w.now, Revision: 1, Start: fmt.Sprint("s", w.starts),
			Cards: o.Spec.Cards, Address: fmt.Sprintf("%s:%d", m.id, 20000+w.starts), Ports: map[string]int{"http": 20000 + w.starts},
		},
	}
	m.shards[o.Shard] = p
	if o.Shard.Rank == 0 {
		w.hosts[incarnation(o)], _, _ = net.SplitHostPort(p.status.Address)
	}
	return reconcile.Result{Outcome: reconcile.Done}
}

// alone holds that no other shard of a machine has any of the cards.
func (w *world) alone(m *machine, shard engines.ShardID, cards []string) {
	for id, other := range m.shards {
		if id == shard || other.status.State == engines.ShardStopped || other.slept {
			continue
		}
		for _, card := range other.spec.Cards {
			if slices.Contains(cards, card) {
				w.t.Fatalf("%v: %v and %v both have card %s", w.now, id, shard, card)
			}
		}
	}
}

func incarnation(o reconcile.Order) string { return fmt.Sprint(o.Replica, " ", o.Generation) }

// mayStop holds an order to stop against the rule that nothing which works is
// taken down on a suspicion.
func (w *world) mayStop(o reconcile.Order, p *process) {
	at, seen := w.emitted[o.Replica]
	if !slices.ContainsFunc(w.core.View().Replicas, func(r reconcile.ReplicaView) bool { return r.ID == o.Replica }) &&
		(!w.streaming(o.Replica) || w.machine(o.Node).cordon == placement.Draining) {
		return // it is on no record, and no router has anything there, or people want the node empty
	}
	if !seen || w.now.Sub(at) >= w.cfg.LostAfter || !w.whole(o.Replica, p.spec) || w.retired[o.Replica] {
		return
	}
	w.t.Fatalf("%v: %v is stopped (%s), and its replica had a token %v ago", w.now, o.Shard, o.Reason, w.now.Sub(at))
}

// check holds what the core says against what must be so at any moment.
func (w *world) check(v *reconcile.View) {
	for _, m := range v.Models {
		if m.Unplaced == nil && m.Wanted > m.Ready+m.Coming+m.Lost && m.Reason == "" && m.After.After(w.now) {
			w.t.Fatalf("%v: %s waits until %v, and nothing says why", w.now, m.Name, m.After)
		}
	}
	taken := map[string]string{}
	for _, r := range v.Replicas {
		if r.State == reconcile.Draining && !w.retired[r.ID] {
			w.retired[r.ID] = true
			if at, seen := w.emitted[r.ID]; seen && w.now.Sub(at) < w.cfg.LostAfter && strings.Contains(r.Reason, "are needed for") {
				w.t.Fatalf("%v: %s is evicted (%s), and had a token %v ago", w.now, r.ID, r.Reason, w.now.Sub(at))
			}
		}
		fabrics := map[string]bool{}
		for rank, s := range r.Shards {
			m := w.machine(s.Node)
			p := m.shards[engines.ShardID{Replica: r.ID, Rank: rank}]
			fabrics[m.fabric] = true
			for _, card := range s.Cards {
				if r.State == reconcile.Sleeping || r.State >= reconcile.Stopping && (p == nil || p.slept) {
					continue // until it is woken
				}
				if other := taken[card]; other != "" {
					w.t.Fatalf("%v: card %s is of %s and of %s", w.now, card, other, r.ID)
				}
				taken[card] = r.ID
			}
		}
		if len(r.Shards) > 1 && len(fabrics) > 1 && !w.renamed[r.ID] {
			w.t.Fatalf("%v: %s is on two fabrics: %+v", w.now, r.ID, r.Shards)
		}
	}
	stored := map[string]string{}
	for id, row := range w.store {
		for rank, s := range row.Shards {
			p := w.machine(s.Node).shards[engines.ShardID{Replica: id, Rank: rank}]
			if row.State == reconcile.Sleeping || row.State >= reconcile.Stopping && (p == nil || p.slept) {
				continue // until it is woken
			}
			for _, card := range s.Cards {
				if other := stored[card]; other != "" {
					w.t.Fatalf("%v: the rows of %s and of %s both have card %s\n%s\n%+v\n%+v", w.now, id, other, card, w.describe(), w.store[id], w.store[other])
				}
				stored[card] = id
			}
		}
	}
	for _, m := range v.Models {
		if m.Wanted > m.Max || m.Wanted < m.Floor {
			w.t.Fatalf("%v: %d of %s are wanted, of %d to %d", w.now, m.Wanted, m.Name, m.Floor, m.Max)
		}
	}
	for _, e := range w.endpoints {
		if _, there := w.cat.Resolve(e.Model); !there {
			w.t.Fatalf("%v: %s of %s is published, which is not in the catalog", w.now, e.Replica, e.Model)
		}
	}
}

// ask has so many requests wait for a model.
func (w *world) ask(model string, n int) {
	d := w.demand[model]
	if d == nil {
		d = &reconcile.Demand{Model: model}
		w.demand[model] = d
	}
	d.Waiting += n
	d.Asked = engines.Known(time.Duration(0))
}

// kill ends a machine with all that runs on it; revive starts it again.
func (m *machine) kill()   { m.up, m.shards = false, map[engines.ShardID]*process{} }
func (m *machine) revive() { m.up = true }

// until lets time pass until a condition holds, at most so many seconds.
func (w *world) until(seconds int, what string, holds func() bool) {
	w.t.Helper()
	for range seconds {
		if holds() {
			return
		}
		w.pass()
	}
	if !holds() {
		w.t.Fatalf("%v: not within %d s: %s\n%s", w.now, seconds, what, w.describe())
	}
}

func (w *world) forSeconds(n int) {
	for range n {
		w.pass()
	}
}

// serves is how many replicas of a model routers may use, that really work.
func (w *world) serves(model string) (n int) {
	for _, e := range w.endpoints {
		if e.Model == model && w.serving(e) != nil {
			n++
		}
	}
	return n
}

func (w *world) describe() string {
	if w.core == nil {
		return "the control plane is down"
	}
	var text strings.Builder
	for _, m := range w.core.View().Models {
		fmt.Fprintf(&text, "%s: %d wanted, %d ready, %d coming, %d leaving, %d lost; after %v; %s\n",
			m.Name, m.Wanted, m.Ready, m.Coming, m.Leaving, m.Lost, m.After.Sub(w.now), m.Reason)
	}
	for _, r := range w.core.View().Replicas {
		fmt.Fprintf(&text, "%s %v since %v (%s) held %q leaving %q\n", r.ID, r.State, w.now.Sub(r.Since), r.Reason, r.Held, r.Leaving)
		for _, s := range r.Shards {
			fmt.Fprintf(&text, "   %s %v", s.Node, s.Cards)
			if s.Status != nil {
				text.WriteString(" " + s.Status.State.String())
			}
			text.WriteByte('\n')
		}
	}
	for _, st := range w.core.View().Strays {
		fmt.Fprintf(&text, "stray %v on %s %v since %v held %q\n", st.Status.ID, st.Node, st.Status.State, w.now.Sub(st.Since), st.Held)
	}
	for _, m := range w.machines {
		fmt.Fprintf(&text, "%s up=%v agent=%v link=%v cordon=%v: %d shards\n", m.id, m.up, m.agent, m.link, m.cordon, len(m.shards))
	}
	return text.String()
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

var _ fataler = (*testing.T)(nil)
