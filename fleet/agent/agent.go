package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/process"
	"github.com/llmgw/llmgw/fleet/fleetpb"
	"github.com/llmgw/llmgw/fleet/internal/convert"
)

// ErrLocked says that another agent has the state directory.
var ErrLocked = errors.New("agent: another agent runs with this state directory")

// lockWait is how long an agent waits for the end of the one before it.
const lockWait = 5 * time.Second

// Adapters hands out engine adapters: a *plugin.Host.
type Adapters interface {
	// Adapter returns the adapter of an engine, or says why there is none. It does
	// not block; the adapter's calls have deadlines of their own.
	Adapter(name engines.Name) (engines.Adapter, error)
}

// Deps are an agent's collaborators.
type Deps struct {
	Hardware Hardware // required
	Adapters Adapters // required
	// Dial opens the connections to control planes. Nil: a net.Dialer does.
	Dial DialFunc
	// DialTLS opens those to https:// ones, handshake included, with h2 agreed.
	// Nil: with the roots of the system, and without a certificate.
	DialTLS DialFunc
	// Certificate says what the node proves itself with, for messages. Nil: with
	// nothing.
	Certificate func() string
	// Version is the program's.
	Version string
	Logger  *slog.Logger // nil discards

	runner    runner       // nil: one that starts processes
	listening func() []int // nil: that of the machine
	held      func(int) (process.Holder, bool)
}

// Agent is the node's side of a fleet. See the package's documentation.
type Agent struct {
	cfg  Config
	deps Deps
	log  *slog.Logger

	// Made by Run, which owns what they run.
	instance string
	runName  string
	boot     string
	oddities []string
	clerk    *clerk
	outbox   *outbox
	sampler  *sampler
	tools    *tools
	offers   *offers
	ports    *portBook
	looker   *looker

	sessions  atomic.Uint64
	revisions atomic.Uint64

	mu     sync.Mutex
	shards map[engines.ShardID]*shard // guarded by mu
	work   sync.WaitGroup
	// life is the context of the shards. Run only.
	life context.Context //nolint:containedctx // the shards' goroutines are begun by orders, and live as long as Run
}

