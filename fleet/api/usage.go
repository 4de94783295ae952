package api

import (
	"context"
	"errors"
	"fmt"

	"github.com/llmgw/llmgw/fleet/apipb"
)

// Usage says what was used. Its methods answer as UsageService's of that name,
// with errors as those of [Keys].
type Usage interface {
	ListUsage(ctx context.Context, req *apipb.ListUsageRequest) (*apipb.ListUsageResponse, error)
	ListUsageSums(ctx context.Context, req *apipb.ListUsageSumsRequest) (*apipb.ListUsageSumsResponse, error)
}

var errNoUsage = errors.New("this server keeps no usage: auth.enabled is false in its configuration, or it has no store")

// usage is UsageService.
type usage struct{ *service }

func goodFilter(f *apipb.UsageFilter) error {
	var errs []error
	for _, t := range []struct{ field, value string }{{"key_id", f.GetKeyId()}, {"lineage", f.GetLineage()}, {"owner", f.GetOwner()}, {"model", f.GetModel()}} {
		if len(t.value) > maxTextBytes {
			errs = append(errs, fmt.Errorf("filter.%s has %d bytes; want at most %d", t.field, len(t.value), maxTextBytes))
		}
	}
	if t := f.GetFrom(); t != nil {
		errs = append(errs, t.CheckValid())
	}
	if t := f.GetTo(); t != nil {
		errs = append(errs, t.CheckValid())
	}
	return errors.Join(errs...)
}

// ListUsage implements apipb.UsageServiceHandler.
func (s usage) ListUsage(ctx context.Context, req *apipb.ListUsageRequest) (*apipb.ListUsageResponse, error) {
	return checked(ctx, s.service, "ListUsage", missing(s.deps.Usage != nil, errNoUsage), req,
		func(ctx context.Context, req *apipb.ListUsageRequest) (*apipb.ListUsageResponse, error) {
			return s.deps.Usage.ListUsage(ctx, req)
		}, goodPage(req.GetPageToken(), req.GetPageSize()), goodFilter(req.GetFilter()))
}

// ListUsageSums implements apipb.UsageServiceHandler.
func (s usage) ListUsageSums(ctx context.Context, req *apipb.ListUsageSumsRequest) (*apipb.ListUsageSumsResponse, error) {
	var grain error
	if g := req.GetGrain(); g != apipb.UsageGrain_USAGE_GRAIN_HOUR && g != apipb.UsageGrain_USAGE_GRAIN_DAY {
		grain = fmt.Errorf("grain: %v; want USAGE_GRAIN_HOUR or USAGE_GRAIN_DAY", g)
	}
	return checked(ctx, s.service, "ListUsageSums", missing(s.deps.Usage != nil, errNoUsage), req,
		func(ctx context.Context, req *apipb.ListUsageSumsRequest) (*apipb.ListUsageSumsResponse, error) {
			return s.deps.Usage.ListUsageSums(ctx, req)
		}, goodPage(req.GetPageToken(), req.GetPageSize()), goodFilter(req.GetFilter()), grain)
}
