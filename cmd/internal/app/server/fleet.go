package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/cmd/internal/app"
	"github.com/llmgw/llmgw/fleet/controlplane/models"
	"github.com/llmgw/llmgw/fleet/feed"
	"github.com/llmgw/llmgw/placement/catalog"
)

// wanted is the catalog as what brings machines to it has it.
type wanted struct {
	models *models.Models
	wake   chan struct{} // has an element when there may be another one
}

func newWanted(m *models.Models) *wanted { return &wanted{models: m, wake: make(chan struct{}, 1)} }

// Catalog implements [reconcile.CatalogSource]. Before the store was read nobody
// knows what else is wanted.
func (w *wanted) Catalog() (*catalog.Catalog, []string) {
	s := w.models.Current()
	if !s.Whole() {
		return nil, nil
	}
	return s.Catalog, s.Aside()
}

// C implements [reconcile.CatalogSource].
func (w *wanted) C() <-chan struct{} { return w.wake }

// run passes changes on, until ctx is done.
func (w *wanted) run(ctx context.Context) error {
	for {
		changed := w.models.Current().Changed()
		select {
		case w.wake <- struct{}{}:
		default:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// followed is a data plane that uses what a control plane tells.
type followed interface {
	feed.Reporter
	Follow(ctx context.Context, f *feed.Follower, modelsToo bool) error
}

// follow has the router of this process follow the feed of the control plane in it:
// what it learns of replicas goes the way that it would over a network. Its models
// it gets from who has them here, with those that only an endpoint names.
func follow(from *feed.Publisher, r followed, log *slog.Logger, reg prometheus.Registerer) (func(context.Context) error, error) {
	cfg := feed.DefaultConfig()
	cfg.Router = "same-process"
	f, err := feed.New(cfg, feed.Deps{
		Sources: []feed.Source{from.Local()}, Reporter: r, Software: "llmgw " + app.ReadVersion().Version, Logger: log, Registerer: reg,
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return followFeed(ctx, f, r, false) }, nil
}

// followFeed runs a follower and brings what it hears of into force, until ctx is
// done.
func followFeed(ctx context.Context, f *feed.Follower, r followed, modelsToo bool) error {
	var wg sync.WaitGroup
	var err error
	wg.Go(func() { err = f.Run(ctx) })
	followed := r.Follow(ctx, f, modelsToo)
	wg.Wait()
	return errors.Join(err, followed)
}

// toldRouters tells routers of other processes, too, which keys count no more and
// which were changed.
type toldRouters struct {
	*auth.Authenticator // of this process
	feed                *feed.Publisher
}

// Revoke implements [auth.Told].
func (t toldRouters) Revoke(keyID string) {
	t.Authenticator.Revoke(keyID)
	t.feed.Revoke(feed.Revocation{KeyID: keyID, At: time.Now()})
}

// Forget implements [auth.Told].
func (t toldRouters) Forget(keyID string) {
	t.Authenticator.Forget(keyID)
	t.feed.Revoke(feed.Revocation{KeyID: keyID, At: time.Now(), Changed: true})
}