// New returns an agent, or what is wrong with its configuration. It starts
// nothing; call Run.
func New(cfg Config, deps Deps) (*Agent, error) {
	if cfg.Node == "" {
		cfg.Node, _ = os.Hostname()
	}
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	if err := engines.ValidID(cfg.Node); err != nil {
		return nil, fmt.Errorf("agent: node: the machine's host name is none for a node, write one: %w", err)
	}
	if deps.Hardware == nil || deps.Adapters == nil {
		return nil, errors.New("agent: Deps lack Hardware or Adapters")
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.Certificate == nil {
		deps.Certificate = func() string { return "none" }
	}
	if deps.Dial == nil {
		deps.Dial = (&net.Dialer{Timeout: cfg.Reconnect.Timeout, KeepAlive: 15 * time.Second}).DialContext
	}
	if deps.listening == nil {
		deps.listening = func() []int { ports, _ := process.Listening(); return ports }
	}
	if deps.held == nil {
		deps.held = process.PortHolder
	}
	if deps.runner == nil {
		r, err := process.New(cfg.Process, process.Deps{Logger: deps.Logger})
		if err != nil {
			return nil, fmt.Errorf("agent: %w", err)
		}
		deps.runner = processRunner{r}
	}
	a := &Agent{
		cfg: cfg, deps: deps, log: deps.Logger.With("node", cfg.Node), offers: newOffers(cfg.Engines),
		outbox: newOutbox(), shards: make(map[engines.ShardID]*shard), runName: rand.Text(),
	}
	a.looker = newLooker(cfg.Weights, a.log, a.outbox.found)
	var err error
	if a.ports, err = newPortBook(cfg.Ports.over(defaults{}), deps.held, a.log); err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	return a, nil
}

// Run is the agent's life: it takes up what runs, keeps the link to the control
// plane, and does as it is ordered, until ctx is done. Then it says goodbye, lets
// the engines run on, and returns nil. An error says why it could not begin. Call
// it once.
func (a *Agent) Run(ctx context.Context) error {
	lock, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	if len(a.cfg.Engines) == 0 {
		a.log.Warn("the configuration names no engines: this node runs simulated engines and nothing else")
	}
	// What reads and keeps ends after what needs it.
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer stop()
	defer a.work.Wait()
	a.life = ctx

	dir := stateDir{path: a.cfg.StateDir, node: a.cfg.Node, boot: a.boot}
	known, oddities := dir.load()
	a.note(oddities)
	a.sampler = newSampler(a.log, a.deps.Hardware, a.cfg.Address, a.strangers, a.outbox.hardware, a.outbox.reached)
	a.heed(known.Defaults)
	helpers.Go(func() { a.sampler.run(background) })
	a.tools = a.shared()
	adopt := adopter{log: a.log, runner: a.deps.runner, root: filepath.Join(a.cfg.StateDir, shardsName), instance: a.instance}
	lives, err := adopt.adopt(ctx)
	if err != nil {
		return fmt.Errorf("agent: what runs cannot be taken up: %w", err)
	}
	settle(ctx, lives)
	for id, l := range lives {
		known = known.found(id, l.wish.Generation, time.Now())
	}
	a.clerk = newClerk(known, a.log, dir.save, a.cfg.StateTimeout, a.cfg.Keep)
	a.clerk.has, a.clerk.hand, a.clerk.answer, a.clerk.heed = a.presence, a.hand, a.refuse, a.heed
	for id, l := range lives {
		a.takeUp(ctx, id, l, known.Shards[id])
	}
	helpers.Go(func() { a.clerk.run(background) })
	helpers.Go(func() { a.looker.run(background) })
	a.firstReading(ctx)
	l := link{
		log: a.log, cfg: a.cfg.Reconnect, servers: a.cfg.Servers, node: a.cfg.Node,
		dial: a.deps.Dial, dialTLS: a.deps.DialTLS, certificate: a.deps.Certificate, begin: a.session,
	}
	l.run(ctx)
	return nil
}

// open makes the state directory this agent's own.
func (a *Agent) open(ctx context.Context) (lock *os.File, err error) {
	if a.boot, err = process.BootID(); err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(a.cfg.StateDir, shardsName), 0o700); err != nil {
		return nil, fmt.Errorf("agent: state_dir: %w", err)
	}
	if err := os.Chmod(a.cfg.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("agent: state_dir: it is another user's: %w", err)
	}
	for deadline := time.Now().Add(lockWait); ; {
		lock, err = lockDir(a.cfg.StateDir)
		if err == nil || !errors.Is(err, ErrLocked) || time.Now().After(deadline) {
			break
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("agent: state_dir: %w", err)
	}
	if a.instance, err = instanceOf(a.cfg.StateDir); err != nil {
		return nil, errors.Join(fmt.Errorf("agent: state_dir: %w", err), lock.Close())
	}
	return lock, nil
}

// instanceOf returns the name of the state directory, and makes one up where
// there is none.
func instanceOf(dir string) (string, error) {
	path := filepath.Join(dir, instanceName)
	data, err := readBounded(path)
	if name := strings.TrimSpace(string(data)); err == nil && len(name) >= 16 && engines.ValidID(name) == nil {
		return name, nil
	}
	name := rand.Text()
	return name, replaceFile(path, []byte(name+"\n"))
}

// note says what was not as it should be, and keeps it for the control plane.
func (a *Agent) note(oddities []string) {
	a.oddities = oddities
	for _, o := range oddities {
		a.log.Warn("state: " + o)
	}
}

// firstReading waits until the hardware was read once, so that the node does not
// register without it; a driver that hangs does not keep it from registering.
func (a *Agent) firstReading(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout+time.Second)
	defer cancel()
	if !a.sampler.facts().read() {
		a.sampler.fresh(ctx, true)
	}
}

func (a *Agent) strangers() []process.Holder { return a.ports.strangers(a.deps.listening) }

// heed goes by what the control plane says of what the configuration leaves open.
func (a *Agent) heed(d defaults) {
	a.sampler.prefer(d.Interface)
	if to := a.cfg.Ports.over(d); a.ports.move(to) {
		a.log.Info("engines get ports of another range from now on; those that run keep theirs", "first", to.First, "last", to.Last)
		a.outbox.reached()
	}
}

