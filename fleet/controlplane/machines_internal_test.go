package controlplane

import (
	"testing"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/control"
)

// What is taken of a node's ports is what lies in its range: shards that run have kept
// theirs when it became another one.
func TestPortsTaken(t *testing.T) {
	n := &control.Node{
		Ports:     control.PortRange{First: 30000, Last: 30009},
		Strangers: []control.PortHeld{{Port: 30001}},
		Shards: []engines.ShardStatus{
			{State: engines.ShardReady, Ports: map[string]int{"http": 20000, "events": 29999}},
			{State: engines.ShardReady, Ports: map[string]int{"http": 30000, "events": 30009, "rpc": 30010}},
			{State: engines.ShardStopped, Ports: map[string]int{"http": 30002}},
		},
	}
	if got := portsTaken(n); got != 3 {
		t.Errorf("%d ports are taken; want 3", got)
	}
}
