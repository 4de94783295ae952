package scrape

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/engines/kvevents"
	"github.com/llmgw/llmgw/router/endpoint"
)

// EventSink is told what the KV cache of one endpoint instance holds.
type EventSink interface {
	kvevents.Handler
	kvevents.Watcher
	// Close is the last call, after the others have returned.
	Close()
}

// EventsDeps are the collaborators of [Events].
type EventsDeps struct {
	// Set holds the endpoints. Required.
	Set *endpoint.Set
	// Open returns what is told of an endpoint's cache, once for each instance
	// whose spec says where it publishes; nil leaves that one alone. Required.
	Open func(*endpoint.Endpoint) EventSink
	// Dial opens connections. Nil means TCP with keep-alive.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Logger gets connects, losses and resets; nil discards.
	Logger *slog.Logger
	// Registerer gets the metrics of package kvevents; nil leaves them unregistered.
	Registerer prometheus.Registerer
}

// Events follows the KV-cache events of those endpoints of a set that publish any.
// Make one with NewEvents.
type Events struct{ deps EventsDeps }

// NewEvents checks deps and returns Events. It starts nothing; call Run.
func NewEvents(deps EventsDeps) (*Events, error) {
	if deps.Set == nil || deps.Open == nil {
		return nil, errors.New("scrape: events need a set of endpoints and what is told of them")
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	return &Events{deps}, nil
}

// KVEventsConfig is how the events of an endpoint are followed.
func KVEventsConfig(k endpoint.KVEvents) kvevents.Config {
	cfg := kvevents.DefaultConfig()
	cfg.Endpoint, cfg.ReplayEndpoint, cfg.Topic, cfg.Ranks = k.Endpoint, k.ReplayEndpoint, k.Topic, k.Ranks
	if k.Ranks == 0 {
		cfg.Ranks = 1
	}
	return cfg
}

// Run follows until ctx is done, and returns nil once every sink is closed. Each
// instance has a goroutine, and one for each of its ranks, from its coming to its
// going; connections are made again whenever they end. Call it once.
func (v *Events) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	followed := make(map[*endpoint.Endpoint]context.CancelFunc)
	defer func() {
		for _, cancel := range followed {
			cancel()
		}
	}()
	for {
		snapshot := v.deps.Set.Snapshot()
		present := make(map[*endpoint.Endpoint]bool, len(snapshot.All()))
		for _, e := range snapshot.All() {
			present[e] = true
			if followed[e] != nil || e.Spec().KVEvents.Endpoint == "" {
				continue
			}
			var fctx context.Context
			fctx, followed[e] = context.WithCancel(ctx)
			running.Go(func() { v.follow(fctx, e) })
		}
		for e, cancel := range followed {
			if !present[e] {
				cancel()
				delete(followed, e)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-snapshot.Changed():
		}
	}
}

// follow follows one instance until ctx is done.
func (v *Events) follow(ctx context.Context, e *endpoint.Endpoint) {
	sink := v.deps.Open(e)
	if sink == nil {
		return
	}
	defer sink.Close()
	s, err := kvevents.New(KVEventsConfig(e.Spec().KVEvents), kvevents.Deps{
		Handler: sink, Dial: v.deps.Dial, Registerer: v.deps.Registerer,
		Logger: v.deps.Logger.With(slog.String("engine", e.ID())),
	})
	if err == nil {
		err = s.Run(ctx)
	}
	if err != nil { // a spec that nobody has checked
		v.deps.Logger.Error("KV events cannot be followed", slog.String("endpoint", e.ID()), slog.Any("err", fmt.Errorf("scrape: %w", err)))
	}
}
