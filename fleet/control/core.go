package control

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/internal/convert"
)

// fleet is the table of nodes. What agents say goes in, what is known and what
// changed comes out; the time is an argument, and nothing in it waits, logs or
// talks. The plane's mutex guards it, but for node.heard.
type fleet struct {
	cfg       Config
	base      time.Time // times on the awake clock are since then
	clock     awake
	accession time.Time
	nodes     map[string]*node
	order     []*node  // by id
	changes   []change // since they were last taken
}

// change is something that a watcher is told of: a shard, or with no replica in
// it the node.
type change struct {
	node  string
	shard engines.ShardID
}

// node is what is known of one node.
type node struct {
	// heard is when the newest message came, since the base; 0: never. A stream's
	// reader sets it before it takes the plane's mutex, so that a message which
	// waits for that counts.
	heard atomic.Int64

	seen    int64         // the value of heard that counted is of
	counted time.Duration // when the node was last heard, or expected from, on the awake clock

	id        string        // set once; all below is replaced with the plane's mutex
	reg       *registration // never changed itself
	state     State
	since     time.Time
	stream    *stream   // nil: not connected
	began     time.Time // when the stream did
	sequence  uint64    // the highest of the stream's heartbeats
	beats     uint64    // heartbeats that were entered
	reading   engines.NodeState
	strangers []PortHeld
	skew      engines.Opt[time.Duration]
	skewed    bool // and a warning was written
	goodbye   string
	addresses addresses
	shards    []engines.ShardStatus // by id; changed by what own returns
	told      bool                  // a snapshot has shards, which is not changed any more
	spoken    []uint64              // by shard: beats when it was last spoken of
	weights   *Weights              // nil: it has told nothing
}

// own returns the node's shards, to change one of them. What snapshots were told
// stands: that is most of what is known of a node, and nobody has a copy of it.
func (n *node) own() []engines.ShardStatus {
	if n.told {
		n.shards, n.told = slices.Clone(n.shards), false
	}
	return n.shards
}

// mostMissed is how many heartbeats in a row do not speak of a shard that the
// agent has no more: one of them may have been sent before the shard's status and
// come after it.
const mostMissed = 2

// newFleet returns a table without nodes, of a control plane that came to lead
// now.
func newFleet(cfg Config, base, now time.Time) *fleet {
	return &fleet{cfg: cfg, base: base, clock: awake{tick: cfg.Tick, last: now.Sub(base)}, accession: now, nodes: map[string]*node{}}
}

func (f *fleet) since(now time.Time) time.Duration { return now.Sub(f.base) }

// hear notes that a message of the node's came. It needs no lock.
func (n *node) hear(base, now time.Time) { n.heard.Store(int64(now.Sub(base)) + 1) }

// take brings counted up to date with what was heard since the clock's last step.
func (f *fleet) take(n *node) {
	if h := n.heard.Load(); h != n.seen {
		n.seen, n.counted = h, f.clock.at(time.Duration(h-1))
	}
}

// silence returns for how long the node was not heard, or not since the
// accession, leaving out what this process slept.
func (f *fleet) silence(n *node, now time.Time) time.Duration {
	f.take(n)
	return f.clock.at(f.since(now)) - n.counted
}

// expect enters nodes that the journal has and that have not come by themselves.
// Their silence counts from the accession.
func (f *fleet) expect(known []Known) (added int) {
	for _, k := range known {
		if _, found := f.nodes[k.ID]; found || engines.ValidID(k.ID) != nil || len(f.nodes) >= f.cfg.MaxNodes {
			continue
		}
		n := f.add(registrationOf(k))
		n.state, n.since = Expected, f.accession
		n.counted = f.clock.at(f.since(f.accession))
		added++
	}
	return added
}

func (f *fleet) add(reg *registration) *node {
	n := &node{id: reg.id, reg: reg}
	n.addresses.tell(reg.address)
	f.nodes[reg.id] = n
	i, _ := slices.BinarySearchFunc(f.order, reg.id, func(n *node, id string) int { return strings.Compare(n.id, id) })
	f.order = slices.Insert(f.order, i, n)
	return n
}

// forget takes a node out.
func (f *fleet) forget(n *node) {
	for _, s := range n.shards {
		f.changed(n, s.ID)
	}
	f.changed(n, engines.ShardID{})
	delete(f.nodes, n.id)
	f.order = slices.DeleteFunc(f.order, func(o *node) bool { return o == n })
}

