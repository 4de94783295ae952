package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/backend"
)

// Store keeps everything in one PostgreSQL schema. Its methods may be called
// concurrently.
type Store struct {
	cfg    Config
	log    *slog.Logger
	met    backend.Meter
	lost   chan struct{} // has room for one: calls found the server away
	opener sync.Mutex    // held while opening

	mu      sync.RWMutex
	pool    *pgxpool.Pool // guarded by mu; nil until it is open
	why     error         // guarded by mu; why calls are refused, nil if they are not
	running bool          // guarded by mu; Run will find out when the server is back
	closed  bool          // guarded by mu
}

var (
	_ storage.Store      = (*Store)(nil)
	_ storage.Transferer = (*Store)(nil)
)

// New validates cfg and returns a Store. It makes no connection: call Open or
// Run. Until then every method returns [storage.ErrUnavailable].
func New(cfg Config, deps Deps) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{cfg: cfg, log: deps.Logger, lost: make(chan struct{}, 1), why: errNotOpened}
	met, err := backend.NewMeter(deps.Registerer, s.reached)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	s.met = met
	return s, nil
}

// Open connects and brings the schema to this program's. It fails if that cannot
// be done now. If the store is open it does nothing.
func (s *Store) Open(ctx context.Context) error {
	s.opener.Lock()
	defer s.opener.Unlock()
	s.mu.RLock()
	open, closed := s.pool != nil, s.closed
	s.mu.RUnlock()
	if closed {
		return fail(ctx, "open", fmt.Errorf("%w: closed", storage.ErrUnavailable))
	}
	if open {
		return nil
	}
	pool, err := s.open(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.why = err
		return fail(ctx, "open", err)
	}
	if s.closed {
		pool.Close()
		return fail(ctx, "open", fmt.Errorf("%w: closed", storage.ErrUnavailable))
	}
	s.pool, s.why = pool, nil
	return nil
}

func (s *Store) open(ctx context.Context) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(s.cfg.DSN)
	if err != nil {
		return nil, err // pgx hides the password
	}
	cfg.MaxConns = int32(s.cfg.MaxConns) //nolint:gosec // at most 1000
	cfg.ConnConfig.ConnectTimeout = s.cfg.ConnectTimeout
	maps.Copy(cfg.ConnConfig.RuntimeParams, map[string]string{
		"search_path":                         pgx.Identifier{s.cfg.Schema}.Sanitize(),
		"timezone":                            "UTC",
		"statement_timeout":                   strconv.FormatInt(s.cfg.CallTimeout.Milliseconds(), 10),
		"idle_in_transaction_session_timeout": strconv.FormatInt(2*s.cfg.CallTimeout.Milliseconds(), 10),
	})
	if cfg.ConnConfig.RuntimeParams["application_name"] == "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = "llmgw"
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	var from, to int
	err = pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		from, to, err = s.migrate(ctx, c.Conn())
		return err
	})
	if err != nil {
		pool.Close()
		return nil, err
	}
	if from < to {
		s.log.InfoContext(ctx, "the store's schema was brought up to date", "from", from, "to", to)
	}
	return pool, nil
}

// Bounds of the pause between two tries to reach the server.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// Run opens the store, trying again for as long as it takes, and then, whenever
// calls find that the server is away, waits until it is back. Meanwhile calls
// are refused at once. It returns nil when ctx is done; the store stays open
// until Close. Call it once.
func (s *Store) Run(ctx context.Context) error {
	s.setRunning(true)
	defer s.setRunning(false)
	s.until(ctx, s.Open)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.lost:
			s.until(ctx, s.ping)
		}
	}
}

// until tries f until it succeeds, or ctx is done, or the store is closed.
func (s *Store) until(ctx context.Context, f func(context.Context) error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := f(ctx)
		if err == nil {
			s.log.InfoContext(ctx, "the store is reached", "schema", s.cfg.Schema)
			return
		}
		s.mu.RLock()
		closed := s.closed
		s.mu.RUnlock()
		if ctx.Err() != nil || closed {
			return
		}
		s.log.ErrorContext(ctx, "the store is away; keys that are not known are refused until it is back", "err", err, "next_try", pause)
		if !wait(ctx, pause) {
			return
		}
	}
}

