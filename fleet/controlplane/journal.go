package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/fleet/control"
	"github.com/llmgw/llmgw/storage"
)

// journal keeps nodes in the store, as [control.Journal].
type journal struct {
	store     Store
	authority *authority
	timeout   time.Duration
}

// Nodes implements [control.Journal].
func (j journal) Nodes(ctx context.Context) ([]control.Known, error) {
	var out []control.Known
	for page := (storage.Page{}); ; {
		nodes, next, err := j.list(ctx, page)
		if err != nil {
			return nil, err
		}
		for i := range nodes {
			known, err := knownOf(&nodes[i])
			if err != nil {
				return nil, err
			}
			out = append(out, known)
		}
		if page.After = next; next == "" {
			return out, nil
		}
	}
}

func (j journal) list(ctx context.Context, page storage.Page) ([]storage.Node, string, error) {
	ctx, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	return j.store.ListNodes(ctx, page)
}

// Save implements [control.Journal].
func (j journal) Save(ctx context.Context, nodes []control.Known) error {
	fence, leads := j.authority.fence()
	if !leads {
		return control.ErrNotLeader
	}
	now := time.Now()
	rows := make([]storage.Node, len(nodes))
	for i := range nodes {
		row, err := rowOf(&nodes[i], now)
		if err != nil {
			return err
		}
		rows[i] = row
	}
	ctx, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	err := j.store.PutNodes(ctx, fence, rows)
	if fenced, is := errors.AsType[*storage.FencedError](err); is {
		j.authority.fencedBy(fenced)
	}
	return err
}

// rowOf is a node as the store keeps it: what people look for in columns, and
// all of it as JSON.
func rowOf(k *control.Known, now time.Time) (storage.Node, error) {
	all, err := json.Marshal(k)
	if err != nil {
		return storage.Node{}, fmt.Errorf("controlplane: node %s: %w", k.ID, err)
	}
	heard := k.Heard
	if heard.IsZero() {
		heard = now
	}
	n := storage.Node{
		ID: k.ID, Instance: k.Instance, Address: k.Address, AgentVersion: k.AgentVersion, Labels: k.Labels,
		Registration: all, FirstSeen: now, LastSeen: heard,
	}
	if k.Inventory != nil {
		n.Boot = k.Inventory.Host.BootID
	}
	return n, nil
}

// knownOf is a node as it was saved. One that an older program saved in another
// form is known by its columns.
func knownOf(n *storage.Node) (control.Known, error) {
	known := control.Known{ID: n.ID, Instance: n.Instance, Address: n.Address, AgentVersion: n.AgentVersion, Labels: n.Labels}
	if n.Registration != nil {
		if err := json.Unmarshal(n.Registration, &known); err != nil {
			return known, fmt.Errorf("controlplane: node %s: what it registered with is damaged: %w", n.ID, err)
		}
	}
	known.ID, known.Heard = n.ID, n.LastSeen
	return known, nil
}
