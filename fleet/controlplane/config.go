package controlplane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/control"
	"github.com/llmgw/llmgw/fleet/feed"
	"github.com/llmgw/llmgw/placement/reconcile"
	"github.com/llmgw/llmgw/storage"
)

// Config is what an operator may set. Start from [DefaultConfig].
type Config struct {
	// Cluster names the cluster, which agents remember: they take orders of no
	// other one. Default "", the one that the store or the certificate is of, and for
	// a new store a random name. 1 to 63 letters, digits, dots, dashes and underscores.
	Cluster string `yaml:"cluster"`
	// StoreTimeout bounds one question to the store. Default 10s; must be positive.
	StoreTimeout time.Duration `yaml:"store_timeout"`
	// Control is how agents are watched; its keys stand beside these.
	Control control.Config `yaml:",inline"`
	// Reconcile is how what runs is brought to what is wanted; its keys stand beside
	// these.
	Reconcile reconcile.Config `yaml:",inline"`
	// Feed is how routers are told.
	Feed feed.PublisherConfig `yaml:"feed"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{StoreTimeout: 10 * time.Second, Control: control.DefaultConfig(), Reconcile: reconcile.DefaultConfig(), Feed: feed.DefaultPublisherConfig()}
}

// Validate returns every problem of c, joined, each beginning with its key.
func (c Config) Validate() error {
	var errs []error
	if c.Cluster != "" {
		if err := engines.ValidID(c.Cluster); err != nil {
			errs = append(errs, fmt.Errorf("cluster: %w", err))
		}
	}
	if c.StoreTimeout <= 0 {
		errs = append(errs, fmt.Errorf("store_timeout: %v; want more than 0s", c.StoreTimeout))
	}
	if c.Control.LostAfter < leastLost {
		errs = append(errs, fmt.Errorf("lost_after: %v; want at least %v: routers are asked each second at most whether a replica works", c.Control.LostAfter, leastLost))
	}
	if err := c.feed().Validate(); err != nil {
		errs = append(errs, fmt.Errorf("feed.%w", err))
	}
	return errors.Join(append(errs, c.Control.Validate(), c.reconcile().Validate())...)
}

// reconcile is the reconciler's part, with what it shares with the agents' side.
func (c Config) reconcile() reconcile.Config {
	c.Reconcile.LostAfter = c.Control.LostAfter
	return c.Reconcile
}

// leastLost is the least time after which silence may mean that something is lost:
// routers report what works four times within it, and each second at most.
const leastLost = 4 * time.Second

// feed is the publisher's part. Routers report so often that what works is known to
// work before it could count as lost.
func (c Config) feed() feed.PublisherConfig {
	c.Feed.Report = min(max(c.Control.LostAfter/4, time.Second), feed.DefaultPublisherConfig().Report)
	return c.Feed
}

// Store is what a control plane needs of a store. See [storage.Store] for its
// promises.
type Store interface {
	BeginTerm(ctx context.Context, r storage.TermRequest) (storage.Term, error)
	Term(ctx context.Context) (storage.Term, error)

	PutNodes(ctx context.Context, f storage.Fence, nodes []storage.Node) error
	ListNodes(ctx context.Context, p storage.Page) (nodes []storage.Node, next string, err error)
	RemoveNode(ctx context.Context, f storage.Fence, id string, why storage.Audit) error
	SetCordon(ctx context.Context, c storage.Cordon, why storage.Audit) error
	ClearCordon(ctx context.Context, node string, why storage.Audit) error
	ListCordons(ctx context.Context) ([]storage.Cordon, error)

	PutReplica(ctx context.Context, f storage.Fence, r storage.Replica) error
	ListReplicas(ctx context.Context, q storage.ReplicaQuery) (replicas []storage.Replica, next string, err error)
	RemoveReplica(ctx context.Context, f storage.Fence, id string, generation uint64) error
}

// Deps are the plane's collaborators.
type Deps struct {
	// Store keeps the term, nodes and cordons. Required.
	Store Store
	// Catalog is what is wanted to run. Nil: nothing is placed or published, and what
	// agents run is left alone.
	Catalog reconcile.CatalogSource
	// Facts is what an engine's adapter says of it, for routers that do not know the
	// engine; nil for one that it does not know, and where nobody answers now. It is
	// asked when replicas are published. Nil: nothing is said of any.
	Facts func(engines.Name) *feed.Facts
	// Shape is [reconcile.CoreDeps.Shape].
	Shape func(engines.Profile) (engines.Shape, error)
	// Scaled is [reconcile.Deps.Scaled].
	Scaled func(reconcile.Scaled)
	// Holder says who leads, for people, such as the host's name.
	Holder string
	// Verify is [control.Deps.Verify].
	Verify func(conn *tls.ConnectionState, node string) error
	// Logger gets what happens. Nil discards.
	Logger *slog.Logger
	// Registerer gets the metrics. Nil leaves them unregistered.
	Registerer prometheus.Registerer
}
