package gatewayapi

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/limit"
	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/router/gateway"
)

// LimitsDeps are the collaborators of Limits.
type LimitsDeps struct {
	// Keys says what limits a key has. Required.
	Keys KeyStore
	// State is the limiter's: what enforcement counts by. Required.
	State func(ctx context.Context, now time.Time, s *limit.Subject) limit.State
	Now   func() time.Time // nil is time.Now
}

// Limits is what a limiter counts, as [api.Limits].
type Limits struct {
	deps  LimitsDeps
	zones limit.Zones
}

var _ api.Limits = (*Limits)(nil)

// NewLimits returns Limits.
func NewLimits(deps LimitsDeps) (*Limits, error) {
	if deps.Keys == nil || deps.State == nil {
		return nil, errors.New("gatewayapi: LimitsDeps needs Keys and State")
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	return &Limits{deps: deps}, nil
}

// GetLimits implements api.Limits.
func (l *Limits) GetLimits(ctx context.Context, req *apipb.GetLimitsRequest) (*apipb.GetLimitsResponse, error) {
	k, err := findKey(ctx, l.deps.Keys, req.GetKeyId())
	if err != nil {
		return nil, err
	}
	sub, err := gateway.LimitSubject(auth.NewIdentity(k), &l.zones)
	if err != nil {
		return nil, err
	}
	now := l.deps.Now()
	st := l.deps.State(ctx, now, &sub)
	out := &apipb.GetLimitsResponse{
		KeyId: k.ID, At: stamp(now), Requests: rate(st.Rates.Requests), Tokens: rate(st.Rates.Tokens), TokenDebt: st.Debt, InFlight: st.Inflight,
	}
	if st.Concurrency > 0 {
		out.Concurrency = &st.Concurrency
	}
	if b := st.Budget; b != nil {
		out.Budget = &apipb.BudgetLimit{
			LimitNanos: b.LimitNanos, Start: stamp(b.ID.Start), End: stamp(b.End), Known: b.Known, Whole: b.Whole,
		}
		if b.Known {
			out.Budget.SpentNanos, out.Budget.ReservedNanos, out.Budget.FreeNanos = &b.SpentNanos, &b.ReservedNanos, &b.FreeNanos
		}
	}
	return out, nil
}

func rate(r limit.Rate) *apipb.RateState {
	if r.Limit == 0 {
		return nil
	}
	return &apipb.RateState{Limit: r.Limit, Remaining: r.Remaining, Reset_: durationpb.New(r.Reset)}
}
