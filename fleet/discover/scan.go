package discover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ScannerDeps are a scanner's collaborators.
type ScannerDeps struct {
	// Sources list candidates; what one lists goes before what the next does. At least
	// one is required.
	Sources []Source
	// Bridges are networks of this machine alone, as of [Bridges].
	Bridges []netip.Prefix
	// Transport asks candidates, instead of one that dials nothing forbidden; nil
	// means that one.
	Transport  http.RoundTripper
	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil leaves metrics unregistered
}

// Scanner looks for engines, once each time that it is asked.
type Scanner struct {
	cfg     Config
	deps    ScannerDeps
	prober  *prober
	metrics *metrics

	mu   sync.Mutex
	last []Listing // of each source, as it last listed; guarded by mu
}

// NewScanner validates cfg. It lists and asks nothing.
func NewScanner(cfg Config, deps ScannerDeps) (*Scanner, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if len(deps.Sources) == 0 {
		return nil, errors.New("discover: no source of candidates; want ports to scan, or a cluster")
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	m, err := newMetrics(deps.Registerer)
	if err != nil {
		return nil, fmt.Errorf("discover: metrics: %w", err)
	}
	return &Scanner{
		cfg: cfg, deps: deps, metrics: m,
		prober: &prober{cfg: cfg.Probe, transport: deps.Transport, log: deps.Logger, metrics: m},
		last:   make([]Listing, len(deps.Sources)),
	}, nil
}

// Scan returns the engines that answer, named, each once, in the order of their
// addresses' sources. It blocks until every candidate was asked, which takes
// Probe.Timeout for each Probe.AtOnce of those that are silent, or until ctx is
// done: that is the only error. A source that cannot list is not one that has
// nothing: what it last listed is asked again. One scan runs at a time.
func (s *Scanner) Scan(ctx context.Context) ([]Found, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begun := time.Now()
	s.list(ctx)
	fence := Fence{Allow: s.cfg.Allow, Bridges: s.deps.Bridges}
	var all []Candidate
	for _, l := range s.last {
		fence.Never = append(fence.Never, l.Never...)
		all = append(all, l.Candidates...)
	}
	candidates := s.each(ctx, all)
	s.metrics.candidates.Set(float64(len(candidates)))
	found, err := s.prober.probeAll(ctx, candidates, fence)
	if err != nil {
		return nil, err
	}
	found = oncePerBackend(found)
	nameAll(found)
	switch {
	case s.cfg.Name != "" && len(found) == 1:
		found[0].Name = s.cfg.Name
	case s.cfg.Name != "" && len(found) > 1:
		s.deps.Logger.WarnContext(ctx, "the name is for one engine; several were found and are named by themselves", "provider", s.cfg.Name, "engines", len(found))
	}
	s.metrics.engines.Set(float64(len(found)))
	s.metrics.scanSeconds.Observe(time.Since(begun).Seconds())
	return found, nil
}

// list has all sources list at once. The caller holds mu.
func (s *Scanner) list(ctx context.Context) {
	var wg sync.WaitGroup
	for i, source := range s.deps.Sources {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, s.cfg.ListTimeout)
			defer cancel()
			listing, err := source.List(ctx)
			if err != nil {
				s.metrics.listFailures.Inc()
				s.deps.Logger.WarnContext(ctx, "candidates cannot be listed; those of before are looked at", "candidates", len(s.last[i].Candidates), "err", err)
				return
			}
			s.last[i] = listing // each goroutine has a place of its own
		})
	}
	wg.Wait()
}

// each returns candidates with their addresses in the one spelling, each address
// once and not more than MaxCandidates.
func (s *Scanner) each(ctx context.Context, all []Candidate) []Candidate {
	seen := make(map[string]bool, len(all))
	var out []Candidate
	for _, c := range all {
		base, err := BaseURL(c.BaseURL)
		if err != nil {
			s.deps.Logger.WarnContext(ctx, "candidate left out", "origin", c.Origin, "err", err)
			continue
		}
		if seen[base] {
			continue
		}
		seen[base] = true
		c.BaseURL = base
		out = append(out, c)
	}
	if over := len(out) - s.cfg.MaxCandidates; over > 0 {
		s.deps.Logger.WarnContext(ctx, "too many candidates; the last are left out", "left_out", over, "max_candidates", s.cfg.MaxCandidates)
		out = out[:s.cfg.MaxCandidates]
	}
	return out
}

// oncePerBackend keeps, of those that stand for one backend, the first.
func oncePerBackend(found []Found) []Found {
	seen := make(map[string]bool, len(found))
	return slices.DeleteFunc(found, func(f Found) bool {
		if f.Backend == "" {
			return false
		}
		again := seen[f.Backend]
		seen[f.Backend] = true
		return again
	})
}
