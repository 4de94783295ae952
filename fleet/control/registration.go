package control

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
	"github.com/llmgw/llmgw/fleet/internal/convert"
)

// protocol is the version that this control plane speaks.
const protocol = 1

// registration is what an agent says of itself when its stream begins. It is
// never changed.
type registration struct {
	id, instance, run, boot string
	version                 string
	cluster                 string // empty: it has heard of none
	term                    uint64
	at                      time.Time
	remote                  string // where the stream comes from
	address                 string
	ports                   PortRange
	labels                  map[string]string
	engines                 []EngineOffer
	inventory               *engines.Inventory
	reading                 engines.NodeState
	shards                  []engines.ShardStatus
	tombstones              map[engines.ShardID]uint64
	looks                   bool // for weights
}

func registrationOf(k Known) *registration {
	return &registration{
		id: k.ID, instance: k.Instance, version: k.AgentVersion, address: k.Address, ports: k.Ports,
		labels: k.Labels, engines: k.Engines, inventory: k.Inventory,
	}
}

// lasting returns the registration without what changes from then on.
func (r *registration) lasting() *registration {
	out := *r
	out.reading, out.shards = engines.NodeState{}, nil
	return &out
}

// known returns what the journal keeps.
func (r *registration) known(heard time.Time) Known {
	return Known{
		ID: r.id, Instance: r.instance, AgentVersion: r.version, Address: r.address, Ports: r.ports,
		Labels: r.labels, Engines: r.engines, Inventory: r.inventory, Heard: heard,
	}
}

func (r *registration) skew(now time.Time) engines.Opt[time.Duration] { return skewOf(r.at, now) }

// skewOf returns how far a node's clock is ahead; not known without its time.
func skewOf(at, now time.Time) engines.Opt[time.Duration] {
	if at.IsZero() {
		return engines.Opt[time.Duration]{}
	}
	return engines.Known(at.Sub(now.Round(0)))
}

// Bounds of what one registration may say, beside that of the message.
const (
	mostName       = 256       // bytes of instance, run, boot, version, cluster and address
	mostLabels     = 128       // and as many engines
	mostLabel      = 1024      // bytes of a label's key and value together
	mostTombstones = 1 << 16   // a node that starts a shard a second keeps them for a day
	mostInventory  = 512 << 10 // bytes
	mostStrangers  = 1 << 10
	mostText       = 4 << 10  // bytes of a status' reason and the like
	mostLines      = 32 << 10 // bytes of a status' last lines of output
)

// errInvalid is the class of errors about a message that says nothing that can
// be.
var errInvalid = errors.New("control: the agent said what cannot be")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errInvalid, fmt.Errorf(format, args...))
}

// register checks a Hello and converts it. The errors wrap errInvalid.
func (c Config) register(m *fleetpb.Hello, remote string) (*registration, error) {
	if err := engines.ValidID(m.GetNode()); err != nil {
		return nil, invalid("node: %w", err)
	}
	if err := checkNames(m); err != nil {
		return nil, err
	}
	at, err := convert.TimeFromWire("at", m.GetAt())
	if err != nil {
		return nil, invalid("%w", err)
	}
	ports, err := portsOf(m.GetPortFirst(), m.GetPortLast())
	if err != nil {
		return nil, err
	}
	inventory, err := inventoryOf(m.GetInventory())
	if err != nil {
		return nil, err
	}
	reading, err := convert.NodeStateFromWire(m.GetState())
	if err != nil {
		return nil, invalid("%w", err)
	}
	shards, err := c.shardsOf(m.GetShards())
	if err != nil {
		return nil, err
	}
	tombstones, err := tombstonesOf(m.GetTombstones())
	if err != nil {
		return nil, err
	}
	return &registration{
		id: m.GetNode(), instance: m.GetInstance(), run: m.GetRun(), boot: m.GetBoot(), version: m.GetAgentVersion(),
		cluster: m.GetCluster(), term: m.GetTerm(), at: at, remote: remote, address: m.GetAddress(),
		ports: ports, labels: m.GetLabels(), engines: offersOf(m.GetEngines()),
		inventory: inventory, reading: reading, shards: shards, tombstones: tombstones, looks: m.GetLooksForWeights(),
	}, nil
}

