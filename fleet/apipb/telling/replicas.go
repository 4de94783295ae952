package telling

import (
	"fmt"
	"strings"

	"github.com/llmgw/llmgw/fleet/apipb"
)

// ReplicaTrouble is why a replica is not simply ready or on its way, after a colon; "":
// nothing says so.
func ReplicaTrouble(reason, held, leaving string) string {
	if held != "" {
		held = "it would be taken down, but works all the same: " + held
	}
	if leaving != "" {
		leaving = "it is to be replaced: " + leaving
	}
	if text := OrText([]string{reason, held, leaving}, ""); text != "" {
		return ": " + text
	}
	return ""
}

// ReplicaState is a replica's state in a word.
func ReplicaState(s apipb.ReplicaState) string {
	if s == apipb.ReplicaState_REPLICA_STATE_UNSPECIFIED {
		return "in a state that is not known"
	}
	return strings.ToLower(strings.TrimPrefix(s.String(), "REPLICA_STATE_"))
}

// ReplicaTroubles are what a person should know of a replica and its shards.
func ReplicaTroubles(r *apipb.Replica) []string {
	var out []string
	if text := ReplicaTrouble(r.GetReason(), r.GetHeld(), r.GetLeaving()); text != "" {
		out = append(out, r.GetId()+text)
	}
	for rank, s := range r.GetShards() {
		status := s.GetStatus()
		if text := OrText([]string{status.GetReason(), status.GetAdvice()}, ""); text != "" {
			out = append(out, fmt.Sprintf("%s/%d on %s: %s", r.GetId(), rank, s.GetNode(), text))
		}
		for _, line := range status.GetLines() {
			out = append(out, "  | "+line)
		}
		if held := status.GetMemoryHeld(); held != "" {
			out = append(out, fmt.Sprintf("%s/%d on %s: its memory is held: %s", r.GetId(), rank, s.GetNode(), held))
		}
	}
	return out
}

// CardNames are IDs of cards, or how many there are of them if they are long.
func CardNames(ids []string) string {
	const some = 24
	text := strings.Join(ids, ", ")
	if len(ids) > 1 && len(text) > some {
		return fmt.Sprint(len(ids))
	}
	return OrDash(text)
}
