package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/plugin"
	"github.com/llmgw/llmgw/engines/process"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// prepared is a shard that can be started: everything about it is decided, its
// ports are set aside, and nothing was started.
type prepared struct {
	wish wish
	spec process.Spec
	// missing is why its executable cannot be started; nil: it is there.
	missing *refusal
}

// refusal says that an order is not done, and what to do.
type refusal struct {
	// result is RESULT_REFUSED or RESULT_UNAVAILABLE.
	result         fleetpb.Result
	reason, advice string
}

func (r *refusal) Error() string {
	if r.advice == "" {
		return r.reason
	}
	return r.reason + "; " + r.advice
}

func refused(advice, format string, args ...any) *refusal {
	return &refusal{fleetpb.Result_RESULT_REFUSED, fmt.Sprintf(format, args...), advice}
}

func unavailable(advice, format string, args ...any) *refusal {
	return &refusal{fleetpb.Result_RESULT_UNAVAILABLE, fmt.Sprintf(format, args...), advice}
}

// preparer makes a shard ready to be started. Its adapter is asked first, so that
// a profile that cannot run is refused before anything was touched.
type preparer struct {
	adapters Adapters
	offers   *offers
	ports    *portBook
	facts    func() *facts
	instance string
	dir      func(engines.ShardID) string
}

// prepare decides everything about a shard. What it set aside is given back
// where it fails.
func (p *preparer) prepare(ctx context.Context, s engines.ShardSpec) (prepared, *refusal) {
	executable, why := p.offers.executable(s.Profile)
	if why != nil {
		return prepared{}, why
	}
	adapter, err := p.adapters.Adapter(s.Profile.Engine)
	if err != nil {
		return prepared{}, adapterRefusal(err)
	}
	profile := s.Profile
	profile.Executable = executable
	shape, err := adapter.Validate(ctx, profile)
	if err != nil {
		return prepared{}, adapterRefusal(err)
	}
	if s.ID.Rank >= len(shape.Ranks) {
		return prepared{}, refused("order one of its ranks", "a replica of the profile has %d ranks, and this is rank %d", len(shape.Ranks), s.ID.Rank)
	}
	description, err := adapter.Describe(ctx)
	if err != nil {
		return prepared{}, adapterRefusal(err)
	}
	node := p.facts()
	if node.address == "" { // an engine that is told none would listen on every one
		return prepared{}, unavailable("set address, or mgmt_interface, in the agent's configuration",
			"the node has no address for its engines: %s", cmp.Or(node.noAddress, "the machine was not read yet"))
	}
	cards, before, why := node.cards(s.Cards)
	if why != nil {
		return prepared{}, why
	}
	netInterface, adapters, why := node.network(s.Fabric, len(shape.Ranks))
	if why != nil {
		return prepared{}, why
	}
	rank := shape.Ranks[s.ID.Rank]
	by := owner{s.ID, s.Generation}
	spans, err := p.ports.take(by, rank.Ports, s.Ports)
	if err != nil {
		if pinned, ok := errors.AsType[*pinnedError](err); ok {
			return prepared{}, refused("name others, or none: the node then takes them from its range", "%v", pinned)
		}
		return prepared{}, unavailable("stop what is not needed, or widen port_range", "%v", err)
	}
	dir := p.dir(s.ID)
	shard := engines.Shard{
		Profile: profile, Replica: s.ID.Replica, Generation: s.Generation, Rank: s.ID.Rank,
		Leader: cmp.Or(s.Leader, node.address), Address: node.address, Bind: node.address,
		Interface: netInterface, HCAs: adapters, Cards: cards,
		Ports: firsts(spans), LeaderPorts: s.LeaderPorts, Dir: runDir(dir), Keyed: s.Secret != "",
	}
	if s.ID.Rank == 0 {
		shard.LeaderPorts = shard.Ports
	}
	launch, err := adapter.Launch(ctx, shard)
	if err != nil {
		p.ports.giveUp(by, spans)
		return prepared{}, adapterRefusal(err)
	}
	if s.Profile.Sleep && launch.ServesHTTP && launch.Sleep == nil { // the adapter is of a version that knows nothing of it
		p.ports.giveUp(by, spans)
		return prepared{}, refused("leave sleep out of the profile, or update the adapter", "the engine's adapter does not say how it sleeps")
	}
	w := wish{
		Version: 1, Shard: s.ID.String(), Generation: s.Generation, Engine: s.Profile.Engine, Ordered: time.Now(),
		Process: processID(s.ID, p.instance), Ports: spans, Cards: before,
	}
	if launch.ServesHTTP {
		w.Address = net.JoinHostPort(node.address, strconv.Itoa(spans[engines.PortHTTP].First))
		w.Metrics = description.Metrics
	}
	return prepared{
		wish: w,
		spec: process.Spec{
			ID: w.Process, Generation: s.Generation, Dir: runDir(dir), Launch: launch,
			Secret: secretOf(s.Secret, launch), Address: node.address, Ports: all(spans),
		},
		missing: missingExecutable(s.Profile.Engine, launch),
	}, nil
}

// secretOf returns the secret if the launch has a place for it: a rank that asks
// nobody for one needs none on its disk.
func secretOf(secret string, l engines.Launch) string {
	holds := func(c engines.Command) bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(c.Env)), func(v string) bool { return strings.Contains(v, engines.SecretPlaceholder) })
	}
	if holds(l.Engine) || l.Ready.Probe != nil && l.Ready.Probe.Keyed ||
		slices.ContainsFunc(l.Files, func(f engines.File) bool { return strings.Contains(f.Content, engines.SecretPlaceholder) }) ||
		slices.ContainsFunc(l.Sidecars, func(c engines.Sidecar) bool {
			return holds(c.Command) || c.Ready.Probe != nil && c.Ready.Probe.Keyed
		}) {
		return secret
	}
	return ""
}

