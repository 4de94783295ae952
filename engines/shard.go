package engines

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ShardID names one rank of a replica, whatever its generation.
type ShardID struct {
	// Replica is the replica's id: see [ValidID].
	Replica string
	// Rank is 0 up to the number of ranks less one; rank 0 leads.
	Rank int
}

// String returns "REPLICA/RANK".
func (id ShardID) String() string { return id.Replica + "/" + strconv.Itoa(id.Rank) }

// ErrID is the class of errors about an id that cannot be one.
var ErrID = errors.New("engines: not an id")

// maxID bounds an id: it becomes part of file names and of a process's name.
const maxID = 63

// ValidID reports what is wrong with the id of a node or a replica: 1 to 63
// letters, digits, dots, dashes and underscores, beginning and ending with a
// letter or digit. Such an id is a file name, a label and a host name's part.
// The error wraps [ErrID].
func ValidID(id string) error {
	if id == "" || len(id) > maxID {
		return fmt.Errorf("%w: %q has %d bytes; want 1 to %d", ErrID, id, len(id), maxID)
	}
	for i := range len(id) {
		c := id[i]
		inner := c == '.' || c == '-' || c == '_'
		if inner && (i == 0 || i == len(id)-1) {
			return fmt.Errorf("%w: %q begins or ends with %q; want a letter or digit", ErrID, id, c)
		}
		if !inner && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return fmt.Errorf("%w: %q has %q; want letters, digits, '.', '-' and '_'", ErrID, id, c)
		}
	}
	return nil
}

// ParseShardID reads what [ShardID.String] wrote. The error wraps [ErrID].
func ParseShardID(s string) (ShardID, error) {
	replica, digits, found := strings.Cut(s, "/")
	rank, err := strconv.Atoi(digits)
	if !found || err != nil || rank < 0 || strconv.Itoa(rank) != digits {
		return ShardID{}, fmt.Errorf("%w: %q; want REPLICA/RANK", ErrID, s)
	}
	if err := ValidID(replica); err != nil {
		return ShardID{}, err
	}
	return ShardID{Replica: replica, Rank: rank}, nil
}

// ShardSpec is the wish for one shard: what a control plane orders of a node.
// Where it leaves something open, the node decides and tells in the
// [ShardStatus].
type ShardSpec struct {
	ID ShardID
	// Generation goes up with every start of the replica that is ordered; a node
	// starts no generation that is lower than one it has heard of.
	Generation uint64
	Profile    Profile
	// Cards are the UUIDs of the shard's cards, in order. Empty: none.
	Cards []string
	// Fabric is the name of the fabric between the replica's nodes, by which a
	// node finds its interface and adapters. Empty: the management network.
	Fabric string
	// Leader is the address of rank 0's node, and LeaderPorts the first port of
	// each of its needs, by name. Empty for rank 0.
	Leader      string
	LeaderPorts map[string]int
	// Ports has the first port of each [PortNeed] by name. Nil: the node takes
	// them from its range.
	Ports map[string]int
	// Secret is what the engine asks of its callers. Empty: it takes none. It is
	// written to no log.
	Secret string
}

// ShardState is where a shard is in its life.
type ShardState uint8

const (
	// ShardUnset is the zero value and no state.
	ShardUnset ShardState = iota
	// ShardStarting: it was ordered; files are written, sidecars start.
	ShardStarting
	// ShardLoading: the engine runs and is not ready: neither failed nor idle.
	ShardLoading
	// ShardReady: the engine has said that it is ready, and runs.
	ShardReady
	// ShardDraining: it runs, is to get no new request, and finishes what it
	// has.
	ShardDraining
	// ShardStopping: it was asked to end.
	ShardStopping
	// ShardStopped: nothing of it is left, its ports are free, and the memory of
	// its cards was looked at.
	ShardStopped
	// ShardFailed: it will not become ready, or has ended by itself. Parts of it
	// may still hold memory and ports until it is stopped.
	ShardFailed
	// ShardSleeping: the engine runs, has given its cards' memory back but for a rest,
	// and serves nothing until it is woken.
	ShardSleeping
)

// String returns the state in one word, lower case.
func (s ShardState) String() string {
	names := [...]string{"unset", "starting", "loading", "ready", "draining", "stopping", "stopped", "failed", "sleeping"}
	if int(s) < len(names) {
		return names[s]
	}
	return names[0]
}

// Runs reports whether an engine of the shard may be running.
func (s ShardState) Runs() bool {
	return s >= ShardStarting && s <= ShardStopping || s == ShardSleeping
}

// ShardStatus is what a node knows of one shard at one moment.
type ShardStatus struct {
	ID         ShardID
	Generation uint64
	// Revision goes up with each change of the shard while the agent runs. Of
	// two statuses in one session the higher one is the newer.
	Revision uint64
	State    ShardState
	// Since is when State began, by the node's clock.
	Since time.Time
	// Phase is how far the engine has come; unset: it has not said.
	Phase      Phase
	PhaseSince time.Time
	// Start names this start of the engine: another one has another name.
	Start string
	// Command is the hash of the launch. Empty: not launched.
	Command string
	// PID is the engine's process; 0: none.
	PID int
	// Address is where the engine's HTTP server is reached by other nodes,
	// host:port. Empty: the rank serves none, or has no port yet.
	Address string
	// Ports has the first port of each need, by name.
	Ports map[string]int
	// Cards are the UUIDs of its cards. Empty: none, or not known.
	Cards []string
	// Adopted: the agent took the shard up after its own restart.
	Adopted bool
	// Running and Waiting are the requests inside the engine, by its own page.
	// Nil: not known, which is not idle.
	Running, Waiting *int
	// Reason and Advice say for people why the shard is not ready. They may be
	// empty.
	Reason, Advice string
	// Exit is how the engine ended, in words. Empty: it has not, or nobody
	// knows.
	Exit string
	// Lines are the last lines of the engine's output, the newest last, of a
	// shard that failed.
	Lines []string
	// MemoryHeld says who still has memory of the shard's cards after it stopped or
	// fell asleep. Empty: the memory was seen free, or the shard had no cards.
	MemoryHeld string
}