// ping asks the server for a sign of life, and lets calls through if it gives one.
func (s *Store) ping(ctx context.Context) error {
	s.mu.RLock()
	pool := s.pool
	s.mu.RUnlock()
	if pool == nil {
		return errors.New("it is closed")
	}
	timed, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer cancel()
	if err := pool.Ping(timed); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.why = nil
	}
	return nil
}

// reached reports whether calls are let through.
func (s *Store) reached() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.pool != nil && s.why == nil
}

func (s *Store) setRunning(running bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = running
	if !running && s.pool != nil && !s.closed {
		s.why = nil // nobody else would find out
	}
}

// away notes that the server cannot be reached, if Run is there to find out when
// it can.
func (s *Store) away(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running || s.closed {
		return
	}
	s.why = err
	select {
	case s.lost <- struct{}{}:
	default:
	}
}

// wait reports whether d has passed before ctx was done.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// Close waits for calls under way and closes the connections. Later calls return
// [storage.ErrUnavailable].
func (s *Store) Close() error {
	s.mu.Lock()
	pool := s.pool
	s.pool, s.closed, s.why = nil, true, errors.New("it is closed")
	s.mu.Unlock()
	if pool != nil {
		pool.Close()
	}
	return nil
}

// call runs f with the pool, again if nothing was done for a reason that passes.
func (s *Store) call(ctx context.Context, op string, bounded bool, f func(ctx context.Context, pool *pgxpool.Pool) error) (err error) {
	defer func(began time.Time) { s.met.Ended(op, began, err) }(time.Now())
	s.mu.RLock()
	pool, why := s.pool, s.why
	s.mu.RUnlock()
	if pool == nil || why != nil {
		return fail(ctx, op, fmt.Errorf("%w: %w", storage.ErrUnavailable, why))
	}
	if bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.cfg.CallTimeout, fmt.Errorf("it took longer than call_timeout %v: %w", s.cfg.CallTimeout, context.DeadlineExceeded))
		defer cancel()
	}
	for try := 1; ; try++ {
		err := f(ctx, pool)
		if err == nil {
			return nil
		}
		if unreachable(err) && ctx.Err() == nil {
			s.away(err)
			return fail(ctx, op, err)
		}
		// Others who were ended together do not come back together.
		if try == maxTries || !repeatable(err) || !wait(ctx, time.Duration(rand.IntN(try*10)+1)*time.Millisecond) {
			return fail(ctx, op, err)
		}
	}
}

// maxTries bounds how often a transaction is tried that others get in the way of.
const maxTries = 5

// update runs f in a transaction, as a whole or not at all.
func (s *Store) update(ctx context.Context, op string, f func(ctx context.Context, tx pgx.Tx) error) error {
	return s.call(ctx, op, true, func(ctx context.Context, pool *pgxpool.Pool) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return f(ctx, tx) })
	})
}

// view runs f, which reads, with one statement after another.
func (s *Store) view(ctx context.Context, op string, f func(ctx context.Context, q querier) error) error {
	return s.call(ctx, op, true, func(ctx context.Context, pool *pgxpool.Pool) error { return f(ctx, pool) })
}

// snapshot runs f, which reads as of one moment and may take long.
func (s *Store) snapshot(ctx context.Context, op string, f func(ctx context.Context, tx pgx.Tx) error) error {
	return s.long(ctx, op, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, f)
}

// long runs f in a transaction that may take long.
func (s *Store) long(ctx context.Context, op string, opts pgx.TxOptions, f func(ctx context.Context, tx pgx.Tx) error) error {
	return s.call(ctx, op, false, func(ctx context.Context, pool *pgxpool.Pool) error {
		return pgx.BeginTxFunc(ctx, pool, opts, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `SELECT set_config('statement_timeout', '0', true), set_config('idle_in_transaction_session_timeout', '0', true)`); err != nil {
				return err
			}
			return f(ctx, tx)
		})
	})
}
