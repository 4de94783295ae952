package reconcile

import (
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement"
)

// Where nothing is placed nobody is asked who uses what runs; where a model is to run
// it is asked of every stray.
func TestStrayRefs(t *testing.T) {
	c, err := NewCore(DefaultConfig(), CoreDeps{NewID: func(string) string { return "r" }})
	if err != nil {
		t.Fatal(err)
	}
	c.Step(time.Unix(1, 0), Inputs{Leads: true, Rows: &[]Row{}, Nodes: []Node{{
		Node: placement.Node{ID: "n1", State: placement.Ready, Connected: true}, Reported: true,
		Shards: []engines.ShardStatus{{ID: engines.ShardID{Replica: "other"}, Generation: 1, State: engines.ShardReady, Start: "s"}},
	}}})
	if refs := c.strayRefs(); c.strays != 1 || len(refs) != 0 {
		t.Errorf("%d strays, %+v; want that nobody is asked", c.strays, refs)
	}
	c.models = append(c.models, &model{name: "m", fingerprint: "f"})
	if refs := c.strayRefs(); len(refs) != 1 || refs[0] != (Ref{Replica: "other", Generation: 1, Start: "s"}) {
		t.Errorf("%+v; want the stray", refs)
	}
}
