package agent

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
	"github.com/llmgw/llmgw/fleet/internal/convert"
)

// The versions of the protocol that this agent speaks.
const (
	protocolLeast = 1
	protocolMost  = 1
)

const (
	// statusLineBytes bounds the output that one status carries, and helloLineBytes
	// that of all statuses in a Hello, which must not become larger than a control
	// plane reads.
	statusLineBytes = 32 << 10
	helloLineBytes  = 512 << 10
	// textBytes bounds a reason.
	textBytes = 4 << 10
)

// orderOf reads a command. The error says which part of it cannot be.
func orderOf(session uint64, c *fleetpb.Command) (order, error) {
	o := order{ID: c.GetId(), session: session, Cluster: c.GetCluster(), Term: c.GetTerm()}
	var err error
	switch want := c.GetOrder().(type) {
	case *fleetpb.Command_Start:
		o.Kind = orderStart
		o.Spec, err = convert.SpecFromWire(want.Start)
		o.Shard, o.Generation = o.Spec.ID, o.Spec.Generation
	case *fleetpb.Command_Stop:
		o.Kind, o.Generation, o.Reason = orderStop, want.Stop.GetGeneration(), want.Stop.GetReason()
		if o.Shard, err = convert.ShardIDFromWire(want.Stop.GetReplica(), want.Stop.GetRank()); err == nil {
			o.Drain, err = convert.DurationFromWire("drain", want.Stop.GetDrain())
		}
	case *fleetpb.Command_Drain:
		o.Kind, o.Generation = orderDrain, want.Drain.GetGeneration()
		o.Shard, err = convert.ShardIDFromWire(want.Drain.GetReplica(), want.Drain.GetRank())
	case *fleetpb.Command_Sleep:
		o.Kind, o.Generation = orderSleep, want.Sleep.GetGeneration()
		o.Shard, err = convert.ShardIDFromWire(want.Sleep.GetReplica(), want.Sleep.GetRank())
	case *fleetpb.Command_Wake:
		o.Kind, o.Generation = orderWake, want.Wake.GetGeneration()
		o.Shard, err = convert.ShardIDFromWire(want.Wake.GetReplica(), want.Wake.GetRank())
	default:
		err = errors.New("it orders nothing that this agent knows")
	}
	if err == nil && o.Generation == 0 {
		err = errors.New("generation: is 0; want 1 or more")
	}
	return o, err
}

// answerOf is an answer to an order, with what the agent has heard of.
func answerOf(o order, result fleetpb.Result, reason, advice string, m memory, status *engines.ShardStatus) *fleetpb.Answer {
	a := &fleetpb.Answer{
		Command: o.ID, Result: result, Term: m.Term, Generation: m.Shards[o.Shard].Generation,
		Reason: clip(reason), Advice: clip(advice),
	}
	if status != nil {
		a.Status = statusOf(*status, statusLineBytes)
	}
	return a
}

// statusOf is a status as a message with at most so much output, the newest.
func statusOf(s engines.ShardStatus, lineBytes int) *fleetpb.ShardStatus {
	s.Reason, s.Advice = clip(s.Reason), clip(s.Advice)
	s.Lines = newest(s.Lines, lineBytes)
	return convert.StatusToWire(s)
}

// newest returns the last lines that have at most so many bytes together.
func newest(lines []string, bytes int) []string {
	for i, line := range slices.Backward(lines) {
		if bytes -= len(line) + 1; bytes < 0 {
			return lines[i+1:]
		}
	}
	return lines
}

func clip(text string) string {
	if len(text) <= textBytes {
		return text
	}
	return text[:textBytes] + fmt.Sprintf(" … (%d bytes)", len(text))
}

// statusesOf are the statuses of a Hello.
func statusesOf(all []engines.ShardStatus) []*fleetpb.ShardStatus {
	left := helloLineBytes
	out := make([]*fleetpb.ShardStatus, 0, len(all))
	for _, s := range all {
		m := statusOf(s, min(left, statusLineBytes))
		for _, line := range m.GetLines() {
			left -= len(line) + 1
		}
		out = append(out, m)
	}
	return out
}

// tombstonesOf are what was heard of and is not among the shards.
func tombstonesOf(m memory, shards []engines.ShardStatus) []*fleetpb.Tombstone {
	here := make(map[engines.ShardID]uint64, len(shards))
	for _, s := range shards {
		here[s.ID] = s.Generation
	}
	var out []*fleetpb.Tombstone
	for id, h := range m.Shards {
		if h.Generation > here[id] {
			out = append(out, &fleetpb.Tombstone{Replica: id.Replica, Rank: convert.Rank(id), Generation: h.Generation})
		}
	}
	return out
}

// now is the agent's clock.
func now() *timestamppb.Timestamp { return timestamppb.New(time.Now()) }