// Why a registration is refused.
var (
	errFull  = errors.New("control: too many nodes")
	errClash = errors.New("control: another agent has the node's id")
)

// register takes a node up, or says why not. The stream that st takes over from
// is to be ended.
func (f *fleet) register(now time.Time, reg *registration, st *stream) (n *node, over *stream, err error) {
	n = f.nodes[reg.id]
	switch {
	case n == nil && len(f.nodes) >= f.cfg.MaxNodes:
		return nil, nil, fmt.Errorf("%w: %d are known, which max_nodes allows; forget those that are gone, or raise it", errFull, len(f.nodes))
	case n == nil:
		n = f.add(reg)
	case n.reg.instance != "" && n.reg.instance != reg.instance && f.silence(n, now) < f.cfg.UnreachableAfter:
		return nil, nil, fmt.Errorf("%w %s: the agent at %s has it and was heard lately, and the one at %s asks for it with a state directory of its own; "+
			"give one of them another id. If the first was replaced by the second, wait %v", errClash, reg.id, orUnknown(n.reg.remote), orUnknown(reg.remote), f.cfg.UnreachableAfter)
	}
	if n.reg.instance != reg.instance || !reg.looks {
		n.weights = nil
	}
	n.hear(f.base, now)
	f.take(n)
	over, n.stream, n.began = n.stream, st, now
	n.reg, n.sequence, n.goodbye = reg.lasting(), 0, ""
	n.addresses.tell(reg.address)
	n.reading, n.strangers = reg.reading, nil
	n.skew = reg.skew(now)
	f.becomes(n, Ready, now)
	f.replaceShards(n, reg.shards)
	f.changed(n, engines.ShardID{})
	return n, over, nil
}

func orUnknown(address string) string {
	if address == "" {
		return "an address that is not known"
	}
	return address
}

// replaceShards makes the table what a registration says.
func (f *fleet) replaceShards(n *node, now []engines.ShardStatus) {
	for _, s := range n.shards {
		f.changed(n, s.ID)
	}
	n.shards, n.told, n.spoken = slices.Clone(now), false, make([]uint64, len(now))
	slices.SortFunc(n.shards, func(a, b engines.ShardStatus) int { return compareIDs(a.ID, b.ID) })
	n.addresses.strange = nil
	for i, s := range n.shards {
		n.shards[i], n.spoken[i] = n.owned(s), n.beats
		f.changed(n, s.ID)
	}
}

// ended notes that a stream has ended, if it is the node's newest.
func (f *fleet) ended(n *node, st *stream) {
	if n.stream == st {
		n.stream = nil
		f.changed(n, engines.ShardID{})
	}
}

// returned makes a node ready that is heard again on its stream.
func (f *fleet) returned(n *node, now time.Time) (from State) {
	from = n.state
	f.take(n)
	f.becomes(n, Ready, now)
	return from
}

func (f *fleet) becomes(n *node, s State, now time.Time) {
	if n.state == s {
		return
	}
	n.state, n.since = s, now
	f.changed(n, engines.ShardID{})
}

func (f *fleet) changed(n *node, id engines.ShardID) {
	f.changes = append(f.changes, change{n.id, id})
}

func (n *node) find(id engines.ShardID) (int, bool) {
	return slices.BinarySearchFunc(n.shards, id, func(s engines.ShardStatus, id engines.ShardID) int { return compareIDs(s.ID, id) })
}

// status enters a status if it is newer than what is known of the shard. It
// reports false if there is no room for a further shard.
func (f *fleet) status(n *node, s engines.ShardStatus) bool {
	i, found := n.find(s.ID)
	switch {
	case !found && len(n.shards) >= f.cfg.MaxShardsPerNode:
		return false
	case !found:
		n.shards, n.spoken = slices.Insert(n.own(), i, n.owned(s)), slices.Insert(n.spoken, i, n.beats)
	case !newer(s.Generation, s.Revision, n.shards[i]):
		return true
	default:
		n.own()[i], n.spoken[i] = n.owned(s), n.beats
	}
	f.changed(n, s.ID)
	return true
}

func newer(generation, revision uint64, than engines.ShardStatus) bool {
	return generation > than.Generation || generation == than.Generation && revision > than.Revision
}

// mostResend bounds the statuses that one beat asks for: the next asks for the
// others.
const mostResend = 64

