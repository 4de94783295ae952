package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/llmgw/llmgw/storage"
)

// Backup copies the database, as of one moment, to a file that is not there yet,
// else it returns [storage.ErrExists]. Others may read and write meanwhile. The
// copy is an SQLite file of its own that a Store can open; its owner alone may
// read it. It has its name only when it is whole and on disk.
func (s *Store) Backup(ctx context.Context, path string) error {
	return s.view(ctx, "back up", func(*sql.DB) error { return s.backup(ctx, path) })
}

func (s *Store) backup(ctx context.Context, path string) (err error) {
	switch _, err := os.Lstat(path); {
	case err == nil:
		return fmt.Errorf("%w: %s", storage.ErrExists, path)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	// SQLite writes into an empty file that is there, and leaves its mode.
	f, err := os.CreateTemp(filepath.Dir(path), ".llmgw-backup-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	source, err := filepath.Abs(s.cfg.Path)
	if err != nil {
		return err
	}
	// A connection of its own: those that read refuse to write, even elsewhere.
	conn, err := s.connect(source, 1, url.Values{})
	if err != nil {
		return err
	}
	defer func(conn *sql.DB) { err = errors.Join(err, conn.Close()) }(conn)
	if _, err := conn.ExecContext(ctx, `VACUUM INTO ?`, f.Name()); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	// Link fails if somebody else has made the file meanwhile; Rename would not.
	if err := os.Link(f.Name(), path); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%w: %s", storage.ErrExists, path)
		}
		return err
	}
	if err := os.Remove(f.Name()); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a file's name survive a crash of the machine.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
