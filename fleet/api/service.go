package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/llmgw/llmgw/fleet/apipb"
)

// Routes says where requests would go.
type Routes interface {
	// ExplainRoute answers as the service of that name: see the protocol. Errors
	// are Invalid or NotFound, or faults. It must not keep req, and may be called
	// concurrently.
	ExplainRoute(ctx context.Context, req *apipb.ExplainRouteRequest) (*apipb.ExplainRouteResponse, error)
}

// Deps are the API's collaborators.
type Deps struct {
	// Routes answers RoutingService; nil: it is answered as not implemented.
	Routes Routes
	// Keys answers KeyService, Limits LimitService, Usage UsageService. Nil: that
	// the server is without it is answered, as a failed precondition.
	Keys   Keys
	Limits Limits
	Usage  Usage
	// Users answers UserService. Nil: as Keys.
	Users Users
	// Nodes answers NodeService. Nil: that the server is no control plane is
	// answered, as a failed precondition.
	Nodes Nodes
	// Models answers ModelService. Nil: that the server has no catalog is answered, as
	// a failed precondition.
	Models Models
	// Placement answers PlacementService. Nil: as Nodes.
	Placement Placement
	// Audit answers AuditService. Nil: that the server has no store is answered, as a
	// failed precondition.
	Audit Audit
	// Logger gets what the callers do not: nil discards.
	Logger *slog.Logger
}

const (
	// MaxBodyBytes is the longest body that may be explained. A client's request
	// may be longer; what is longer are pictures and sound, which say nothing
	// about where it goes.
	MaxBodyBytes = 16 << 20
	// maxMessageBytes is the longest message: such a body in base64.
	maxMessageBytes = MaxBodyBytes/3*4 + 64<<10
	// maxCalls bounds the calls that are answered at a time, and with them the
	// memory for messages.
	maxCalls = 8
	// callTime bounds a call, its reading and its answer each.
	callTime = 30 * time.Second
	// maxTextBytes bounds a path, a session and a band.
	maxTextBytes = 1024
)

// Paths returns the paths of the services, each a pattern of http.ServeMux that
// goes to the handler. The caller owns the slice.
func Paths() []string {
	return []string{
		"/" + apipb.RoutingServiceName + "/", "/" + apipb.KeyServiceName + "/", "/" + apipb.LimitServiceName + "/",
		"/" + apipb.UsageServiceName + "/", "/" + apipb.NodeServiceName + "/", "/" + apipb.AuditServiceName + "/",
		"/" + apipb.ModelServiceName + "/", "/" + apipb.PlacementServiceName + "/",
		"/" + apipb.UserServiceName + "/",
	}
}

// NewHandler returns the services as one handler, for Paths. It starts nothing.
func NewHandler(deps Deps) http.Handler { return newHandler(deps, MaxBodyBytes, maxMessageBytes) }

// newHandler is NewHandler with the bounds of a body and of a message.
func newHandler(deps Deps, body, message int) http.Handler {
	s := &service{deps: deps, log: deps.Logger, maxBody: body}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	opts := []connect.HandlerOption{
		connect.WithReadMaxBytes(message), connect.WithSendMaxBytes(maxMessageBytes),
		connect.WithCodec(jsonCodec{strict: true}),
	}
	mux := http.NewServeMux()
	mux.Handle(apipb.NewRoutingServiceHandler(routing{s}, opts...))
	mux.Handle(apipb.NewKeyServiceHandler(keys{s}, opts...))
	mux.Handle(apipb.NewLimitServiceHandler(limits{s}, opts...))
	mux.Handle(apipb.NewUsageServiceHandler(usage{s}, opts...))
	mux.Handle(apipb.NewNodeServiceHandler(nodes{s}, opts...))
	mux.Handle(apipb.NewAuditServiceHandler(audit{s}, opts...))
	mux.Handle(apipb.NewModelServiceHandler(models{s}, opts...))
	mux.Handle(apipb.NewPlacementServiceHandler(placements{s}, opts...))
	mux.Handle(apipb.NewUserServiceHandler(users{s}, opts...))
	return bounded(mux)
}

// bounded bounds the number of calls and their time.
func bounded(next http.Handler) http.Handler {
	slots := make(chan struct{}, maxCalls)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), callTime)
		defer cancel()
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-ctx.Done():
			http.Error(w, "too many calls at once; try again", http.StatusServiceUnavailable)
			return
		}
		rc := http.NewResponseController(w)
		// Not every server can; then ctx alone bounds the call.
		_ = rc.SetReadDeadline(time.Now().Add(callTime))
		_ = rc.SetWriteDeadline(time.Now().Add(2 * callTime))
		defer func() {
			// What is written belongs to this call; the connection's next request
			// has no such deadline.
			_ = rc.Flush()
			_ = rc.SetWriteDeadline(time.Time{})
		}()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// service is what the services share.
type service struct {
	deps    Deps
	log     *slog.Logger
	maxBody int // bytes that may be explained
}

// routing is RoutingService.
type routing struct{ *service }

// ExplainRoute implements apipb.RoutingServiceHandler.
func (s routing) ExplainRoute(ctx context.Context, req *apipb.ExplainRouteRequest) (*apipb.ExplainRouteResponse, error) {
	if s.deps.Routes == nil {
		return nil, connect.NewError(connect.CodeUnimplemented, errors.New("this server routes nothing"))
	}
	if n := len(req.GetBody()); n > s.maxBody {
		return nil, connect.NewError(connect.CodeInvalidArgument,
			fmt.Errorf("the body has %d bytes, at most %d can be explained; leave pictures and sound out, where it goes does not depend on them", n, s.maxBody))
	}
	for _, f := range []struct{ name, value string }{{"path", req.GetPath()}, {"session", req.GetSession()}, {"band", req.GetBand()}} {
		if len(f.value) > maxTextBytes {
			return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("%s has %d bytes; want at most %d", f.name, len(f.value), maxTextBytes))
		}
	}
	resp, err := s.deps.Routes.ExplainRoute(ctx, req)
	if err != nil {
		return nil, s.failure(ctx, "ExplainRoute", err)
	}
	return resp, nil
}
