// Package sqlitetest gives tests databases that are empty and whose tables are there.
// Making these takes a third of a second under the race detector, and is what no test
// but storage/sqlite's own is about.
package sqlitetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/llmgw/llmgw/storage/sqlite"
)

// empty is an empty database, made once a process.
var empty = sync.OnceValues(func() (file []byte, err error) { //nolint:gochecknoglobals // a constant
	dir, err := os.MkdirTemp("", "llmgw-empty-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	cfg := sqlite.DefaultConfig()
	cfg.Path = filepath.Join(dir, "empty.db")
	store, err := sqlite.New(cfg, sqlite.Deps{})
	if err != nil {
		return nil, err
	}
	if err := store.Open(context.Background()); err != nil {
		return nil, err
	}
	if err := store.Close(); err != nil { // moves all into the one file
		return nil, err
	}
	return os.ReadFile(cfg.Path)
})

// Database returns the path of an empty database of the test's own, for
// [sqlite.Config].Path. It is gone when the test has ended.
func Database(tb testing.TB) string {
	tb.Helper()
	file, err := empty()
	if err != nil {
		tb.Fatal(fmt.Errorf("sqlitetest: %w", err))
	}
	path := filepath.Join(tb.TempDir(), "llmgw.db")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		tb.Fatal(fmt.Errorf("sqlitetest: %w", err))
	}
	return path
}
