package kvevents

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"
)

// Subscriber follows the events of one engine. Its methods may be called
// concurrently.
type Subscriber struct {
	cfg     Config
	handler Handler
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	log     *slog.Logger
	metrics *metrics
	events  address
	replay  *address // nil: none

	mu     sync.Mutex
	status []Status // guarded by mu; of each rank
}

// Status is what a subscriber knows of a rank.
type Status struct {
	// Connected: its events are being followed. Otherwise removals may have
	// been missed since.
	Connected bool
	// Complete: everything since the engine's start, or since it was cleared,
	// was applied: what is not known to be cached is not. Otherwise what is
	// known is true, and there may be more.
	Complete bool
	// Sequence is that of the last batch, -1 before the first and after a
	// reset.
	Sequence int64
}

// New validates cfg and returns a Subscriber. It opens nothing; call Run.
func New(cfg Config, deps Deps) (*Subscriber, error) {
	err := cfg.Validate()
	if deps.Handler == nil {
		err = errors.Join(err, errors.New("no handler"))
	}
	if err != nil {
		return nil, fmt.Errorf("kvevents: %w", err)
	}
	m, err := newMetrics(deps.Registerer)
	if err != nil {
		return nil, fmt.Errorf("kvevents: metrics: %w", err)
	}
	s := &Subscriber{
		cfg: cfg, handler: deps.Handler, dial: deps.Dial, log: deps.Logger, metrics: m,
		status: make([]Status, cfg.Ranks),
	}
	if s.dial == nil {
		// A host that vanished is noticed in about half a minute.
		d := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3,
		}}
		s.dial = d.DialContext
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	for i := range s.status {
		s.status[i].Sequence = -1
	}
	s.events, _ = parseEndpoint(cfg.Endpoint) // valid
	if cfg.ReplayEndpoint != "" {
		a, _ := parseEndpoint(cfg.ReplayEndpoint)
		s.replay = &a
	}
	return s, nil
}

// Run follows all ranks until ctx is done, then returns nil. It connects again
// whenever a connection ends. Call it once; it owns a goroutine for each rank.
func (s *Subscriber) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for r := range s.cfg.Ranks {
		f := &follower{Subscriber: s, rank: r, tracker: newTracker()}
		wg.Go(func() { f.run(ctx) })
	}
	wg.Wait()
	return nil
}

// Status returns what is known of a rank, which must be below Config.Ranks.
func (s *Subscriber) Status(rank int) Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status[rank]
}

func (s *Subscriber) update(rank int, f func(*Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.status[rank])
}
