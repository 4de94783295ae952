package dump

import (
	"encoding/json"
	"fmt"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/rows"
)

// Term is the last term.
type Term struct {
	Cluster string `json:"cluster"`
	Number  uint64 `json:"number"`
	Holder  string `json:"holder,omitempty"`
	At      int64  `json:"begun_at"`
}

// FromTerm is t as a line.
func FromTerm(t storage.Term) Record {
	return Record{Term: &Term{t.Cluster, t.Number, t.Holder, t.BegunAt.UnixMicro()}}
}

// Storage is the term, or ErrInvalid.
func (t *Term) Storage() (storage.Term, error) {
	out := storage.Term{Cluster: t.Cluster, Number: t.Number, Holder: t.Holder, BegunAt: rows.FromMicros(t.At)}
	if err := out.Fence().Validate(); err != nil {
		return out, err
	}
	r := storage.TermRequest{Cluster: t.Cluster, Holder: t.Holder, At: out.BegunAt}
	return out, r.Validate()
}

// Node is a node.
type Node struct {
	ID           string            `json:"id"`
	Instance     string            `json:"instance,omitempty"`
	Address      string            `json:"address,omitempty"`
	AgentVersion string            `json:"agent_version,omitempty"`
	Boot         string            `json:"boot,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	Registration json.RawMessage   `json:"registration,omitempty"`
	FirstSeen    int64             `json:"first_seen"`
	LastSeen     int64             `json:"last_seen"`
}

// FromNode is n as a line.
func FromNode(n storage.Node) Record {
	return Record{Node: &Node{
		n.ID, n.Instance, n.Address, n.AgentVersion, n.Boot, n.Labels, n.Registration, n.FirstSeen.UnixMicro(), n.LastSeen.UnixMicro(),
	}}
}

// Storage is the node, or ErrInvalid.
func (n *Node) Storage() (storage.Node, error) {
	out := storage.Node{
		ID: n.ID, Instance: n.Instance, Address: n.Address, AgentVersion: n.AgentVersion, Boot: n.Boot, Labels: n.Labels,
		Registration: n.Registration, FirstSeen: rows.FromMicros(n.FirstSeen), LastSeen: rows.FromMicros(n.LastSeen),
	}
	return out, out.Validate()
}

// Cordon is an operator's word about a node.
type Cordon struct {
	Node   string               `json:"node"`
	Target storage.CordonTarget `json:"target"`
	Reason string               `json:"reason,omitempty"`
	At     int64                `json:"at"`
}

// FromCordon is c as a line.
func FromCordon(c storage.Cordon) Record {
	return Record{Cordon: &Cordon{c.Node, c.Target, c.Reason, c.At.UnixMicro()}}
}

// Storage is the cordon, or ErrInvalid.
func (c *Cordon) Storage() (storage.Cordon, error) {
	out := storage.Cordon{Node: c.Node, Target: c.Target, Reason: c.Reason, At: rows.FromMicros(c.At)}
	return out, out.Validate()
}

// Replica is what was ordered to run.
type Replica struct {
	ID         string                 `json:"id"`
	Model      string                 `json:"model"`
	Command    string                 `json:"command,omitempty"`
	Generation uint64                 `json:"generation"`
	State      string                 `json:"state"`
	Reason     string                 `json:"reason,omitempty"`
	Shards     []storage.ReplicaShard `json:"shards"`
	Detail     json.RawMessage        `json:"detail,omitempty"`
	CreatedAt  int64                  `json:"created_at"`
	ChangedAt  int64                  `json:"changed_at"`
}

// FromReplica is r as a line.
func FromReplica(r storage.Replica) Record {
	return Record{Replica: &Replica{
		r.ID, r.Model, r.Command, r.Generation, r.State, r.Reason, r.Shards, r.Detail, r.CreatedAt.UnixMicro(), r.ChangedAt.UnixMicro(),
	}}
}

// Storage is the replica, or ErrInvalid.
func (r *Replica) Storage() (storage.Replica, error) {
	out := storage.Replica{
		ID: r.ID, Model: r.Model, Command: r.Command, Generation: r.Generation, State: r.State, Reason: r.Reason, Shards: r.Shards, Detail: r.Detail,
		CreatedAt: rows.FromMicros(r.CreatedAt), ChangedAt: rows.FromMicros(r.ChangedAt),
	}
	return out, out.Validate()
}

// Model is a model that was added while a server ran.
type Model struct {
	Name       string `json:"name"`
	Definition string `json:"definition"`
	Actor      string `json:"actor,omitempty"`
	CreatedAt  int64  `json:"created_at"`
	ChangedAt  int64  `json:"changed_at"`
	Revision   int64  `json:"revision"`
}

// FromModel is m as a line.
func FromModel(m storage.Model) Record {
	return Record{Model: &Model{m.Name, m.Definition, m.Actor, m.CreatedAt.UnixMicro(), m.ChangedAt.UnixMicro(), m.Revision}}
}

// Storage is the model, or ErrInvalid.
func (m *Model) Storage() (storage.Model, error) {
	out := storage.Model{
		Name: m.Name, Definition: m.Definition, Actor: m.Actor, CreatedAt: rows.FromMicros(m.CreatedAt), ChangedAt: rows.FromMicros(m.ChangedAt),
		Revision: m.Revision,
	}
	if m.Revision < 1 {
		return out, invalid(fmt.Sprintf("model %q has no revision", m.Name))
	}
	return out, out.Validate()
}