// shared are the tools of the agent's shards.
func (a *Agent) shared() *tools {
	dir := func(id engines.ShardID) string { return filepath.Join(a.cfg.StateDir, shardsName, dirName(id)) }
	p := &preparer{
		adapters: a.deps.Adapters, offers: a.offers, ports: a.ports, facts: a.sampler.facts, instance: a.instance, dir: dir,
	}
	return &tools{
		cfg: a.cfg, runner: a.deps.runner, prepare: p.prepare, ports: a.ports, load: newLoads().read, dir: dir,
		memory: func(ctx context.Context, w wish) string {
			fresh := func(ctx context.Context) *facts { return a.sampler.fresh(ctx, false) }
			return freed(ctx, w, a.cfg.MemoryTimeout, fresh, func(card string) bool { return a.sharesCard(w, card) })
		},
		rested: func(ctx context.Context, w wish) (string, bool) {
			fresh := func(ctx context.Context) *facts { return a.sampler.fresh(ctx, false) }
			return rested(ctx, w, a.cfg.MemoryTimeout, fresh, func(card string) bool { return a.sharesCard(w, card) })
		},
		revision: func() uint64 { return a.revisions.Add(1) },
		changed:  a.outbox.changed, answer: a.answer, drop: a.drop,
	}
}

// sharesCard reports whether another shard uses a card of the wish's shard.
func (a *Agent) sharesCard(w wish, card string) bool {
	for _, s := range a.all() {
		if s.id.String() != w.Shard && s.uses(card) {
			return true
		}
	}
	return false
}

// Owns reports whether a process is one of the agent's shards' own; its children are
// known by it. It may be called at any time, and does not block.
func (a *Agent) Owns(pid int) bool {
	return slices.ContainsFunc(a.all(), func(s *shard) bool { return s.owns(pid) })
}

// all returns the shards, by id.
func (a *Agent) all() []*shard {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]*shard, 0, len(a.shards))
	for _, s := range a.shards {
		out = append(out, s)
	}
	slices.SortFunc(out, func(x, y *shard) int { return strings.Compare(x.id.String(), y.id.String()) })
	return out
}

func (a *Agent) shard(id engines.ShardID) *shard {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.shards[id]
}

// takeUp begins to look after what was found of a shard, as it was last ordered.
func (a *Agent) takeUp(ctx context.Context, id engines.ShardID, l *life, last heard) {
	s := newShard(id, a.tools, a.log)
	if last.Generation == l.wish.Generation {
		l.draining = last.Draining
		l.sleep.taken(last.Posture)
	}
	// A stop ends what is lower, too.
	if last.Stopped && last.Generation >= l.wish.Generation && !l.stopping {
		l.stop(last.StopBy)
	}
	if l.ended.IsZero() {
		a.ports.claim(owner{id, l.wish.Generation}, l.wish.Ports)
	} else {
		a.ports.rest(l.wish.Ports, l.ended)
	}
	s.life = l
	s.publish()
	a.mu.Lock()
	a.shards[id] = s
	a.mu.Unlock()
	a.work.Go(func() { s.run(ctx) })
}

// presence returns what is here of a shard.
func (a *Agent) presence(id engines.ShardID) presence {
	if s := a.shard(id); s != nil {
		return s.presence()
	}
	return presence{}
}

// hand gives an order that is to be done to its shard.
func (a *Agent) hand(o order) {
	a.mu.Lock()
	s := a.shards[o.Shard]
	if s == nil {
		if o.Kind != orderStart || a.life.Err() != nil {
			a.mu.Unlock()
			a.answer(o, fleetpb.Result_RESULT_ALREADY, "", "", nil)
			return
		}
		s = newShard(o.Shard, a.tools, a.log)
		a.shards[o.Shard] = s
		a.work.Go(func() { s.run(a.life) })
	}
	given := s.give(o)
	a.mu.Unlock()
	if !given {
		a.refuse(o, fleetpb.Result_RESULT_UNAVAILABLE, "too many orders wait for this shard", "wait until those are answered")
	}
}

// drop takes a shard of which nothing is left out of the list, unless an order is
// on its way to it.
func (a *Agent) drop(s *shard) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(s.orders) > 0 {
		return false
	}
	delete(a.shards, s.id)
	return true
}

// answer answers an order to the session that gave it.
func (a *Agent) answer(o order, result fleetpb.Result, reason, advice string, status *engines.ShardStatus) {
	a.outbox.answered(o.session, answerOf(o, result, reason, advice, a.clerk.knows(), status))
}

// refuse answers an order that did not come as far as its shard.
func (a *Agent) refuse(o order, result fleetpb.Result, reason, advice string) {
	var status *engines.ShardStatus
	if st, ok := a.report(o.Shard); ok {
		status = &st
	}
	a.answer(o, result, reason, advice, status)
}

func (a *Agent) report(id engines.ShardID) (engines.ShardStatus, bool) {
	if s := a.shard(id); s != nil {
		return s.report()
	}
	return engines.ShardStatus{}, false
}

