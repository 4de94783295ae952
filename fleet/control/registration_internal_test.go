package control

import (
	"slices"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
	"github.com/llmgw/llmgw/fleet/internal/convert"
)

// Text for people is cut, so that a table of many shards stays small.
func TestLongTextIsCut(t *testing.T) {
	s, err := statusOf(&fleetpb.ShardStatus{Replica: "r", Reason: strings.Repeat("ä", mostText), Exit: "exit status 1"})
	if err != nil || len(s.Reason) > mostText+len("…") || !strings.HasSuffix(s.Reason, "ä…") || s.Exit != "exit status 1" {
		t.Errorf("reason of %d bytes, %q, %v", len(s.Reason), s.Exit, err)
	}
	var lines []string
	for range 100 {
		lines = append(lines, strings.Repeat("x", 1000))
	}
	lines[99] = "the last"
	got := lastLines(lines)
	if len(got) != 33 || got[32] != "the last" {
		t.Errorf("%d lines are left, the last %q", len(got), got[len(got)-1])
	}
	if short := []string{"a", "b"}; !slices.Equal(lastLines(short), short) {
		t.Error("short output was cut")
	}
	if got := lastLines([]string{strings.Repeat("x", mostLines+1)}); len(got) != 0 {
		t.Errorf("a line that is too long is kept: %d", len(got))
	}
	for _, m := range []*fleetpb.ShardStatus{{Replica: "r", Address: strings.Repeat("x", mostName+1)}, {Replica: "r", Ports: ports(mostLabels + 1)}} {
		if _, err := statusOf(m); err == nil {
			t.Errorf("taken: %v", m.GetReplica())
		}
	}
}

func ports(n int) map[string]uint32 {
	out := map[string]uint32{}
	for i := range n {
		out[strings.Repeat("p", i+1)] = 1
	}
	return out
}

func TestStrangersAreBounded(t *testing.T) {
	list := make([]*fleetpb.PortHeld, mostStrangers+1)
	for i := range list {
		list[i] = new(fleetpb.PortHeld)
	}
	if got := strangersOf(list); len(got) != mostStrangers {
		t.Errorf("%d are kept", len(got))
	}
	if strangersOf(nil) != nil {
		t.Error("nobody is somebody")
	}
}

// What a brief names that cannot be is not asked for.
func TestBriefsThatCannotBe(t *testing.T) {
	f, n := oneNode(t, start())
	if got := f.heartbeat(n, 1, engines.NodeState{}, nil, []convert.Brief{{ID: engines.ShardID{Replica: "a b"}, Generation: 1}}); len(got) != 0 {
		t.Errorf("asks for %q", got)
	}
}
