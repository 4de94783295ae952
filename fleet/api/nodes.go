package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/llmgw/llmgw/fleet/apipb"
)

// Nodes says which machines there are, and takes operators' words about them. Its
// methods answer as NodeService's of that name, with errors as those of [Keys].
type Nodes interface {
	ListNodes(ctx context.Context, req *apipb.ListNodesRequest) (*apipb.ListNodesResponse, error)
	GetNode(ctx context.Context, req *apipb.GetNodeRequest) (*apipb.GetNodeResponse, error)
	SetNodeTarget(ctx context.Context, req *apipb.SetNodeTargetRequest) (*apipb.SetNodeTargetResponse, error)
	ForgetNode(ctx context.Context, req *apipb.ForgetNodeRequest) (*apipb.ForgetNodeResponse, error)
}

// maxReasonBytes bounds why an operator says so.
const maxReasonBytes = 256

var errNoNodes = errors.New("this server is no control plane: agent_listen is not in its configuration, and no model had a profile when it was started")

// nodes is NodeService.
type nodes struct{ *service }

// ListNodes implements apipb.NodeServiceHandler.
func (s nodes) ListNodes(ctx context.Context, req *apipb.ListNodesRequest) (*apipb.ListNodesResponse, error) {
	return checked(ctx, s.service, "ListNodes", missing(s.deps.Nodes != nil, errNoNodes), req,
		func(ctx context.Context, req *apipb.ListNodesRequest) (*apipb.ListNodesResponse, error) {
			return s.deps.Nodes.ListNodes(ctx, req)
		})
}

// GetNode implements apipb.NodeServiceHandler.
func (s nodes) GetNode(ctx context.Context, req *apipb.GetNodeRequest) (*apipb.GetNodeResponse, error) {
	return checked(ctx, s.service, "GetNode", missing(s.deps.Nodes != nil, errNoNodes), req,
		func(ctx context.Context, req *apipb.GetNodeRequest) (*apipb.GetNodeResponse, error) {
			return s.deps.Nodes.GetNode(ctx, req)
		}, goodNode(req.GetNode()))
}

// SetNodeTarget implements apipb.NodeServiceHandler.
func (s nodes) SetNodeTarget(ctx context.Context, req *apipb.SetNodeTargetRequest) (*apipb.SetNodeTargetResponse, error) {
	return checked(ctx, s.service, "SetNodeTarget", missing(s.deps.Nodes != nil, errNoNodes), req,
		func(ctx context.Context, req *apipb.SetNodeTargetRequest) (*apipb.SetNodeTargetResponse, error) {
			return s.deps.Nodes.SetNodeTarget(ctx, req)
		}, goodNode(req.GetNode()), goodTarget(req.GetTarget()), goodText("reason", req.GetReason(), maxReasonBytes),
		goodActor(req.GetActor()), goodChange(req.ChangeId))
}

// ForgetNode implements apipb.NodeServiceHandler.
func (s nodes) ForgetNode(ctx context.Context, req *apipb.ForgetNodeRequest) (*apipb.ForgetNodeResponse, error) {
	return checked(ctx, s.service, "ForgetNode", missing(s.deps.Nodes != nil, errNoNodes), req,
		func(ctx context.Context, req *apipb.ForgetNodeRequest) (*apipb.ForgetNodeResponse, error) {
			return s.deps.Nodes.ForgetNode(ctx, req)
		}, goodNode(req.GetNode()), goodActor(req.GetActor()))
}

// goodNode leaves to the service whether there is such a node.
func goodNode(id string) error {
	if id == "" || len(id) > maxIDBytes || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r >= utf8.RuneSelf }) {
		return errors.New("node is no ID of a node; want such as gpu-7")
	}
	return nil
}

func goodTarget(t apipb.NodeTarget) error {
	switch t {
	case apipb.NodeTarget_NODE_TARGET_ACTIVE, apipb.NodeTarget_NODE_TARGET_CORDONED, apipb.NodeTarget_NODE_TARGET_DRAINED:
		return nil
	case apipb.NodeTarget_NODE_TARGET_UNSPECIFIED:
	}
	return errors.New("target: want NODE_TARGET_ACTIVE, NODE_TARGET_CORDONED or NODE_TARGET_DRAINED")
}

func goodText(field, text string, most int) error {
	if len(text) > most || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("%s: want at most %d bytes of printable text", field, most)
	}
	return nil
}

func goodChange(id *string) error {
	if id == nil {
		return nil
	}
	if *id == "" || len(*id) > maxIDBytes || strings.ContainsFunc(*id, func(r rune) bool { return r <= ' ' || r >= utf8.RuneSelf }) {
		return fmt.Errorf("change_id: want 1 to %d bytes of letters, digits and punctuation", maxIDBytes)
	}
	return nil
}