func checkNames(m *fleetpb.Hello) error {
	if m.GetInstance() == "" || m.GetRun() == "" {
		return invalid("instance %q, run %q; want a random name each", m.GetInstance(), m.GetRun())
	}
	for field, text := range map[string]string{
		"instance": m.GetInstance(), "run": m.GetRun(), "boot": m.GetBoot(), "agent_version": m.GetAgentVersion(),
		"cluster": m.GetCluster(), "address": m.GetAddress(),
	} {
		if len(text) > mostName {
			return invalid("%s has %d bytes; want at most %d", field, len(text), mostName)
		}
	}
	if len(m.GetLabels()) > mostLabels || len(m.GetEngines()) > mostLabels {
		return invalid("%d labels and %d engines; want at most %d each", len(m.GetLabels()), len(m.GetEngines()), mostLabels)
	}
	for key, value := range m.GetLabels() {
		if len(key)+len(value) > mostLabel {
			return invalid("label %.64q has %d bytes; want at most %d", key, len(key)+len(value), mostLabel)
		}
	}
	return nil
}

func portsOf(first, last uint32) (PortRange, error) {
	if first < 1 || last < first || last > 65535 {
		return PortRange{}, invalid("port_first %d, port_last %d; want 1 to 65535 in order", first, last)
	}
	return PortRange{First: int(first), Last: int(last)}, nil
}

func inventoryOf(m *fleetpb.Inventory) (*engines.Inventory, error) {
	if n := proto.Size(m); n > mostInventory {
		return nil, invalid("the inventory has %d bytes; want at most %d", n, mostInventory)
	}
	inv, err := convert.InventoryFromWire(m)
	if err != nil {
		return nil, invalid("%w", err)
	}
	return inv, nil
}

func offersOf(list []*fleetpb.EngineOffer) []EngineOffer {
	out := make([]EngineOffer, len(list))
	for i, m := range list {
		out[i] = EngineOffer{Engine: engines.Name(m.GetEngine()), Executable: m.GetExecutable(), Problem: m.GetProblem()}
	}
	return out
}

func (c Config) shardsOf(list []*fleetpb.ShardStatus) ([]engines.ShardStatus, error) {
	if len(list) > c.MaxShardsPerNode {
		return nil, invalid("%d shards; want at most %d (max_shards_per_node)", len(list), c.MaxShardsPerNode)
	}
	out := make([]engines.ShardStatus, len(list))
	seen := make(map[engines.ShardID]bool, len(list))
	for i, m := range list {
		s, err := statusOf(m)
		if err != nil {
			return nil, err
		}
		if seen[s.ID] {
			return nil, invalid("shard %v is there twice", s.ID)
		}
		seen[s.ID] = true
		out[i] = s
	}
	return out, nil
}

// statusOf converts a status. What is long in it is cut: it is for people.
func statusOf(m *fleetpb.ShardStatus) (engines.ShardStatus, error) {
	s, err := convert.StatusFromWire(m)
	if err != nil {
		return engines.ShardStatus{}, invalid("status of %s/%d: %w", m.GetReplica(), m.GetRank(), err)
	}
	for _, name := range []string{s.Start, s.Command, s.Address} {
		if len(name) > mostName {
			return engines.ShardStatus{}, invalid("status of %v: %.64q… has %d bytes; want at most %d", s.ID, name, len(name), mostName)
		}
	}
	if len(s.Ports) > mostLabels {
		return engines.ShardStatus{}, invalid("status of %v: %d ports; want at most %d", s.ID, len(s.Ports), mostLabels)
	}
	for _, text := range []*string{&s.Reason, &s.Advice, &s.Exit, &s.MemoryHeld} {
		*text = cut(*text)
	}
	s.Lines = lastLines(s.Lines)
	return s, nil
}

func cut(text string) string {
	if len(text) <= mostText {
		return text
	}
	return strings.ToValidUTF8(text[:mostText], "") + "…"
}

// lastLines returns the newest lines that there is room for.
func lastLines(lines []string) []string {
	room := mostLines
	for i := len(lines) - 1; i >= 0; i-- {
		if room -= len(lines[i]) + 1; room < 0 {
			return append([]string(nil), lines[i+1:]...)
		}
	}
	return lines
}

func tombstonesOf(list []*fleetpb.Tombstone) (map[engines.ShardID]uint64, error) {
	if len(list) > mostTombstones {
		return nil, invalid("%d tombstones; want at most %d", len(list), mostTombstones)
	}
	out := make(map[engines.ShardID]uint64, len(list))
	for _, m := range list {
		id, err := convert.ShardIDFromWire(m.GetReplica(), m.GetRank())
		if err != nil {
			return nil, invalid("tombstone: %w", err)
		}
		out[id] = max(out[id], m.GetGeneration())
	}
	return out, nil
}

func strangersOf(list []*fleetpb.PortHeld) []PortHeld {
	if len(list) == 0 {
		return nil
	}
	out := make([]PortHeld, min(len(list), mostStrangers))
	for i := range out {
		m := list[i]
		out[i] = PortHeld{Port: int(m.GetPort()), Command: cut(m.GetCommand())}
		if m.Pid != nil {
			out[i].PID = engines.Known(int(*m.Pid))
		}
	}
	return out
}
