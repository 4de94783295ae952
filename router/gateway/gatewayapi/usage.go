package gatewayapi

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/storage"
)

// UsageStore is what Usage needs of a store. See [storage.Store] for its
// promises.
type UsageStore interface {
	ListUsage(ctx context.Context, q storage.UsageQuery) (rows []storage.Usage, next string, err error)
	ListRollups(ctx context.Context, q storage.RollupQuery) (sums []storage.Rollup, next string, err error)
}

// Usage is the usage in a store as [api.Usage].
type Usage struct{ Store UsageStore }

var _ api.Usage = Usage{}

// namesNoSecret refuses what may be a key itself where the ID of one chooses.
func namesNoSecret(f *apipb.UsageFilter) error {
	return errors.Join(noSecret(f.GetKeyId()), noSecret(f.GetLineage()))
}

// ListUsage implements api.Usage.
func (u Usage) ListUsage(ctx context.Context, req *apipb.ListUsageRequest) (*apipb.ListUsageResponse, error) {
	f := req.GetFilter()
	if err := namesNoSecret(f); err != nil {
		return nil, err
	}
	rows, next, err := u.Store.ListUsage(ctx, storage.UsageQuery{
		From: at(f.GetFrom()), To: at(f.GetTo()), KeyID: f.GetKeyId(), Lineage: f.GetLineage(), Owner: f.GetOwner(), Model: f.GetModel(),
		Page: page(req.GetPageToken(), req.GetPageSize()),
	})
	if err != nil {
		return nil, storeError(err)
	}
	out := &apipb.ListUsageResponse{NextPageToken: next}
	for i := range rows {
		out.Rows = append(out.Rows, usageRow(&rows[i]))
	}
	return out, nil
}

// ListUsageSums implements api.Usage.
func (u Usage) ListUsageSums(ctx context.Context, req *apipb.ListUsageSumsRequest) (*apipb.ListUsageSumsResponse, error) {
	f := req.GetFilter()
	if err := namesNoSecret(f); err != nil {
		return nil, err
	}
	q := storage.RollupQuery{
		Grain: storage.GrainDay, From: at(f.GetFrom()), To: at(f.GetTo()), KeyID: f.GetKeyId(), Lineage: f.GetLineage(), Owner: f.GetOwner(), Model: f.GetModel(),
		Page: page(req.GetPageToken(), req.GetPageSize()),
	}
	if req.GetGrain() == apipb.UsageGrain_USAGE_GRAIN_HOUR {
		q.Grain = storage.GrainHour
	}
	sums, next, err := u.Store.ListRollups(ctx, q)
	if err != nil {
		return nil, storeError(err)
	}
	out := &apipb.ListUsageSumsResponse{NextPageToken: next}
	for i := range sums {
		s := &sums[i]
		out.Sums = append(out.Sums, &apipb.UsageSum{
			Start: stamp(s.Start), KeyId: s.KeyID, Owner: s.Owner, Model: s.Model, Requests: s.Requests, Failed: s.Failed,
			InputTokens: s.Input, CachedInputTokens: s.CachedInput, OutputTokens: s.Output, ReasoningTokens: s.Reasoning, CostNanos: s.CostNanos,
		})
	}
	return out, nil
}

func usageRow(u *storage.Usage) *apipb.UsageRow {
	out := &apipb.UsageRow{
		RequestId: u.RequestID, At: stamp(u.At), KeyId: u.KeyID, Owner: u.Owner, ModelAsked: u.Asked, Model: u.Model, Endpoint: u.Endpoint,
		Provider: u.Provider, Path: u.Path, Router: u.Router, Stream: u.Stream, Status: clamp(u.Status), Result: u.Result, Code: u.Code,
		Retries: clamp(u.Retries), Latency: durationpb.New(u.Latency), InputTokens: u.Tokens.Input, CachedInputTokens: u.Tokens.CachedInput,
		OutputTokens: u.Tokens.Output, ReasoningTokens: u.Tokens.Reasoning, TokensSource: u.Source.String(), CostNanos: u.CostNanos,
	}
	if u.TTFT != nil {
		out.Ttft = durationpb.New(*u.TTFT)
	}
	return out
}

// at is a time; absent is zero.
func at(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}
