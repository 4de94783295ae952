package postgres_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/postgres"
	"github.com/llmgw/llmgw/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is the DSN of the server that tests may use.
func server(t testing.TB) string {
	t.Helper()
	dsn := os.Getenv("LLMGW_TEST_POSTGRES")
	if dsn == "" {
		t.Skip("LLMGW_TEST_POSTGRES is not set: the DSN of a PostgreSQL whose user may create schemas")
	}
	return dsn
}

var schemas atomic.Int64 //nolint:gochecknoglobals // names differ

// config is that of a schema which is not there yet and goes with the test.
func config(t testing.TB) postgres.Config {
	t.Helper()
	cfg := postgres.DefaultConfig()
	cfg.DSN = server(t)
	cfg.Schema = fmt.Sprintf("test_%d_%d_%d", os.Getpid(), time.Now().UnixNano(), schemas.Add(1))
	t.Cleanup(func() { execute(t, cfg.DSN, "DROP SCHEMA IF EXISTS "+cfg.Schema+" CASCADE") })
	return cfg
}

// execute runs statements outside of any store.
func execute(t testing.TB, dsn, statements string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // which is done when cleanups run
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.PgConn().Exec(ctx, statements).ReadAll(); err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
}

func TestStore(t *testing.T) {
	server(t)
	storagetest.Run(t, func(t *testing.T) storagetest.Open {
		cfg := config(t)
		return func(t *testing.T) storage.Store { return open(t, cfg) }
	})
}

func open(t testing.TB, cfg postgres.Config) *postgres.Store {
	t.Helper()
	s, err := postgres.New(cfg, postgres.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func BenchmarkInsertUsage(b *testing.B) {
	s := open(b, config(b))
	defer s.Close()
	storagetest.BenchmarkInsertUsage(b, s)
}

func BenchmarkAccounts(b *testing.B) {
	s := open(b, config(b))
	defer s.Close()
	storagetest.BenchmarkAccounts(b, s)
}