// heartbeat enters what a heartbeat says, and returns the shards of which the
// status is to be sent again. One that is older than another of the stream says
// nothing but that the node lives.
func (f *fleet) heartbeat(n *node, sequence uint64, reading engines.NodeState, strangers []PortHeld, briefs []convert.Brief) (resend []string) {
	if sequence <= n.sequence {
		return nil
	}
	n.sequence, n.reading, n.strangers = sequence, reading, strangers
	n.beats++
	for _, b := range briefs {
		i, found := n.find(b.ID)
		if found {
			n.brief(i, b)
		}
		var wanted bool
		if found {
			wanted = newer(b.Generation, b.Revision, n.shards[i])
		} else {
			wanted = len(n.shards) < f.cfg.MaxShardsPerNode && engines.ValidID(b.ID.Replica) == nil
		}
		if wanted && len(resend) < mostResend {
			resend = append(resend, b.ID.String())
		}
	}
	f.forgetMissing(n)
	return resend
}

// forgetMissing drops the shards that the agent speaks of no more.
func (f *fleet) forgetMissing(n *node) {
	missing := func(beat uint64) bool { return n.beats-beat >= mostMissed }
	if !slices.ContainsFunc(n.spoken, missing) {
		return
	}
	left := make([]engines.ShardStatus, 0, len(n.shards))
	for i, s := range n.shards {
		if missing(n.spoken[i]) {
			delete(n.addresses.strange, s.ID)
			f.changed(n, s.ID)
		} else {
			left = append(left, s)
		}
	}
	n.shards, n.told, n.spoken = left, false, slices.DeleteFunc(n.spoken, missing)
}

// brief enters what a heartbeat says of a shard of which the status is known.
func (n *node) brief(i int, b convert.Brief) {
	n.spoken[i] = n.beats
	s := n.shards[i]
	if s.Generation != b.Generation || s.Revision != b.Revision {
		return
	}
	if optional(s.Running) != b.Running || optional(s.Waiting) != b.Waiting {
		own := &n.own()[i]
		own.Running, own.Waiting = pointer(b.Running), pointer(b.Waiting)
	}
}

func optional(n *int) engines.Opt[int] {
	if n == nil {
		return engines.Opt[int]{}
	}
	return engines.Known(*n)
}

func pointer(o engines.Opt[int]) *int {
	if n, known := o.Get(); known {
		return &n
	}
	return nil
}

// transition is a node whose silence has come to mean something else.
type transition struct {
	node     *node
	from, to State
	silence  time.Duration
}

// step judges the silence of every node, once a tick. It returns which nodes
// changed, and how much time was this process's own stall.
func (f *fleet) step(now time.Time) (changed []transition, stalled time.Duration) {
	for _, n := range f.order {
		f.take(n)
	}
	judge, stalled := f.clock.step(f.since(now))
	for _, n := range f.order {
		silence := judge - n.counted
		to := f.judge(n, silence)
		if to == n.state {
			continue
		}
		changed = append(changed, transition{n, n.state, to, silence})
		f.becomes(n, to, now)
	}
	return changed, stalled
}

func (f *fleet) judge(n *node, silence time.Duration) State {
	switch {
	case silence >= f.cfg.LostAfter:
		return Lost
	case n.state == Expected:
		return Expected
	case silence >= f.cfg.UnreachableAfter:
		return Unreachable
	case n.state == Unreachable || n.state == Lost:
		return n.state // until it is heard: see returned
	}
	return Ready
}

// heardAt returns when the node was last heard, by the clock on the wall as it is
// now; the zero time if it never was.
func (f *fleet) heardAt(n *node, now time.Time) time.Time {
	h := n.heard.Load()
	if h == 0 {
		return time.Time{}
	}
	return now.Round(0).Add(-max(f.since(now)-time.Duration(h-1), 0))
}

// snapshot returns what is known of a node.
func (f *fleet) snapshot(n *node, now time.Time) Node {
	n.told = true
	return Node{
		ID: n.id, State: n.state, Since: n.since, Heard: f.heardAt(n, now),
		Connected: n.stream != nil, Remote: n.reg.remote, Registered: n.began, Goodbye: n.goodbye,
		LooksForWeights: n.reg.looks, Weights: n.weights,
		Instance: n.reg.instance, Run: n.reg.run, Boot: n.reg.boot, AgentVersion: n.reg.version,
		Address: n.reg.address, Ports: n.reg.ports, Labels: n.reg.labels, Engines: n.reg.engines,
		Inventory: n.reg.inventory, Reading: n.reading, Strangers: n.strangers, Skew: n.skew,
		Shards: n.shards, Strange: maps.Clone(n.addresses.strange), Tombstones: n.reg.tombstones,
	}
}