// missingExecutable says which executable of a launch is not there.
func missingExecutable(engine engines.Name, l engines.Launch) *refusal {
	commands := []engines.Command{l.Engine}
	for _, c := range l.Sidecars {
		commands = append(commands, c.Command)
	}
	for _, c := range commands {
		if _, err := exec.LookPath(c.Executable); err != nil {
			return refused(fmt.Sprintf("install %s on this node, or say in the agent's configuration where it is: engines.%s", engine, engine),
				"the executable %s is missing: %v", c.Executable, errors.Unwrap(err))
		}
	}
	return nil
}

// adapterRefusal says what an adapter's error means for an order.
func adapterRefusal(err error) *refusal {
	if p, ok := errors.AsType[*engines.ProfileError](err); ok {
		return refused("mend the profile", "%v", p)
	}
	if p, ok := errors.AsType[*plugin.ProgramError](err); ok && !errors.Is(err, engines.ErrUnavailable) {
		return refused(p.Advice, "%v", err)
	}
	return unavailable("the agent starts the adapter anew; try again", "%v", err)
}

// facts are what a node is known to be now. They are never changed.
type facts struct {
	inventory engines.Inventory
	state     engines.NodeState
	// address is where others reach the node, netInterface its interface; empty
	// where that is not known.
	address      string
	netInterface string
	// noAddress is why none was found when it was looked for last; empty: one was.
	noAddress string
	// instead is why the address is not one of the interface that the control plane
	// names; empty: it is, or the node's own configuration says what it is.
	instead string
	// readAt is when the machine was last read, and problem why it could not be
	// read since; empty: it could.
	readAt  time.Time
	problem string
}

// cards returns the cards with the given ids, and what was in use on each.
func (f *facts) cards(ids []string) ([]engines.Card, []cardBefore, *refusal) {
	var cards []engines.Card
	var before []cardBefore
	for _, id := range ids {
		card, ok := f.card(id)
		if !ok {
			return nil, nil, refused("see its inventory: the card may have been lost", "the node has no card %s; it has %s", id, strings.Join(f.cardNames(), ", "))
		}
		if slices.ContainsFunc(before, func(b cardBefore) bool { return b.ID == id }) {
			return nil, nil, refused("name each card once", "the card %s is named twice", id)
		}
		cards = append(cards, card)
		state, _ := f.state.GPU(id)
		before = append(before, cardBefore{ID: id, UsedBytes: state.MemoryUsedBytes})
	}
	return cards, before, nil
}

// card returns a card, or a part of one that is used like a card.
func (f *facts) card(id string) (engines.Card, bool) {
	for _, g := range f.inventory.GPUs {
		if g.ID() == id {
			return engines.Card{Vendor: g.Vendor, Index: g.Index, UUID: g.UUID}, true
		}
		if slices.ContainsFunc(g.Instances, func(m engines.MIGInstance) bool { return m.UUID == id }) {
			return engines.Card{Vendor: g.Vendor, Index: g.Index, UUID: id}, true
		}
	}
	return engines.Card{}, false
}

func (f *facts) cardNames() []string {
	names := []string{}
	for _, g := range f.inventory.GPUs {
		names = append(names, g.ID())
		for _, m := range g.Instances {
			names = append(names, m.UUID)
		}
	}
	if len(names) == 0 {
		return []string{"none"}
	}
	return names
}

// network returns the interface between a replica's nodes and the InfiniBand
// adapters on it. Without a fabric that is the management network.
func (f *facts) network(fabric string, ranks int) (netInterface string, adapters []string, why *refusal) {
	if ranks < 2 {
		return "", nil, nil
	}
	if fabric == "" {
		return f.netInterface, nil, nil
	}
	at := slices.IndexFunc(f.inventory.Fabrics, func(l engines.Fabric) bool { return l.Name == fabric })
	if at < 0 {
		var names []string
		for _, l := range f.inventory.Fabrics {
			names = append(names, l.Name)
		}
		return "", nil, refused("label it in the agent's configuration, under fabrics", "the node is not on fabric %q; it is on %q", fabric, names)
	}
	label := f.inventory.Fabrics[at]
	for _, port := range f.inventory.Ports {
		if !f.leads(port, label) {
			continue
		}
		if !slices.Contains(adapters, port.Device) {
			adapters = append(adapters, port.Device)
		}
		netInterface = cmp.Or(netInterface, port.NetDevice)
	}
	return cmp.Or(netInterface, f.netInterface), adapters, nil
}

// leads reports whether a port is one of a label's, and not known to be down.
func (f *facts) leads(port engines.FabricPort, label engines.Fabric) bool {
	if cmp.Or(port.LinkLayer, engines.InfiniBand) != cmp.Or(label.LinkLayer, engines.InfiniBand) {
		return false
	}
	for _, s := range f.state.Ports {
		if s.Device == port.Device && s.Port == port.Port && s.State != "" && s.State != "ACTIVE" {
			return false
		}
	}
	if len(label.Devices) > 0 {
		return slices.Contains(label.Devices, port.Device)
	}
	return !slices.ContainsFunc(f.inventory.Fabrics, func(other engines.Fabric) bool { return slices.Contains(other.Devices, port.Device) })
}
