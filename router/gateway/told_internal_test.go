package gateway

import (
	"testing"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/router/endpoint"
)

// What the gateway knows of an engine by itself goes before what an adapter says, and
// a priority is sent only where the engine reads it where it stands.
func TestWhoseWordCounts(t *testing.T) {
	told := engines.Capabilities{ContinuousUsage: true, PriorityField: "priority", PriorityOrder: engines.PriorityHighFirst}
	elsewhere := told
	elsewhere.PriorityField = "rank"
	for _, tt := range []struct {
		name   string
		engine engines.Name
		said   engines.Capabilities
		order  engines.PriorityOrder
		counts bool
	}{
		{"a stranger's", "mystery", told, engines.PriorityHighFirst, true},
		{"a stranger's, in another field", "mystery", elsewhere, engines.PriorityUnset, true},
		{"one that the gateway knows", engines.VLLM, told, engines.PriorityLowFirst, false},
	} {
		r := Replica{ID: "m-1", Model: "m", Address: "h:1", Engine: tt.engine, PriorityScheduling: true, Capabilities: tt.said}
		s := r.spec()
		if counts := s.Told != nil && s.Told.Capabilities == tt.said; s.PriorityOrder != tt.order || counts != tt.counts {
			t.Errorf("%s: %v, and it counts: %t", tt.name, s.PriorityOrder, counts)
		}
	}
}

// What a stranger's engine usually runs is assumed of it, too; and being told the same
// again makes it no other endpoint.
func TestUsualOfAStranger(t *testing.T) {
	g := newTestGateway(t)
	replica := func() []Replica {
		return []Replica{{
			ID: "x", Model: "m", Address: "h:1", Engine: "mystery", Metrics: &engines.MetricContract{
				Engine: "mystery", Path: "/load", Prefix: "mystery_", UsuallyRuns: 7,
				Running: engines.Metric{Names: []string{"mystery_busy"}, Aggregate: engines.AggregateSum},
			},
		}}
	}
	find := func() *endpoint.Endpoint {
		for _, e := range g.endpoints.Snapshot().All() {
			if e.ID() == "x" {
				return e
			}
		}
		t.Fatal("it is not there")
		return nil
	}
	if err := g.SetReplicas(replica()); err != nil {
		t.Fatal(err)
	}
	before := find()
	before.SetLoad(&endpoint.LoadState{Engine: "mystery", Load: engines.Load{Running: engines.Read(1)}})
	if n := assumed(before, usual(g.contracts), "mystery"); n != 7 {
		t.Errorf("%v requests are assumed; want 7", n)
	}
	if err := g.SetReplicas(replica()); err != nil {
		t.Fatal(err)
	}
	if find() != before {
		t.Error("it is another endpoint after the same was told again")
	}
	other := replica()
	other[0].Metrics.Path = "/elsewhere"
	if err := g.SetReplicas(other); err != nil {
		t.Fatal(err)
	}
	if find() == before {
		t.Error("it is the same endpoint, read elsewhere")
	}
	other[0].Metrics.Path = "elsewhere"
	if err := g.SetReplicas(other); err == nil {
		t.Error("a path that is none was taken")
	}
}
