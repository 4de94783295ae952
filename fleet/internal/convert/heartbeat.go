package convert

import (
	"fmt"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// Heartbeat is what a heartbeat says.
type Heartbeat struct {
	Sequence uint64
	// At is the agent's clock. Zero: it does not say.
	At time.Time
	// State is never changed: it may be kept.
	State     engines.NodeState
	Shards    []Brief
	Strangers []*fleetpb.PortHeld
}

// Brief is what a heartbeat says of a shard. Its id is as it was sent, and may be
// none.
type Brief struct {
	ID                   engines.ShardID
	Generation, Revision uint64
	Running, Waiting     engines.Opt[int]
}

// HeartbeatFromWire converts a heartbeat.
func HeartbeatFromWire(m *fleetpb.Heartbeat) (*Heartbeat, error) {
	state, err := NodeStateFromWire(m.GetState())
	if err != nil {
		return nil, fmt.Errorf("heartbeat: %w", err)
	}
	at, err := TimeFromWire("heartbeat: at", m.GetAt())
	if err != nil {
		return nil, err
	}
	return &Heartbeat{Sequence: m.GetSequence(), At: at, State: state, Shards: each(m.GetShards(), briefFromWire), Strangers: listOrNil(m.GetStrangers())}, nil
}

func briefFromWire(m *fleetpb.ShardBrief) Brief {
	return Brief{
		ID:         engines.ShardID{Replica: m.GetReplica(), Rank: int(m.GetRank())},
		Generation: m.GetGeneration(),
		Revision:   m.GetRevision(),
		Running:    optCountFromWire(m.Running),
		Waiting:    optCountFromWire(m.Waiting),
	}
}

func optCountFromWire(n *uint32) engines.Opt[int] {
	if n == nil {
		return engines.Opt[int]{}
	}
	return engines.Known(int(*n))
}
