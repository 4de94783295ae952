package scrape

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/router/endpoint"
)

const (
	// lane is how many scrapes run at a time: at 10 ms each, enough for
	// 10,000 engines every 2 s, and bounded for the sake of sockets.
	lane = 128
	// slowLane is how many of engines whose last scrape failed.
	slowLane = 64
)

// Scraper reads the engines' metrics into the endpoints of a set. Make one
// with New.
type Scraper struct {
	cfg       Config
	set       *endpoint.Set
	contracts []engines.MetricContract
	paths     []string // of the contracts, each once, in their order
	clientFor func(*endpoint.Endpoint) Doer
	idle      func() // closes the connections of the scraper's own client
	log       *slog.Logger
	metrics   *metrics

	fast, slow chan struct{} // slots
	buffers    sync.Pool     // *[]byte
}

// New validates cfg and deps and returns a Scraper. It starts nothing; call
// Run.
func New(cfg Config, deps Deps) (*Scraper, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := deps.validate(); err != nil {
		return nil, err
	}
	m, err := newMetrics(deps.Registerer)
	if err != nil {
		return nil, fmt.Errorf("scrape: %w", err)
	}
	s := &Scraper{
		cfg:       cfg,
		set:       deps.Set,
		contracts: deps.Contracts,
		clientFor: deps.Client,
		idle:      func() {},
		log:       deps.Logger,
		metrics:   m,
		fast:      make(chan struct{}, lane),
		slow:      make(chan struct{}, slowLane),
	}
	s.buffers.New = func() any { return new([]byte) }
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	seen := make(map[string]bool)
	for _, c := range s.contracts {
		if !seen[c.Path] {
			s.paths = append(s.paths, c.Path)
		}
		seen[c.Path] = true
	}
	if s.clientFor == nil {
		transport := &http.Transport{
			MaxIdleConnsPerHost: 1,
			IdleConnTimeout:     2 * cfg.Interval,
			DisableCompression:  true,
		}
		client := &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
		s.clientFor = func(*endpoint.Endpoint) Doer { return client }
		s.idle = transport.CloseIdleConnections
	}
	return s, nil
}

// Run scrapes until ctx is done, and returns nil once every scrape has ended.
// Call it once.
func (s *Scraper) Run(ctx context.Context) error {
	defer s.idle()
	var running sync.WaitGroup
	defer running.Wait()
	watched := make(map[*endpoint.Endpoint]context.CancelFunc)
	defer func() {
		for _, cancel := range watched {
			cancel()
		}
	}()
	for {
		snapshot := s.set.Snapshot()
		present := make(map[*endpoint.Endpoint]bool, len(snapshot.All()))
		for _, e := range snapshot.All() {
			present[e] = true
			if watched[e] != nil {
				continue
			}
			w := s.newWatch(e)
			var wctx context.Context
			wctx, watched[e] = context.WithCancel(ctx)
			running.Go(func() { w.run(wctx) })
		}
		for e, cancel := range watched {
			if !present[e] {
				cancel()
				delete(watched, e)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-snapshot.Changed():
		}
	}
}

// slot waits for a place in the lane of an engine whose last scrape failed or
// did not. It returns what gives the place back, or nil once ctx is done.
func (s *Scraper) slot(ctx context.Context, failed bool) (release func()) {
	slots := s.fast
	if failed {
		slots = s.slow
	}
	start := time.Now()
	select {
	case slots <- struct{}{}:
		s.metrics.waiting.Observe(time.Since(start).Seconds())
		return func() { <-slots }
	case <-ctx.Done():
		return nil
	}
}
