package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/plugin/pluginpb"
)

// server answers the calls of a host out of an adapter.
type server struct {
	pluginpb.UnimplementedAdapterServer
	adapter engines.Adapter
	log     *slog.Logger

	mu       sync.Mutex
	running  int           // calls in flight; guarded by mu
	drained  chan struct{} // not nil: drains, and closed when nothing runs; guarded by mu
	finished bool          // drained is closed; guarded by mu
}

// Describe implements the protocol.
func (s *server) Describe(ctx context.Context, _ *pluginpb.DescribeRequest) (*pluginpb.DescribeResponse, error) {
	return answer(s, "Describe", func() (*pluginpb.DescribeResponse, error) {
		d, err := s.adapter.Describe(ctx)
		return &pluginpb.DescribeResponse{Description: descriptionToWire(d)}, err
	})
}

// Validate implements the protocol.
func (s *server) Validate(ctx context.Context, req *pluginpb.ValidateRequest) (*pluginpb.ValidateResponse, error) {
	return answer(s, "Validate", func() (*pluginpb.ValidateResponse, error) {
		shape, err := s.adapter.Validate(ctx, profileFromWire(req.GetProfile()))
		if e, ok := errors.AsType[*engines.ProfileError](err); ok {
			return &pluginpb.ValidateResponse{Result: &pluginpb.ValidateResponse_Refusal{Refusal: refusalToWire(e)}}, nil
		}
		return &pluginpb.ValidateResponse{Result: &pluginpb.ValidateResponse_Shape{Shape: shapeToWire(shape)}}, err
	})
}

// Launch implements the protocol.
func (s *server) Launch(ctx context.Context, req *pluginpb.LaunchRequest) (*pluginpb.LaunchResponse, error) {
	return answer(s, "Launch", func() (*pluginpb.LaunchResponse, error) {
		launch, err := s.adapter.Launch(ctx, shardFromWire(req.GetShard()))
		if e, ok := errors.AsType[*engines.ProfileError](err); ok {
			return &pluginpb.LaunchResponse{Result: &pluginpb.LaunchResponse_Refusal{Refusal: refusalToWire(e)}}, nil
		}
		return &pluginpb.LaunchResponse{Result: &pluginpb.LaunchResponse_Launch{Launch: launchToWire(launch)}}, err
	})
}

// Checks implements the protocol.
func (s *server) Checks(ctx context.Context, _ *pluginpb.ChecksRequest) (*pluginpb.ChecksResponse, error) {
	return answer(s, "Checks", func() (*pluginpb.ChecksResponse, error) {
		checks, err := s.adapter.Checks(ctx)
		return &pluginpb.ChecksResponse{Checks: each(checks, checkToWire)}, err
	})
}

// Ping goes through the adapter, so that one that waits for a lock for ever is found
// as well as a process that stands still.
func (s *server) Ping(ctx context.Context, _ *pluginpb.PingRequest) (*pluginpb.PingResponse, error) {
	return answer(s, "Describe", func() (*pluginpb.PingResponse, error) {
		_, err := s.adapter.Describe(ctx)
		return &pluginpb.PingResponse{}, err
	})
}

// Drain implements the protocol.
func (s *server) Drain(ctx context.Context, _ *pluginpb.DrainRequest) (*pluginpb.DrainResponse, error) {
	s.mu.Lock()
	if s.drained == nil {
		s.drained = make(chan struct{})
		s.finish()
	}
	drained := s.drained
	s.mu.Unlock()
	select {
	case <-drained:
		return &pluginpb.DrainResponse{}, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// begin counts a call in, or refuses it.
func (s *server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drained != nil {
		return false
	}
	s.running++
	return true
}

func (s *server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	s.finish()
}

// finish tells Drain that nothing runs. Caller holds mu.
func (s *server) finish() {
	if s.drained != nil && s.running == 0 && !s.finished {
		s.finished = true
		close(s.drained)
	}
}

// answer makes one call of the adapter, and its errors those of the wire. A panic
// fails the call alone: what an adapter describes it makes anew each time.
func answer[T proto.Message](s *server, method string, call func() (T, error)) (resp T, err error) {
	var none T
	if !s.begin() {
		return none, status.Error(codes.Unavailable, "the adapter is about to end")
	}
	defer s.end()
	defer func() {
		if r := recover(); r != nil {
			s.log.Error("the adapter panicked", "method", method, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			resp, err = none, status.Errorf(codes.Internal, "panic in %s: %v", method, r)
		}
	}()
	resp, err = call()
	if err != nil {
		return none, wireError(err)
	}
	if _, err := proto.Marshal(resp); err != nil {
		return none, status.Errorf(codes.Internal, "what %s returned cannot be sent: %v", method, err)
	}
	return resp, nil
}

// wireError gives an error the code by which the host knows its class.
func wireError(err error) error {
	text := strings.ToValidUTF8(err.Error(), "\uFFFD")
	switch {
	case errors.Is(err, engines.ErrUnavailable):
		return status.Error(codes.Unavailable, text)
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, text)
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, text)
	}
	return status.Error(codes.Unknown, text)
}
