package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	driver "modernc.org/sqlite"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/backend"
)

// Store keeps everything in one file. Its methods may be called concurrently.
type Store struct {
	cfg Config
	log *slog.Logger
	met backend.Meter

	mu     sync.RWMutex
	db     *database // guarded by mu; nil until it is open
	why    error     // guarded by mu; why db is nil
	closed bool      // guarded by mu
	opener sync.Mutex
}

var (
	_ storage.Store      = (*Store)(nil)
	_ storage.Transferer = (*Store)(nil)
)

// database is an open file.
type database struct {
	write *sql.DB // one connection
	read  *sql.DB

	usage   usageStatements // of write
	callers commons[usageCaller]
	kinds   commons[usageKind]

	path string
	file fs.FileInfo // of path when it was opened
}

// there reports whether the file still stands where it was opened. If it was moved
// away, what is written goes to where nobody will look for it; and if another one is
// in its place, connections that are made later would read that.
func (d *database) there() error {
	info, err := os.Stat(d.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s was removed or renamed while it was open; put it back, or restart what has it open to begin with an empty one", d.path)
	case err == nil && !os.SameFile(info, d.file):
		return fmt.Errorf("another file was put in the place of %s while it was open; put the old one back, or restart what has it open to go on with the new one", d.path)
	}
	return nil // and what else may be wrong SQLite finds itself
}

func (d *database) close() error { return errors.Join(d.read.Close(), d.write.Close()) }

// New validates cfg and returns a Store. It touches no file: call Open or Run.
// Until then every method returns [storage.ErrUnavailable].
func New(cfg Config, deps Deps) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{cfg: cfg, log: deps.Logger, why: errors.New("it was not opened yet")}
	met, err := backend.NewMeter(deps.Registerer, func() bool { _, err := s.database(); return err == nil })
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	s.met = met
	return s, nil
}

// Open opens the file, makes it if it is not there, and brings its schema to
// this program's. It fails if that cannot be done now. If the store is open it
// does nothing.
func (s *Store) Open(ctx context.Context) error {
	s.opener.Lock()
	defer s.opener.Unlock()
	s.mu.RLock()
	open, closed := s.db != nil, s.closed
	s.mu.RUnlock()
	if closed {
		return fail(ctx, "open", fmt.Errorf("%w: closed", storage.ErrUnavailable))
	}
	if open {
		return nil
	}
	db, err := s.open(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.why = err
		return fail(ctx, "open "+s.cfg.Path, err)
	}
	if s.closed {
		return fail(ctx, "open", errors.Join(fmt.Errorf("%w: closed", storage.ErrUnavailable), db.close()))
	}
	s.db, s.why = db, nil
	return nil
}

// Bounds of the pause between two tries to open the file.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second
)

// Run opens the store, trying again for as long as it takes, and then does what
// needs doing now and then: it gives free pages back to the file system and
// keeps the write-ahead log short. It returns nil when ctx is done; the store
// stays open until Close. Call it once.
func (s *Store) Run(ctx context.Context) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := s.Open(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil || s.isClosed() {
			return nil
		}
		s.log.ErrorContext(ctx, "the store cannot be opened; keys that are not known are refused until it can", "err", err, "next_try", pause)
		if !wait(ctx, pause) {
			return nil
		}
	}
	s.log.InfoContext(ctx, "the store is open", "path", s.cfg.Path)
	for wait(ctx, time.Minute) {
		if _, err := s.vacuum(ctx, pagesAtOnce); err != nil && ctx.Err() == nil && !s.isClosed() {
			s.log.WarnContext(ctx, "the store's file could not be tidied", "err", err)
		}
	}
	return nil
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

// Close waits for calls under way and closes the file. Later calls return
// [storage.ErrUnavailable].
func (s *Store) Close() error {
	s.mu.Lock()
	db := s.db
	s.db, s.closed, s.why = nil, true, errors.New("it is closed")
	s.mu.Unlock()
	if db == nil {
		return nil
	}
	if err := db.close(); err != nil {
		return fmt.Errorf("sqlite: close: %w", err)
	}
	return nil
}

func (s *Store) isClosed() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.closed
}

// database returns the open file, or why there is none.
func (s *Store) database() (*database, error) {
	s.mu.RLock()
	db, why := s.db, s.why
	s.mu.RUnlock()
	if db != nil {
		why = db.there()
	}
	if why != nil {
		return nil, fmt.Errorf("%w: %w", storage.ErrUnavailable, why)
	}
	return db, nil
}

// update runs f in a transaction of the connection that writes, as a whole or
// not at all.
func (s *Store) update(ctx context.Context, op string, f func(tx *sql.Tx) error) (err error) {
	return s.updateIn(ctx, op, func(_ *database, tx *sql.Tx) error { return f(tx) })
}

// updateIn is update for who needs to know which file is open.
func (s *Store) updateIn(ctx context.Context, op string, f func(db *database, tx *sql.Tx) error) (err error) {
	defer func(began time.Time) { s.met.Ended(op, began, err) }(time.Now())
	db, err := s.database()
	if err != nil {
		return fail(ctx, op, err)
	}
	return fail(ctx, op, func() error {
		// The transaction takes the write lock as it begins (_txlock), so that
		// what it reads stays true until it ends.
		tx, err := db.write.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := f(db, tx); err != nil {
			return err
		}
		return tx.Commit()
	}())
}

