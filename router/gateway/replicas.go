package gateway

import (
	"fmt"
	"net/url"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router/endpoint"
)

// Replica is an endpoint that a control plane started and tells of.
type Replica struct {
	// ID is the replica's; Start names the start of its engine, so that another one
	// at the same address is another endpoint.
	ID, Start  string
	Generation uint64
	// Model is the model's name in the catalog, Served the one that the engine has
	// for it.
	Model, Served string
	// Address is where the engine listens, host:port.
	Address string
	// Secret is what it asks of its callers. Empty: nothing. ChecksSecret: its adapter
	// says that the engine looks at it, so that an answer proves whose it is.
	Secret       string
	ChecksSecret bool
	Engine       engines.Name
	// MaxRunning and PriorityScheduling are as in [endpoint.Spec] and [Endpoint].
	MaxRunning         int
	PriorityScheduling bool
	// Capabilities and Metrics are what its adapter says of the engine. They count
	// where the gateway does not know the engine by itself. Metrics is shared and not
	// changed; nil: its load cannot be read.
	Capabilities engines.Capabilities
	Metrics      *engines.MetricContract
}

// SetReplicas replaces all replicas. Those of models that are not declared are
// left out until they are. One that stays as it was keeps its connections, counters
// and breaker. On error nothing has changed.
func (g *Gateway) SetReplicas(replicas []Replica) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range replicas {
		if err := replicas[i].spec().Validate(); err != nil {
			return fmt.Errorf("gateway: replica %q: %w", replicas[i].ID, err)
		}
	}
	return g.replace(g.listed, g.declared, replicas)
}

// replicaSpecs are the endpoints of those replicas whose models are declared.
func replicaSpecs(declared []catalog.Model, replicas []Replica) []endpoint.Spec {
	names := make(map[string]bool, len(declared))
	for i := range declared {
		names[declared[i].Name] = true
	}
	var specs []endpoint.Spec
	for i := range replicas {
		if names[replicas[i].Model] {
			specs = append(specs, replicas[i].spec())
		}
	}
	return specs
}

func (r *Replica) spec() endpoint.Spec {
	s := endpoint.Spec{
		ID: r.ID, Start: r.Start, URL: (&url.URL{Scheme: "http", Host: r.Address}).String(), Engine: r.Engine, MaxRunning: r.MaxRunning,
		Models: []endpoint.Model{{Name: r.Model, Upstream: r.Served}}, Secret: endpoint.Secret(r.Secret),
		Unproven: r.Secret != "" && !r.ChecksSecret,
	}
	can, is := native(r.Engine)
	if !is {
		can = r.Capabilities
	}
	if r.PriorityScheduling && (is || can.PriorityField == priorityField) {
		s.PriorityOrder = can.PriorityOrder
	}
	if told := r.told(is); told != (endpoint.Told{}) {
		s.Told = &told
	}
	return s
}

// priorityField is the field in which a request's priority goes along.
const priorityField = "priority"

// told is what the replica's adapter says, as far as it counts.
func (r *Replica) told(native bool) endpoint.Told {
	told := endpoint.Told{Metrics: r.Metrics}
	if !native {
		told.Capabilities = r.Capabilities
	}
	return told
}