// reports returns the statuses of all shards, by id.
func (a *Agent) reports() []engines.ShardStatus {
	var out []engines.ShardStatus
	for _, s := range a.all() {
		if st, ok := s.report(); ok {
			out = append(out, st)
		}
	}
	return out
}

// session makes the agent's part of a new stream.
func (a *Agent) session(context.Context) *session {
	number := a.sessions.Add(1)
	a.outbox.open(number)
	return &session{
		log: a.log, number: number, outbox: a.outbox, welcomed: make(chan time.Duration, 1),
		hello: a.hello, beat: a.beat, status: a.report, join: a.clerk.join, answer: a.refuse, paced: a.sampler.pace,
		inventory: func() *fleetpb.Inventory { return convert.InventoryToWire(&a.sampler.facts().inventory) },
		reach:     a.reach,
		order:     a.clerk.take,
		look:      a.looker.ask,
	}
}

// helloTimeout bounds how long a new reading of the hardware may hold up a
// registration; what was known is told then.
const helloTimeout = 3 * time.Second

// hello registers the node with all that it has.
func (a *Agent) hello(ctx context.Context) *fleetpb.Hello {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	node := a.sampler.facts()
	if a.sessions.Load() > 1 || !node.read() { // the first was read a moment ago
		node = a.sampler.fresh(ctx, true)
	}
	known, shards := a.clerk.knows(), a.reports()
	first, last := a.ports.span()
	h := &fleetpb.Hello{
		ProtocolLeast: protocolLeast, ProtocolMost: protocolMost,
		Node: a.cfg.Node, Instance: a.instance, Run: a.runName, AgentVersion: a.deps.Version, Boot: a.boot,
		Term: known.Term, At: now(), Address: node.address,
		PortFirst: uint32(first), PortLast: uint32(last), //nolint:gosec // ports
		Engines:    a.offers.messages(),
		Inventory:  convert.InventoryToWire(&node.inventory),
		State:      convert.NodeStateToWire(a.state(node)),
		Shards:     statusesOf(shards),
		Labels:     a.cfg.Labels,
		Tombstones: tombstonesOf(known, shards),

		LooksForWeights: len(a.cfg.Weights.Dirs) > 0,
	}
	if known.Cluster != "" {
		h.Cluster = &known.Cluster
	}
	return h
}

// reach says where engines are reached that are started from now on.
func (a *Agent) reach() *fleetpb.Reach {
	first, last := a.ports.span()
	return &fleetpb.Reach{
		Address: a.sampler.facts().address,
		Ports:   &fleetpb.PortRange{First: uint32(first), Last: uint32(last)}, //nolint:gosec // ports
	}
}

// beat is a heartbeat: what is known, and nothing that would have to be asked.
func (a *Agent) beat(sequence uint64) *fleetpb.Heartbeat {
	h := &fleetpb.Heartbeat{Sequence: sequence, At: now(), State: convert.NodeStateToWire(a.state(a.sampler.facts()))}
	for _, st := range a.reports() {
		h.Shards = append(h.Shards, convert.BriefToWire(st))
	}
	for _, p := range a.sampler.held() {
		held := &fleetpb.PortHeld{Port: uint32(p.Port), Command: p.Command} //nolint:gosec // a port
		if p.PID > 0 {
			held.Pid = new(int32(p.PID)) //nolint:gosec // Linux gives none above 4 million
		}
		h.Strangers = append(h.Strangers, held)
	}
	return h
}

// state is the node's state with what the agent itself has to say.
func (a *Agent) state(node *facts) engines.NodeState {
	state := node.state
	state.Problems = slices.Clone(state.Problems)
	problem := func(part, text, advice string) {
		state.Problems = append(state.Problems, engines.Warning{Part: part, Problem: text, Advice: advice})
	}
	if node.problem != "" {
		age := time.Since(node.readAt).Round(time.Second)
		if node.read() {
			state.GPUsAge += age
			state.PortsAge += age
		}
		problem("hardware", node.problem, "see whether the cards' driver answers")
	}
	if node.noAddress != "" {
		problem("network", node.noAddress, "set address, or mgmt_interface, in the agent's configuration")
	}
	if node.instead != "" {
		problem("network", node.instead, "set mgmt_interface in the agent's configuration to one of this node's interfaces")
	}
	if why := a.clerk.unable(); why != "" {
		problem("state", "orders cannot be kept and are not done: "+why, "make room on, or mend, the disk of the agent's state directory")
	}
	for _, o := range a.oddities {
		problem("state", o, "")
	}
	return state
}
