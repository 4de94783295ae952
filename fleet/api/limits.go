package api

import (
	"context"
	"errors"

	"github.com/llmgw/llmgw/fleet/apipb"
)

// Limits says where limits stand. Its method answers as LimitService's of that
// name, with errors as those of [Keys].
type Limits interface {
	GetLimits(ctx context.Context, req *apipb.GetLimitsRequest) (*apipb.GetLimitsResponse, error)
}

var errNoLimits = errors.New("this server enforces no limits of keys: auth.enabled is false in its configuration")

// limits is LimitService.
type limits struct{ *service }

// GetLimits implements apipb.LimitServiceHandler.
func (s limits) GetLimits(ctx context.Context, req *apipb.GetLimitsRequest) (*apipb.GetLimitsResponse, error) {
	return checked(ctx, s.service, "GetLimits", missing(s.deps.Limits != nil, errNoLimits), req,
		func(ctx context.Context, req *apipb.GetLimitsRequest) (*apipb.GetLimitsResponse, error) {
			return s.deps.Limits.GetLimits(ctx, req)
		}, goodID("key_id", req.GetKeyId()))
}
