package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/postgres"
	"github.com/llmgw/llmgw/storage/sqlite"
	"github.com/llmgw/llmgw/storage/storagetest"
)

// Every schema that was released becomes today's, with all that is in it.
func TestMigrate(t *testing.T) {
	server(t)
	fixtures, err := filepath.Glob("testdata/schema-*.sql")
	if err != nil || len(fixtures) == 0 {
		t.Fatal("no fixtures", err)
	}
	for _, fixture := range fixtures {
		t.Run(filepath.Base(fixture), func(t *testing.T) {
			text, err := os.ReadFile(fixture)
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(strings.TrimSuffix(fixture, ".sql") + ".jsonl")
			if err != nil {
				t.Fatal(err)
			}
			cfg := config(t)
			execute(t, cfg.DSN, strings.ReplaceAll(string(text), "llmgw_fixture", cfg.Schema))
			s := open(t, cfg)
			defer s.Close()
			if err := s.Check(t.Context()); err != nil {
				t.Error(err)
			}
			if got := storagetest.Export(t, s); !bytes.Equal(got, want) {
				t.Errorf("it holds something else:\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// The schema is told without making or changing it.
func TestSchema(t *testing.T) {
	cfg := config(t)
	s := closed(t, cfg)
	defer s.Close()
	for range 2 { // the first has made nothing
		if have, newest, err := s.Schema(t.Context()); err != nil || have != 0 || newest < 1 {
			t.Errorf("none: %d of %d, %v", have, newest, err)
		}
	}
	_ = open(t, cfg).Close()
	if have, newest, err := s.Schema(t.Context()); err != nil || have != newest {
		t.Errorf("ours: %d of %d, %v", have, newest, err)
	}
}

// What is not ours is refused.
func TestOpenRefused(t *testing.T) {
	for name, tt := range map[string]struct{ statements, want string }{
		"newer":                    {`UPDATE OURS.schema_version SET version = 1000`, "version 1000"},
		"something else":           {`DROP SCHEMA OURS CASCADE; CREATE SCHEMA OURS; CREATE TABLE OURS.notes (text text)`, "something else"},
		"a version of other tools": {`DROP SCHEMA OURS CASCADE; CREATE SCHEMA OURS; CREATE TABLE OURS.schema_version (v text)`, "something else"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t)
			_ = open(t, cfg).Close()
			execute(t, cfg.DSN, strings.ReplaceAll(tt.statements, "OURS", cfg.Schema))
			s := closed(t, cfg)
			defer s.Close()
			if err := s.Open(t.Context()); !errors.Is(err, storage.ErrSchema) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v; want ErrSchema with %q", err, tt.want)
			}
			storagetest.Unavailable(t.Context(), t, s)
		})
	}
}

func closed(t testing.TB, cfg postgres.Config) *postgres.Store {
	t.Helper()
	s, err := postgres.New(cfg, postgres.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Processes that start at once on an empty database do not get in each other's
// way, and a schema that was made for us serves.
func TestOpenAtOnce(t *testing.T) {
	cfg := config(t)
	execute(t, cfg.DSN, "CREATE SCHEMA "+cfg.Schema)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s := closed(t, cfg)
			defer s.Close()
			if err := s.Open(t.Context()); err != nil {
				t.Error(err)
			} else if err := s.Check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// records are the lines of an export without the first, which names the schema that
// it came from, and the last, which sums all up.
func records(export []byte) []byte {
	_, rest, _ := bytes.Cut(export, []byte("\n"))
	return rest[:bytes.LastIndex(rest, []byte(`{"end":`))]
}

// What SQLite kept PostgreSQL keeps, and the other way round.
func TestFromSQLite(t *testing.T) {
	cfg := sqlite.DefaultConfig()
	cfg.Path = filepath.Join(t.TempDir(), "llmgw.db")
	from, err := sqlite.New(cfg, sqlite.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	if err := from.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	storagetest.Fill(t, from)
	text := storagetest.Export(t, from)
	to := open(t, config(t))
	defer to.Close()
	if err := to.Import(t.Context(), bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	back := storagetest.Export(t, to)
	if !bytes.Equal(records(back), records(text)) {
		t.Errorf("PostgreSQL keeps something else:\n%s\nwant\n%s", back, text)
	}
	if err := to.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// Check finds what PostgreSQL takes for sound.
func TestCheckFinds(t *testing.T) {
	cfg := config(t)
	s := open(t, cfg)
	defer s.Close()
	storagetest.Fill(t, s)
	for name, tt := range map[string]struct{ change, undo, want string }{
		"an hour's sum": {
			`UPDATE usage_hours SET requests = requests + 1 WHERE start = (SELECT max(start) FROM usage_hours)`,
			`UPDATE usage_hours SET requests = requests - 1 WHERE start = (SELECT max(start) FROM usage_hours)`, "usage_hours is not the sum",
		},
		"a day's sum": {
			`UPDATE usage_days SET owner = 'eve' WHERE start = (SELECT max(start) FROM usage_days)`,
			`UPDATE usage_days SET owner = 'ada' WHERE owner = 'eve'`, "usage_days is not the sum",
		},
		"a row of another": {
			`UPDATE usage SET model = 'm7' WHERE request_id = 'req-00050'`,
			`UPDATE usage SET model = 'm2' WHERE request_id = 'req-00050'`, "usage_hours is not the sum",
		},
		"spent": {
			`UPDATE budgets SET spent = spent + 1 WHERE start = (SELECT max(start) FROM budgets)`,
			`UPDATE budgets SET spent = spent - 1 WHERE start = (SELECT max(start) FROM budgets)`, "what is spent",
		},
		"granted": {
			`UPDATE budgets SET granted = granted + 1 WHERE period = 'total'`,
			`UPDATE budgets SET granted = granted - 1 WHERE period = 'total'`, "what is granted",
		},
		"a table less":  {`ALTER TABLE audit RENAME TO lost`, `ALTER TABLE lost RENAME TO audit`, "audit.action text NOT NULL is missing"},
		"an index less": {`ALTER INDEX usage_by_key RENAME TO lost`, `ALTER INDEX lost RENAME TO usage_by_key`, "index usage_by_key is missing"},
		"another type":  {`ALTER TABLE keys ALTER revision TYPE integer`, `ALTER TABLE keys ALTER revision TYPE bigint`, "keys.revision bigint"},
		"an account less": {
			`SET session_replication_role = replica; UPDATE accounts SET id = 'lost' WHERE id = 'acct-001'`,
			`SET session_replication_role = replica; UPDATE accounts SET id = 'acct-001' WHERE id = 'lost'`, "key \"acct-001/001\" refers to an account that is not there",
		},
		"a session's account less": {
			`SET session_replication_role = replica; UPDATE sessions SET account = 'lost'`, `UPDATE sessions SET account = 'acct-001'`, "session \"sess-001\"",
		},
		"a link's account less": {
			`SET session_replication_role = replica; UPDATE links SET account = 'lost' WHERE account IS NOT NULL`,
			`UPDATE links SET account = 'acct-001' WHERE account IS NOT NULL`, "link \"link-003\" refers",
		},
		"a key counted apart": {
			`UPDATE keys SET lineage = id WHERE account IS NOT NULL`, `UPDATE keys SET lineage = account WHERE account IS NOT NULL`, "not counted with it",
		},
		"a link's key less": {
			`UPDATE links SET key_id = 'lost' WHERE key_id <> ''`, `UPDATE links SET key_id = 'key-050' WHERE key_id <> ''`, "link \"link-002\" made a key",
		},
		"a constraint less": {
			`ALTER TABLE grants RENAME CONSTRAINT grants_key_id_period_start_fkey TO lost`,
			`ALTER TABLE grants RENAME CONSTRAINT lost TO grants_key_id_period_start_fkey`, "constraint grants_key_id_period_start_fkey",
		},
	} {
		t.Run(name, func(t *testing.T) {
			execute(t, cfg.DSN, "SET search_path = "+cfg.Schema+"; "+tt.change)
			if err := s.Check(t.Context()); !errors.Is(err, storage.ErrSchema) || errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v; want ErrSchema with %q", err, tt.want)
			}
			execute(t, cfg.DSN, "SET search_path = "+cfg.Schema+"; "+tt.undo)
			if err := s.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A database that may only be read, as a standby, is read; nothing is written,
// and nobody is told that a key is not there.
func TestReadOnly(t *testing.T) {
	cfg := config(t)
	s := open(t, cfg)
	storagetest.Fill(t, s)
	_ = s.Close()
	sep := "?"
	if strings.Contains(cfg.DSN, "?") {
		sep = "&"
	}
	cfg.DSN += sep + "default_transaction_read_only=on"
	s = open(t, cfg)
	defer s.Close()
	if _, err := s.Key(t.Context(), "full"); err != nil {
		t.Error(err)
	}
	if _, err := s.RenewRouter(t.Context(), "r", time.Minute); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("written: %v", err)
	}
}

func TestConfig(t *testing.T) {
	good := postgres.DefaultConfig()
	if err := good.Validate(); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("no DSN: %v", err)
	}
	good.DSN = "postgres://llmgw:secret@db/llmgw"
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, edit := range map[string]func(*postgres.Config){
		"another scheme":   func(c *postgres.Config) { c.DSN = "mysql://llmgw:secret@db/llmgw" },
		"words":            func(c *postgres.Config) { c.DSN = "host=db password=secret" },
		"a bad escape":     func(c *postgres.Config) { c.DSN = "postgres://llmgw:secret%zz@db/llmgw" },
		"a schema of none": func(c *postgres.Config) { c.Schema = "" },
		"a quoted schema":  func(c *postgres.Config) { c.Schema = `a"b` },
		"one connection":   func(c *postgres.Config) { c.MaxConns = 1 },
		"no time":          func(c *postgres.Config) { c.CallTimeout = 0 },
	} {
		c := good
		edit(&c)
		err := c.Validate()
		if !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the password is shown: %v", name, err)
		}
	}
	// One that only the driver refuses.
	good.DSN = "postgres://llmgw:secret@db:99999999/llmgw?sslmode=perhaps"
	s := closed(t, good)
	defer s.Close()
	if err := s.Open(t.Context()); !errors.Is(err, storage.ErrUnavailable) || strings.Contains(err.Error(), "secret") {
		t.Errorf("a bad DSN: %v", err)
	}
	storagetest.Unavailable(context.Background(), t, s)
}