// view runs f on a connection that reads.
func (s *Store) view(ctx context.Context, op string, f func(q *sql.DB) error) (err error) {
	defer func(began time.Time) { s.met.Ended(op, began, err) }(time.Now())
	db, err := s.database()
	if err != nil {
		return fail(ctx, op, err)
	}
	return fail(ctx, op, f(db.read))
}

func (s *Store) open(ctx context.Context) (*database, error) {
	path, err := filepath.Abs(s.cfg.Path)
	if err != nil {
		return nil, err
	}
	if err := prepare(path); err != nil {
		return nil, err
	}
	texts, err := steps()
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(s.cfg.BusyTimeout)
	for {
		db, err := s.tryOpen(ctx, path, texts)
		// SQLite does not wait while another process turns a file into one with a
		// write-ahead log, or recovers one.
		if err == nil || !busy(err) || time.Now().After(deadline) || !wait(ctx, 10*time.Millisecond) {
			return db, err
		}
	}
}

// prepare makes the directory and an empty file, for their owner alone. A file
// that is there is not opened: closing it would drop the locks that another
// Store of this process holds on it.
func prepare(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make its directory: %w", err)
	}
	if name := networkFS(dir); name != "" {
		return fmt.Errorf("%s is on a network file system (%s), on which SQLite's files get damaged; use a local disk, or PostgreSQL", dir, name)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		info, err := os.Stat(path)
		if err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("%s is not a file", path)
		}
		return err
	}
	if err != nil {
		return fmt.Errorf("make the file: %w", err)
	}
	return f.Close()
}

func (s *Store) tryOpen(ctx context.Context, path string, texts []string) (_ *database, err error) {
	// Look before touching: turning on the write-ahead log changes a file.
	probe, err := s.connect(path, 1, url.Values{})
	if err != nil {
		return nil, err
	}
	v, err := version(ctx, probe, len(texts))
	if err := errors.Join(err, probe.Close()); err != nil {
		return nil, err
	}

	settings := url.Values{"_txlock": {"immediate"}, "_journal_mode": {"WAL"}}
	if v == 0 {
		settings.Set("_auto_vacuum", "INCREMENTAL") // only before anything is written
	}
	db := &database{path: path}
	if db.file, err = os.Stat(path); err != nil {
		return nil, err
	}
	if db.write, err = s.connect(path, 1, settings); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = db.write.Close()
		}
	}()
	var mode string
	if err := db.write.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return nil, err
	}
	if mode != "wal" {
		return nil, fmt.Errorf("its journal mode stays %q; the write-ahead log needs a writable file on a local disk", mode)
	}
	if v < len(texts) { // else without waiting for who writes
		from, err := migrate(ctx, db.write, texts)
		if err != nil {
			return nil, err
		}
		if from < len(texts) {
			s.log.InfoContext(ctx, "the store's schema was brought up to date", "from", from, "to", len(texts))
		}
	}
	if db.usage, err = prepareUsage(ctx, db.write); err != nil {
		return nil, err
	}
	if db.read, err = s.connect(path, s.cfg.Readers, url.Values{"_query_only": {"1"}}); err != nil {
		return nil, err
	}
	return db, nil
}

// connect returns a pool of at most n connections with settings besides those
// that all have. It opens none.
func (s *Store) connect(path string, n int, settings url.Values) (*sql.DB, error) {
	for key, value := range map[string]string{
		"mode":          "rw", // prepare has made the file
		"_busy_timeout": strconv.FormatInt(max(1, s.cfg.BusyTimeout.Milliseconds()), 10),
		"_foreign_keys": "1",
		"_synchronous":  "FULL",
		"_dqs":          "0", // a misspelt column is an error, not a text
		"_error_rc":     "1", // the message belongs to the code
	} {
		settings.Set(key, value)
	}
	settings["_pragma"] = []string{
		fmt.Sprintf("cache_size(-%d)", s.cfg.CacheBytes>>10),
		"journal_size_limit(67108864)", // 64 MiB, to which the log shrinks after it was longer
		"temp_store(MEMORY)",
		// Pages that many batches change are copied from the log once: 16 MiB.
		"wal_autocheckpoint(4096)",
	}
	c, err := driver.NewConnector((&url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: settings.Encode()}).String())
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db, nil
}

// pagesAtOnce bounds how long the file is locked while pages are given back.
const pagesAtOnce = 2000

// vacuum gives free pages back to the file system, about most of them, and
// writes the log back into the file, without waiting for readers. It returns how
// many free pages are left.
func (s *Store) vacuum(ctx context.Context, most int) (left int64, err error) {
	db, err := s.database()
	if err != nil {
		return 0, fail(ctx, "vacuum", err)
	}
	return left, fail(ctx, "vacuum", func() error {
		conn, err := db.write.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.QueryRowContext(ctx, "PRAGMA freelist_count").Scan(&left); err != nil {
			return err
		}
		if left > 0 {
			// It gives back one page a step: the statement runs to its end only if
			// all its rows are read.
			rows, err := conn.QueryContext(ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", most))
			if err != nil {
				return err
			}
			for rows.Next() {
			}
			if err := errors.Join(rows.Err(), rows.Close()); err != nil {
				return err
			}
			left = max(0, left-int64(most))
		}
		var blocked, log, moved int64
		return conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&blocked, &log, &moved)
	}())
}
