package api

import (
	"context"
	"errors"
	"fmt"

	"github.com/llmgw/llmgw/fleet/apipb"
)

// Placement says what runs where, what has no place, and what would become of it.
// Its methods answer as PlacementService's of that name, with errors as those of
// [Keys].
type Placement interface {
	GetStatus(ctx context.Context, req *apipb.GetStatusRequest) (*apipb.GetStatusResponse, error)
	ListReplicas(ctx context.Context, req *apipb.ListReplicasRequest) (*apipb.ListReplicasResponse, error)
	ExplainPlacement(ctx context.Context, req *apipb.ExplainPlacementRequest) (*apipb.ExplainPlacementResponse, error)
	WhatIf(ctx context.Context, req *apipb.WhatIfRequest) (*apipb.WhatIfResponse, error)
}

// MaxWhatIfNodes bounds the nodes that one question names, each way.
const MaxWhatIfNodes = 1000

// placements is PlacementService.
type placements struct{ *service }

// GetStatus implements apipb.PlacementServiceHandler.
func (s placements) GetStatus(ctx context.Context, req *apipb.GetStatusRequest) (*apipb.GetStatusResponse, error) {
	return checked(ctx, s.service, "GetStatus", missing(s.deps.Placement != nil, errNoNodes), req,
		func(ctx context.Context, req *apipb.GetStatusRequest) (*apipb.GetStatusResponse, error) {
			return s.deps.Placement.GetStatus(ctx, req)
		})
}

// ListReplicas implements apipb.PlacementServiceHandler.
func (s placements) ListReplicas(ctx context.Context, req *apipb.ListReplicasRequest) (*apipb.ListReplicasResponse, error) {
	var model error
	if req.GetModel() != "" {
		model = goodModel(req.GetModel())
	}
	return checked(ctx, s.service, "ListReplicas", missing(s.deps.Placement != nil, errNoNodes), req,
		func(ctx context.Context, req *apipb.ListReplicasRequest) (*apipb.ListReplicasResponse, error) {
			return s.deps.Placement.ListReplicas(ctx, req)
		}, model)
}

// ExplainPlacement implements apipb.PlacementServiceHandler.
func (s placements) ExplainPlacement(ctx context.Context, req *apipb.ExplainPlacementRequest) (*apipb.ExplainPlacementResponse, error) {
	return checked(ctx, s.service, "ExplainPlacement", missing(s.deps.Placement != nil, errNoNodes), req,
		func(ctx context.Context, req *apipb.ExplainPlacementRequest) (*apipb.ExplainPlacementResponse, error) {
			return s.deps.Placement.ExplainPlacement(ctx, req)
		}, goodModel(req.GetModel()))
}

// WhatIf implements apipb.PlacementServiceHandler.
func (s placements) WhatIf(ctx context.Context, req *apipb.WhatIfRequest) (*apipb.WhatIfResponse, error) {
	return checked(ctx, s.service, "WhatIf", missing(s.deps.Placement != nil, errNoNodes), req,
		func(ctx context.Context, req *apipb.WhatIfRequest) (*apipb.WhatIfResponse, error) {
			return s.deps.Placement.WhatIf(ctx, req)
		}, goodQuestion(req)...)
}

func goodQuestion(req *apipb.WhatIfRequest) []error {
	errs := []error{goodText("add_models_file", req.GetAddModelsFile(), maxTextBytes)}
	if len(req.GetDrain())+len(req.GetRemove())+len(req.GetAddNodes()) == 0 && req.GetAddModels() == "" {
		errs = append(errs, errors.New("nothing is changed; want drain (--drain), remove (--remove-node), add_nodes (--add-node) or add_models (--add-model)"))
	}
	if n := len(req.GetAddModels()); n > MaxDefinitionBytes {
		errs = append(errs, fmt.Errorf("add_models has %d bytes; want at most %d", n, MaxDefinitionBytes))
	}
	ids := append(append([]string(nil), req.GetDrain()...), req.GetRemove()...)
	for _, n := range req.GetAddNodes() {
		ids = append(ids, n.GetId())
	}
	if len(ids) > MaxWhatIfNodes {
		return append(errs, fmt.Errorf("it names %d nodes; want at most %d", len(ids), MaxWhatIfNodes))
	}
	for _, id := range ids {
		errs = append(errs, goodNode(id))
	}
	return errs
}
