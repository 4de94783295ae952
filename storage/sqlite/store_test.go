package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/sqlite"
	"github.com/llmgw/llmgw/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The suite begins with copies of one empty database: making its tables is
// TestMigrate's.
func TestStore(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.db")
	if err := open(t, empty).Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(empty)
	if err != nil {
		t.Fatal(err)
	}
	storagetest.Run(t, func(t *testing.T) storagetest.Open {
		path := filepath.Join(t.TempDir(), "llmgw.db")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		return func(t *testing.T) storage.Store { return open(t, path) }
	})
}

func open(t testing.TB, path string) *sqlite.Store {
	t.Helper()
	cfg := sqlite.DefaultConfig()
	cfg.Path = path
	s, err := sqlite.New(cfg, sqlite.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func BenchmarkInsertUsage(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "llmgw.db"))
	storagetest.BenchmarkInsertUsage(b, s)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkAccounts(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "llmgw.db"))
	storagetest.BenchmarkAccounts(b, s)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}
