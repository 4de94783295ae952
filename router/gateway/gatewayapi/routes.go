// Package gatewayapi offers a gateway's knowledge as the services of the
// management API declare it. It stands apart from package gateway, so that who
// embeds that one need not know the protocol.
package gatewayapi

import (
	"context"
	"errors"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/admission"
	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/router/openai"
	"github.com/llmgw/llmgw/router/schedule"
)

// Routes is a gateway as [api.Routes].
type Routes struct{ Gateway *gateway.Gateway }

var _ api.Routes = Routes{}

// ExplainRoute implements api.Routes.
func (r Routes) ExplainRoute(_ context.Context, req *apipb.ExplainRouteRequest) (*apipb.ExplainRouteResponse, error) {
	x, err := r.Gateway.Explain(&router.Question{
		Path: req.GetPath(), Body: req.GetBody(), Session: req.GetSession(), Band: req.GetBand(),
	})
	if err != nil {
		return nil, refusal(err)
	}
	out := &apipb.ExplainRouteResponse{
		At:      timestamppb.New(x.At),
		Verdict: apipb.RouteVerdict(x.Verdict), // the numbers are the same, as a test says
		Summary: x.Summary,
		Request: &apipb.RouteRequest{
			Path: x.Path, AskedModel: x.Asked, Model: x.Model, Stream: x.Stream, PromptBytes: count(x.PromptBytes),
			Session: x.Session,
		},
		Retries: count(x.Retries), RetriesLeft: count(x.RetriesLeft), Charged: x.Charged,
	}
	if x.MaxTokens > 0 {
		out.Request.MaxTokens = new(count(x.MaxTokens))
	}
	if x.Pin != "" {
		out.Request.PinnedEndpoint = &x.Pin
	}
	for i := range x.Turns {
		out.Turns = append(out.Turns, turn(x, i))
	}
	return out, nil
}

// refusal is why there is no explanation, in the API's terms.
func refusal(err error) error {
	if _, ok := errors.AsType[*openai.Error](err); ok {
		return api.Invalid(err)
	}
	switch {
	case errors.Is(err, router.ErrUnknownModel):
		return api.NotFound(err)
	case errors.Is(err, router.ErrPath), errors.Is(err, admission.ErrUnknownBand):
		return api.Invalid(err)
	}
	return err
}

func turn(x *gateway.Explanation, i int) *apipb.RouteTurn {
	t := &x.Turns[i]
	out := &apipb.RouteTurn{Model: t.Model}
	switch c := x.Conditions[i]; c {
	case gateway.ConditionNow:
		out.Condition = apipb.RouteTurnCondition_ROUTE_TURN_CONDITION_NOW
	case gateway.ConditionAfterFailures:
		out.Condition = apipb.RouteTurnCondition_ROUTE_TURN_CONDITION_AFTER_FAILURES
	case gateway.ConditionNever, gateway.ConditionUnset:
		out.Condition = apipb.RouteTurnCondition_ROUTE_TURN_CONDITION_NEVER
	}
	out.Why = x.Why(i)
	if t.Skipped != router.SkipUnset {
		return out
	}
	out.Profile = &t.Profile
	if a := x.Admissions[i]; a != nil {
		out.Admission = admitted(a)
	}
	out.Decision = decision(t)
	return out
}

func admitted(a *admission.Outlook) *apipb.AdmissionOutlook {
	out := &apipb.AdmissionOutlook{
		Fate: apipb.AdmissionFate(a.Fate), // the numbers are the same, as a test says
		Band: a.Band.Name, Priority: clamp(a.Band.Priority), SaturationCeiling: a.Band.SaturationCeiling,
		Running: count(a.Leases), Waiting: count(a.Waiting), Ahead: count(a.Ahead),
		BandWaiting: count(a.BandWaiting), BandCapacity: count(a.Capacity), QueueTtl: durationpb.New(a.QueueTTL),
	}
	if s := a.Saturation; a.HasSaturation && !math.IsNaN(s.Value) {
		out.Saturation = &s.Value
		if s.Endpoints > 0 { // an Explainer's
			out.Occupancy, out.Queue, out.Kv = &s.Occupancy, &s.Queue, &s.KV
		}
	}
	return out
}

func decision(t *router.Turn) *apipb.RouteDecision {
	out := &apipb.RouteDecision{}
	if t.Err != nil {
		out.NoEndpoint = new(t.Err.Error())
	}
	if none, ok := errors.AsType[*schedule.NoEndpointError](t.Err); ok && none.RetryAfter > 0 {
		out.RetryAfter = durationpb.New(none.RetryAfter)
	}
	d := t.Decision
	if d == nil {
		return out
	}
	out.Picker, out.Pool = d.Picker, count(d.Pool)
	out.Sample, out.ChanceDraws, out.PromptBytes = positive(d.Sample), positive(d.ChanceDraws), positive(d.PromptBytes)
	for i := range d.Candidates {
		out.Candidates = append(out.Candidates, candidate(&d.Candidates[i]))
	}
	for _, drop := range d.Dropped {
		gone := &apipb.RouteDrop{Endpoint: drop.Endpoint, Filter: drop.Filter, Breaker: drop.State}
		if drop.AdmitsInSeconds > 0 {
			gone.AdmitsIn = durationpb.New(seconds(drop.AdmitsInSeconds))
		}
		out.Dropped = append(out.Dropped, gone)
	}
	return out
}

func candidate(c *schedule.CandidateExplanation) *apipb.RouteCandidate {
	out := &apipb.RouteCandidate{
		Endpoint: c.Endpoint, PickedByFixedSeed: c.Picked, Score: c.Score, Weight: c.Weight,
		InFlight: count(int(c.InFlight)), Stale: c.Stale, Running: c.Running, Waiting: c.Waiting, KvUsedRatio: c.KVUsedRatio,
		RecentFailures: c.Failures,
	}
	if c.Chance != nil {
		out.Chance = *c.Chance
	}
	if c.LoadAgeSeconds != nil {
		out.LoadAge = durationpb.New(seconds(*c.LoadAgeSeconds))
	}
	if c.PrefixBytes > 0 {
		out.Prefix = &apipb.HeldPrefix{
			Bytes: count(c.PrefixBytes), Exact: c.PrefixExact, Seen: count(c.PrefixSeen), Doubt: c.PrefixDoubt, Yields: c.PrefixYields,
		}
	}
	for _, v := range c.Votes {
		out.Votes = append(out.Votes, &apipb.RouteVote{Scorer: v.Scorer, Vote: v.Vote, Weight: v.Weight})
	}
	return out
}

// count is n in the protocol's range.
func count(n int) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

func clamp(n int) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }

// positive is n, absent if it is 0.
func positive(n int) *uint32 {
	if n <= 0 {
		return nil
	}
	return new(count(n))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
