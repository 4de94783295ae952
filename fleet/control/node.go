package control

import (
	"slices"
	"strings"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// State is what a node's silence amounts to.
type State uint8

const (
	_ State = iota // unset
	// Expected: the journal has the node, and it was not heard since this control
	// plane's accession, for less than Config.LostAfter. Nothing is known of it.
	Expected
	// Ready: the node was heard lately. Its stream may have ended since: see
	// Node.Connected.
	Ready
	// Unreachable: it was silent for Config.UnreachableAfter. What runs there runs
	// on, for all that is known.
	Unreachable
	// Lost: it was silent for Config.LostAfter. Its engines may yet run and serve.
	Lost

	states = int(Lost) + 1
)

// String returns the state in one word.
func (s State) String() string {
	return [...]string{"unset", "expected", "ready", "unreachable", "lost"}[s]
}

// PortRange is the ports that engines may get, both ends in it.
type PortRange struct {
	First int `json:"first"`
	Last  int `json:"last"`
}

// EngineOffer is an engine that a node can launch.
type EngineOffer struct {
	Engine engines.Name `json:"engine"`
	// Executable is as the node's configuration has it. Empty: the adapter's own.
	Executable string `json:"executable,omitempty"`
	// Problem is why it cannot be launched now. Empty: nothing is known against
	// it.
	Problem string `json:"problem,omitempty"`
}

// PortHeld is a port of a node's range that others than our engines hold.
type PortHeld struct {
	Port int
	// PID is not known where the node cannot see who.
	PID     engines.Opt[int]
	Command string
}

// Node is what is known of a node at one moment. What it refers to is shared and
// must not be changed.
type Node struct {
	ID string
	// State is what its silence amounts to, and Since when that began.
	State State
	Since time.Time
	// Heard is when it was last heard, by this machine's clock. Zero: not since
	// this control plane's accession.
	Heard time.Time
	// Connected: it has a stream, so that orders can be given. Remote is the
	// address from which that comes, or the last one came.
	Connected bool
	Remote    string
	// Registered is when the last stream began. Zero: none has.
	Registered time.Time
	// Goodbye is what the agent said when it ended. Empty: it has not.
	Goodbye string

	// Instance names the agent's state directory, Run its run, Boot the machine's.
	Instance, Run, Boot string
	AgentVersion        string
	// Address is where routers and other nodes reach its engines.
	Address string
	Ports   PortRange
	Labels  map[string]string
	Engines []EngineOffer
	// Inventory is what it has. Its State is empty: Reading has that, and Hardware
	// both. Nil: not known.
	Inventory *engines.Inventory
	// Reading is how its hardware was at the last heartbeat.
	Reading engines.NodeState
	// Strangers are ports of its range that others hold.
	Strangers []PortHeld
	// Skew is how far its clock is ahead of this one's, the way of the message
	// included.
	Skew engines.Opt[time.Duration]
	// Shards are all that it reports, by id, stopped and failed ones included.
	// They are what was last heard, also of a node that is lost.
	Shards []engines.ShardStatus
	// LooksForWeights: its agent looks for weights when it is asked.
	LooksForWeights bool
	// Weights is what it found of weights, by key, as far as it has answered what
	// [Plane.LookFor] asks for. Nil: nothing yet. Another pointer: another answer.
	Weights *Weights
	// Strange are addresses that shards tell and that are none of the node's: it has
	// not told them as its own, and no interface of it has them. The statuses of these
	// shards have no address.
	Strange map[engines.ShardID]string
	// Tombstones are the highest generations that it had heard of when it
	// registered, of shards that it reports no more.
	Tombstones map[engines.ShardID]uint64
}

// Weights is what a node found of weights, by key. It is not changed.
type Weights struct {
	Found map[string]*fleetpb.WeightsFound
}

// Shard returns the status of a shard of the node's.
func (n *Node) Shard(id engines.ShardID) (engines.ShardStatus, bool) {
	i, found := slices.BinarySearchFunc(n.Shards, id, func(s engines.ShardStatus, id engines.ShardID) int { return compareIDs(s.ID, id) })
	if !found {
		return engines.ShardStatus{}, false
	}
	return n.Shards[i], true
}

// Hardware returns the node's inventory with its newest state; nil if it is not
// known. The lists in it are shared.
func (n *Node) Hardware() *engines.Inventory {
	if n.Inventory == nil {
		return nil
	}
	inv := *n.Inventory
	inv.State = n.Reading
	return &inv
}

func compareIDs(a, b engines.ShardID) int {
	if c := strings.Compare(a.Replica, b.Replica); c != 0 {
		return c
	}
	return a.Rank - b.Rank
}
