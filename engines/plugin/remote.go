package plugin

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/plugin/pluginpb"
)

// remote is an adapter at the other end of one connection. What it returns was
// checked.
type remote struct{ client pluginpb.AdapterClient }

// Describe implements [engines.Adapter].
func (r *remote) Describe(ctx context.Context) (engines.Description, error) {
	resp, err := r.client.Describe(ctx, &pluginpb.DescribeRequest{})
	if err != nil {
		return engines.Description{}, callError(ctx, err)
	}
	d := descriptionFromWire(resp.GetDescription())
	return d, d.Validate()
}

// Validate implements [engines.Adapter].
func (r *remote) Validate(ctx context.Context, p engines.Profile) (engines.Shape, error) {
	req := &pluginpb.ValidateRequest{Profile: profileToWire(p)}
	if err := sendable(p.Engine, req); err != nil {
		return engines.Shape{}, err
	}
	resp, err := r.client.Validate(ctx, req)
	if err != nil {
		return engines.Shape{}, callError(ctx, err)
	}
	if refusal := resp.GetRefusal(); refusal != nil {
		return engines.Shape{}, refused(refusal)
	}
	shape := shapeFromWire(resp.GetShape())
	return shape, shape.Validate()
}

// Launch implements [engines.Adapter].
func (r *remote) Launch(ctx context.Context, s engines.Shard) (engines.Launch, error) {
	req := &pluginpb.LaunchRequest{Shard: shardToWire(s)}
	if err := sendable(s.Profile.Engine, req); err != nil {
		return engines.Launch{}, err
	}
	resp, err := r.client.Launch(ctx, req)
	if err != nil {
		return engines.Launch{}, callError(ctx, err)
	}
	if refusal := resp.GetRefusal(); refusal != nil {
		return engines.Launch{}, refused(refusal)
	}
	launch := launchFromWire(resp.GetLaunch())
	return launch, launch.Validate()
}

// Checks implements [engines.Adapter].
func (r *remote) Checks(ctx context.Context) ([]engines.Check, error) {
	resp, err := r.client.Checks(ctx, &pluginpb.ChecksRequest{})
	if err != nil {
		return nil, callError(ctx, err)
	}
	checks := each(resp.GetChecks(), checkFromWire)
	return checks, engines.ValidateChecks(checks)
}

func (r *remote) ping(ctx context.Context) error {
	if _, err := r.client.Ping(ctx, &pluginpb.PingRequest{}); err != nil {
		return callError(ctx, err)
	}
	return nil
}

func (r *remote) drain(ctx context.Context) error {
	if _, err := r.client.Drain(ctx, &pluginpb.DrainRequest{}); err != nil {
		return callError(ctx, err)
	}
	return nil
}

// sendable refuses what the wire cannot carry: text that is not UTF-8.
func sendable(engine engines.Name, req proto.Message) error {
	var fs engines.Faults
	if _, err := proto.Marshal(req); err != nil {
		fs.Add("profile", err.Error(), "use UTF-8 in every text of the profile and the shard")
	}
	return fs.Err(engine)
}

// callError gives an error of the wire its class back: the end of ctx, the
// adapter's absence, or a failure of the adapter itself.
func callError(ctx context.Context, err error) error {
	s := status.Convert(err)
	said := forPeople(s.Message(), mostSaid)
	// The other end knows the deadline, and may see it pass a moment before this one.
	const moment = 50 * time.Millisecond
	if at, ok := ctx.Deadline(); ok && time.Until(at) < moment && (s.Code() == codes.Canceled || s.Code() == codes.DeadlineExceeded) {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	switch s.Code() {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return fmt.Errorf("%w: %s", engines.ErrUnavailable, said)
	case codes.Unimplemented:
		return fmt.Errorf("plugin: the adapter was built for another protocol: %s", said)
	default:
		return fmt.Errorf("plugin: the adapter failed: %s", said)
	}
}
