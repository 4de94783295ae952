package controlplane

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/control"
	"github.com/llmgw/llmgw/storage"
)

// Nodes is the plane's nodes as the management API has them.
func (p *Plane) Nodes() api.Nodes { return p.nodes }

// nodes is a plane's nodes as [api.Nodes].
type nodes struct {
	plane *Plane
	store Store
}

// ListNodes implements [api.Nodes].
func (n *nodes) ListNodes(context.Context, *apipb.ListNodesRequest) (*apipb.ListNodesResponse, error) {
	mandate, why := n.plane.Standing()
	out := &apipb.ListNodesResponse{At: timestamppb.Now(), Cluster: mandate.Cluster, Why: why}
	if mandate.Level == control.Leader {
		out.Term = &mandate.Term
	}
	for _, node := range n.plane.control.Nodes() {
		out.Nodes = append(out.Nodes, n.view(&node))
	}
	slices.SortFunc(out.Nodes, func(a, b *apipb.Node) int { return strings.Compare(a.GetId(), b.GetId()) })
	return out, nil
}

// GetNode implements [api.Nodes].
func (n *nodes) GetNode(_ context.Context, req *apipb.GetNodeRequest) (*apipb.GetNodeResponse, error) {
	node, err := n.find(req.GetNode())
	if err != nil {
		return nil, err
	}
	out := &apipb.GetNodeResponse{Node: n.view(&node), At: timestamppb.Now()}
	if hardware := node.Hardware(); hardware != nil {
		text, err := json.Marshal(hardware)
		if err != nil {
			return nil, fmt.Errorf("controlplane: inventory of node %s: %w", node.ID, err)
		}
		out.Inventory = new(structpb.Struct)
		if err := protojson.Unmarshal(text, out.GetInventory()); err != nil {
			return nil, fmt.Errorf("controlplane: inventory of node %s: %w", node.ID, err)
		}
	}
	return out, nil
}

// find returns a node, or that there is none, with what there is.
func (n *nodes) find(id string) (control.Node, error) {
	if node, there := n.plane.control.Node(id); there {
		return node, nil
	}
	if _, why := n.plane.Standing(); why != "" {
		return control.Node{}, api.Precondition(fmt.Errorf("this control plane does not lead, so it knows no nodes: %s", why))
	}
	var ids []string
	for _, node := range n.plane.control.Nodes() {
		ids = append(ids, node.ID)
	}
	slices.Sort(ids)
	const some = 20
	text := strings.Join(ids[:min(len(ids), some)], ", ")
	switch {
	case len(ids) == 0:
		text = "no node has registered yet"
	case len(ids) > some:
		text = fmt.Sprintf("there are %s and %d more", text, len(ids)-some)
	default:
		text = "there are " + text
	}
	return control.Node{}, api.NotFound(fmt.Errorf("there is no node %q; %s", id, text))
}

// SetNodeTarget implements [api.Nodes].
func (n *nodes) SetNodeTarget(ctx context.Context, req *apipb.SetNodeTargetRequest) (*apipb.SetNodeTargetResponse, error) {
	node, err := n.find(req.GetNode())
	if err != nil {
		return nil, err
	}
	old, known := n.plane.targets.of(node.ID)
	now := time.Now()
	why := storage.Audit{ID: cmp.Or(req.GetChangeId(), rand.Text()), At: now, Actor: cmp.Or(req.GetActor(), "api"), Target: node.ID}
	if old != nil {
		why.Before = cordonState(old)
	}
	ctx, cancel := context.WithTimeout(ctx, n.plane.targets.timeout)
	defer cancel()
	var wanted *storage.Cordon
	if target := targetOf(req.GetTarget()); target != 0 {
		wanted = &storage.Cordon{Node: node.ID, Target: target, Reason: req.GetReason(), At: now}
		if known && old != nil && old.Target == wanted.Target && old.Reason == wanted.Reason {
			return &apipb.SetNodeTargetResponse{Node: n.view(&node)}, nil // it stands already
		}
		why.Action, why.After = "node."+verbOf(target), cordonState(wanted)
		err = n.store.SetCordon(ctx, *wanted, why)
	} else {
		why.Action = "node.uncordon"
		err = n.store.ClearCordon(ctx, node.ID, why)
	}
	if err != nil {
		return nil, storeError(err)
	}
	n.plane.targets.changed(node.ID, wanted)
	return &apipb.SetNodeTargetResponse{Node: n.view(&node)}, nil
}

// ForgetNode implements [api.Nodes].
func (n *nodes) ForgetNode(ctx context.Context, req *apipb.ForgetNodeRequest) (*apipb.ForgetNodeResponse, error) {
	node, err := n.find(req.GetNode())
	if err != nil {
		return nil, err
	}
	if node.Connected || node.State == control.Ready {
		return nil, api.Precondition(fmt.Errorf("node %s is heard, and would be back at once; stop its agent first", node.ID))
	}
	fence, leads := n.plane.authority.fence()
	if !leads {
		_, why := n.plane.Standing()
		return nil, api.Precondition(fmt.Errorf("this control plane does not lead: %s", why))
	}
	ctx, cancel := context.WithTimeout(ctx, n.plane.targets.timeout)
	defer cancel()
	err = n.store.RemoveNode(ctx, fence, node.ID, storage.Audit{
		ID: rand.Text(), At: time.Now(), Actor: cmp.Or(req.GetActor(), "api"), Action: "node.forget", Target: node.ID,
	})
	// One that was never saved, as while the store was away, is forgotten all the
	// same.
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return nil, storeError(err)
	}
	n.plane.control.Forget(node.ID)
	n.plane.targets.changed(node.ID, nil)
	return &apipb.ForgetNodeResponse{}, nil
}

func targetOf(t apipb.NodeTarget) storage.CordonTarget {
	switch t {
	case apipb.NodeTarget_NODE_TARGET_CORDONED:
		return storage.TargetCordoned
	case apipb.NodeTarget_NODE_TARGET_DRAINED:
		return storage.TargetDrained
	case apipb.NodeTarget_NODE_TARGET_ACTIVE, apipb.NodeTarget_NODE_TARGET_UNSPECIFIED:
	}
	return 0
}

func verbOf(t storage.CordonTarget) string {
	if t == storage.TargetDrained {
		return "drain"
	}
	return "cordon"
}

// cordonState is a cordon as audit rows show it.
func cordonState(c *storage.Cordon) json.RawMessage {
	text, err := json.Marshal(map[string]string{"target": c.Target.String(), "reason": c.Reason})
	if err != nil {
		panic(err) // texts always marshal
	}
	return text
}

// storeError is an error of the store's as callers of the API get it.
func storeError(err error) error {
	switch {
	case errors.Is(err, storage.ErrInvalid):
		return api.Invalid(err)
	case errors.Is(err, storage.ErrConflict), errors.Is(err, storage.ErrExists), errors.Is(err, storage.ErrFenced):
		return api.Precondition(err)
	case errors.Is(err, storage.ErrUnavailable):
		return api.Unavailable(fmt.Errorf("the store does not answer, and whether the change was made is not known; look, and ask again: %w", err))
	}
	return err
}
