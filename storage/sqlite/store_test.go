package sqlite_test

import (
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/sqlite"
	"github.com/llmgw/llmgw/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) storagetest.Open {
		path := filepath.Join(t.TempDir(), "llmgw.db")
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
