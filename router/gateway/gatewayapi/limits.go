package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/limit"
	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/storage"
)

// LimitsDeps are the collaborators of Limits.
type LimitsDeps struct {
	// Keys says what limits a key has. Required.
	Keys KeyStore
	// State is the limiter's: what enforcement counts by. Required.
	State func(ctx context.Context, now time.Time, s *limit.Subject) limit.State
	// Known is the authenticator's: what is asked while Keys is away. nil: nobody.
	Known func(keyID string) (id *auth.Identity, asked time.Time, ok bool)
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
	who, read, err := l.key(ctx, req.GetKeyId())
	if err != nil {
		return nil, err
	}
	sub, err := gateway.LimitSubject(who, &l.zones)
	if err != nil {
		return nil, err
	}
	now := l.deps.Now()
	st := l.deps.State(ctx, now, &sub)
	out := &apipb.GetLimitsResponse{
		KeyId: who.KeyID(), Lineage: sub.ID, KeyReadAt: stamp(read), At: stamp(now),
		Requests: rate(st.Rates.Requests), Tokens: rate(st.Rates.Tokens), TokenDebt: st.Debt, InFlight: st.Inflight,
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

// storeWait is how long the store is waited for before memory is asked.
const storeWait = 2 * time.Second

// key returns a key by the store's word; while the store is away as enforcement
// has it, and when it was read.
func (l *Limits) key(ctx context.Context, id string) (who *auth.Identity, read time.Time, err error) {
	if err := noSecret(id); err != nil {
		return nil, read, err
	}
	timed, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	k, err := l.deps.Keys.Key(timed, id)
	switch {
	case err == nil:
		return auth.NewIdentity(k), read, nil
	case !errors.Is(err, storage.ErrUnavailable):
		_, err = findKey(ctx, l.deps.Keys, id) // with those that may have been meant
		return nil, read, err
	case l.deps.Known != nil:
		if who, read, ok := l.deps.Known(id); ok {
			return who, read, nil
		}
	}
	return nil, read, api.Unavailable(fmt.Errorf("the store does not answer, and this server holds no key %q in memory: what limits it has is not known: %s", id, plain(err)))
}

func rate(r limit.Rate) *apipb.RateState {
	if r.Limit == 0 {
		return nil
	}
	return &apipb.RateState{Limit: r.Limit, Remaining: r.Remaining, Reset_: durationpb.New(r.Reset)}
}
