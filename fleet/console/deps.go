package console

import (
	"context"
	"log/slog"
	"time"

	"github.com/llmgw/llmgw/auth/webui"
	"github.com/llmgw/llmgw/fleet/apipb"
)

// Deps are the console's collaborators. A service that is nil has no pages.
type Deps struct {
	// Site is the look and the guards; required.
	Site *webui.Site
	// Root is the path of the console and of its first page. It begins and ends with a
	// slash. Empty is [Root].
	Root string

	// The services, as the management API has them.
	Nodes     Nodes
	Placement Placement
	Models    Models
	Usage     Usage
	Keys      Keys  // counted beside usage
	Users     Users // the people who sign in; nil on the admin listener
	// Traffic is what goes through this process. Nil: nothing does.
	Traffic Traffic

	// Fault says what of an error of a service may be told. Nil: nothing of any.
	Fault func(err error) Fault

	Extras Extras

	Now    func() time.Time // nil is time.Now
	Logger *slog.Logger     // nil discards
}

// Extras are what the console's navigation offers besides its own pages.
type Extras struct {
	// More are pages of others, after the console's own.
	More []webui.NavItem
	// Elsewhere makes a page that says what cannot be reached from here. Nil: there is
	// none, as on the admin listener, where it can.
	Elsewhere *Elsewhere
}

// Elsewhere is where operators find what the clients' port does not serve.
type Elsewhere struct {
	// Admin and Metrics are addresses of listeners, host:port. Empty: there is none.
	Admin, Metrics string
}

// Fault is what may be told of an error.
type Fault struct {
	// Text is for operators; empty: nothing, and the error is logged.
	Text string
	// NotFound says that what was asked for is not there.
	NotFound bool
}

// Nodes says which machines there are.
type Nodes interface {
	ListNodes(ctx context.Context, req *apipb.ListNodesRequest) (*apipb.ListNodesResponse, error)
	GetNode(ctx context.Context, req *apipb.GetNodeRequest) (*apipb.GetNodeResponse, error)
}

// Placement says what runs where.
type Placement interface {
	GetStatus(ctx context.Context, req *apipb.GetStatusRequest) (*apipb.GetStatusResponse, error)
	ListReplicas(ctx context.Context, req *apipb.ListReplicasRequest) (*apipb.ListReplicasResponse, error)
	ExplainPlacement(ctx context.Context, req *apipb.ExplainPlacementRequest) (*apipb.ExplainPlacementResponse, error)
}

// Models says which models there are.
type Models interface {
	ListModels(ctx context.Context, req *apipb.ListModelsRequest) (*apipb.ListModelsResponse, error)
	GetModel(ctx context.Context, req *apipb.GetModelRequest) (*apipb.GetModelResponse, error)
}

// Usage says what was used.
type Usage interface {
	ListUsageSums(ctx context.Context, req *apipb.ListUsageSumsRequest) (*apipb.ListUsageSumsResponse, error)
}

// Keys says which keys there are.
type Keys interface {
	ListKeys(ctx context.Context, req *apipb.ListKeysRequest) (*apipb.ListKeysResponse, error)
}

// Users says who signs in.
type Users interface {
	ListUsers(ctx context.Context, req *apipb.ListUsersRequest) (*apipb.ListUsersResponse, error)
}

// Traffic is read to see what goes through this process now. Traffic must be cheap: it
// is called every [Config.Sample], and for pages; it may be called concurrently.
type Traffic interface {
	Traffic() TrafficReading
}

// TrafficReading is what goes through a process at a moment. The console owns it.
type TrafficReading struct {
	Models []ModelTraffic
	// Pools are those that requests were offered to lately. HasPools false: whether
	// anything waits for its turn is not known.
	Pools    []Pool
	HasPools bool
}

// ModelTraffic is the traffic of one model. Counts are since the process began.
type ModelTraffic struct {
	// Model is the canonical name; empty: of requests that named no model that may be
	// used.
	Model string
	// Requests have ended. Of them Failed got no whole answer by a fault of the
	// fleet's, Refused were turned away, and Canceled were left by their clients.
	Requests, Failed, Refused, Canceled uint64
	// OutputTokens are those that engines counted. HasTokens false: none did.
	OutputTokens uint64
	HasTokens    bool
	// InFlight requests are with engines. HasInFlight false: not known.
	InFlight    int
	HasInFlight bool
	// Waking requests wait for the model to come up.
	Waking int
}

// Pool is where requests for a model wait for their turn.
type Pool struct {
	Name string // of the model
	// Leases are the requests that were let through and have not ended.
	Leases int
	// Saturation is how full it is: 1 is full, more is possible. HasSaturation false:
	// that is not known.
	Saturation    float64
	HasSaturation bool
	Bands         []Band // the highest priority first
}

// Band is a priority class of a pool.
type Band struct {
	Name     string
	Priority int
	// Ceiling is the saturation above which its requests wait; above 1: they never do
	// for that.
	Ceiling float64
	Waiting int
	// Admitted and Rejected are counts since the pool was used first.
	Admitted, Rejected uint64
}
