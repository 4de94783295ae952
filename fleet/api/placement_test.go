package api_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
)

// asked is a Placement that answers everything with nothing.
type asked struct{}

func (asked) GetStatus(context.Context, *apipb.GetStatusRequest) (*apipb.GetStatusResponse, error) {
	return new(apipb.GetStatusResponse), nil
}

func (asked) ListReplicas(context.Context, *apipb.ListReplicasRequest) (*apipb.ListReplicasResponse, error) {
	return new(apipb.ListReplicasResponse), nil
}

func (asked) ExplainPlacement(context.Context, *apipb.ExplainPlacementRequest) (*apipb.ExplainPlacementResponse, error) {
	return nil, api.NotFound(errors.New("no such model"))
}

func (asked) WhatIf(context.Context, *apipb.WhatIfRequest) (*apipb.WhatIfResponse, error) {
	return new(apipb.WhatIfResponse), nil
}

// What cannot be answered is refused before it is asked, with what is wrong.
func TestPlacementRequests(t *testing.T) {
	client, err := api.NewClient(api.ClientConfig{URL: serve(t, api.Deps{Placement: asked{}})})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	many := make([]string, api.MaxWhatIfNodes+1)
	for i := range many {
		many[i] = "n"
	}
	whatIf := func(req *apipb.WhatIfRequest) error { _, err := client.Placement.WhatIf(ctx, req); return err }
	_, status := client.Placement.GetStatus(ctx, new(apipb.GetStatusRequest))
	_, all := client.Placement.ListReplicas(ctx, new(apipb.ListReplicasRequest))
	_, unnamed := client.Placement.ExplainPlacement(ctx, new(apipb.ExplainPlacementRequest))
	_, unknown := client.Placement.ExplainPlacement(ctx, &apipb.ExplainPlacementRequest{Model: "m"})
	for _, tt := range []struct {
		err  error
		code connect.Code // 0: none
		want string
	}{
		{status, 0, ""},
		{all, 0, ""},
		{unnamed, connect.CodeInvalidArgument, "no name of a model"},
		{unknown, connect.CodeNotFound, "no such model"},
		{whatIf(&apipb.WhatIfRequest{Remove: []string{"n"}}), 0, ""},
		{whatIf(&apipb.WhatIfRequest{}), connect.CodeInvalidArgument, "nothing is changed"},
		{whatIf(&apipb.WhatIfRequest{Drain: []string{"a b"}}), connect.CodeInvalidArgument, "no ID of a node"},
		{whatIf(&apipb.WhatIfRequest{AddNodes: []*apipb.WhatIfNode{{}}}), connect.CodeInvalidArgument, "no ID of a node"},
		{whatIf(&apipb.WhatIfRequest{Drain: many}), connect.CodeInvalidArgument, "want at most 1000"},
		{whatIf(&apipb.WhatIfRequest{AddModels: strings.Repeat("x", api.MaxDefinitionBytes+1)}), connect.CodeInvalidArgument, "add_models has"},
	} {
		if tt.code == 0 && tt.err == nil {
			continue
		}
		if connect.CodeOf(tt.err) != tt.code || !strings.Contains(tt.err.Error(), tt.want) {
			t.Errorf("%v; want %v with %q", tt.err, tt.code, tt.want)
		}
	}
}
