package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	_ "modernc.org/sqlite" // as "sqlite", to make files that no Store would make

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/sqlite"
	"github.com/llmgw/llmgw/storage/storagetest"
)

// closed returns a store that was not opened.
func closed(t testing.TB, path string) *sqlite.Store {
	t.Helper()
	cfg := sqlite.DefaultConfig()
	cfg.Path = path
	s, err := sqlite.New(cfg, sqlite.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// raw runs statements on a file outside of any store.
func raw(t testing.TB, path, statements string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statements); err != nil {
		t.Fatal(err)
	}
}

func end(t testing.TB, s *sqlite.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// Every schema that was released becomes today's, with all that is in it.
func TestMigrate(t *testing.T) {
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
			path := filepath.Join(t.TempDir(), "old.db")
			raw(t, path, string(text))
			s := open(t, path)
			defer end(t, s)
			if err := s.Check(t.Context()); err != nil {
				t.Error(err)
			}
			if got := storagetest.Export(t, s); !bytes.Equal(got, want) {
				t.Errorf("it holds something else:\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// What an older program has exported is imported.
func TestImportOlder(t *testing.T) {
	text, err := os.ReadFile("testdata/dump-1.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/schema-1.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, filepath.Join(t.TempDir(), "llmgw.db"))
	defer end(t, s)
	if err := s.Import(t.Context(), bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	if got := storagetest.Export(t, s); !bytes.Equal(got, want) {
		t.Errorf("it holds something else:\n%s\nwant\n%s", got, want)
	}
}

// The schema is told without making or changing a file.
func TestSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "llmgw.db")
	s := closed(t, path)
	defer end(t, s)
	have, newest, err := s.Schema(t.Context())
	if err != nil || have != 0 || newest < 1 {
		t.Errorf("no file: %d of %d, %v", have, newest, err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made: %v", err)
	}
	end(t, open(t, path))
	if have, newest, err := s.Schema(t.Context()); err != nil || have != newest {
		t.Errorf("ours: %d of %d, %v", have, newest, err)
	}
	raw(t, path, `PRAGMA user_version = 1000`)
	if _, _, err := s.Schema(t.Context()); !errors.Is(err, storage.ErrSchema) {
		t.Errorf("a newer one: %v", err)
	}
}

// What is not ours is refused, and stays as it was to the byte.
func TestOpenRefused(t *testing.T) {
	made := func(statements string) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			end(t, open(t, path))
			raw(t, path, statements)
		}
	}
	tests := []struct {
		name string
		make func(t *testing.T, path string)
		want error
		text string
	}{
		{"newer", made(`PRAGMA user_version = 1000`), storage.ErrSchema, "version 1000"},
		{"something else", func(t *testing.T, path string) { raw(t, path, `CREATE TABLE notes (text)`) }, storage.ErrSchema, "something else"},
		{"of another application", made(`PRAGMA application_id = 7`), storage.ErrSchema, "something else"},
		{"no database", func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(strings.Repeat("Dear diary. ", 100)), 0o600); err != nil {
				t.Fatal(err)
			}
		}, storage.ErrSchema, "not a database"},
		{"a directory", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, storage.ErrUnavailable, "not a file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "llmgw.db")
			tt.make(t, path)
			before, _ := os.ReadFile(path)
			s := closed(t, path)
			defer end(t, s)
			if err := s.Open(t.Context()); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v; want %v with %q", err, tt.want, tt.text)
			}
			storagetest.Unavailable(t.Context(), t, s)
			if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
			left, _ := filepath.Glob(path + "-*")
			if len(left) > 0 {
				t.Errorf("beside it stand %v", left)
			}
		})
	}
}

// A directory that cannot be made is no reason to end: what stands in its way
// may go.
func TestOpenNowhere(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := closed(t, filepath.Join(file, "llmgw.db"))
	defer end(t, s)
	if err := s.Open(t.Context()); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("below a file: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := s.Open(t.Context()); err != nil {
		t.Errorf("the file is gone: %v", err)
	}
}

// The file is its owner's alone, whatever characters its name has.
func TestFileMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "ä b?c#d%41.db")
	s := open(t, path)
	defer end(t, s)
	storagetest.Fill(t, s)
	for name, want := range map[string]os.FileMode{path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600, filepath.Dir(path): 0o700} {
		info, err := os.Stat(name)
		if err != nil {
			t.Error(err)
		} else if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v; want %v", name, info.Mode().Perm(), want)
		}
	}
}

// Bytes of a page that changed are found when they are read, and are not taken
// for an answer.
func TestDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "llmgw.db")
	s := open(t, path)
	storagetest.Fill(t, s)
	end(t, s)
	for _, page := range rootPages(t, path) {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(bytes.Repeat([]byte{0xa5}, 512), (page-1)*4096); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, path)
	defer end(t, s)
	for what, err := range map[string]error{
		"Check": s.Check(t.Context()),
		"Key":   func() error { _, err := s.Key(t.Context(), "full"); return err }(),
		"InsertUsage": func() error {
			_, err := s.InsertUsage(t.Context(), []storage.Usage{{RequestID: "r", At: epoch, Source: storage.SourceNone}})
			return err
		}(),
	} {
		if !errors.Is(err, storage.ErrSchema) || errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s: %v; want ErrSchema", what, err)
		}
	}
}

// rootPages are the first pages of tables and indexes of keys and usage.
func rootPages(t *testing.T, path string) (pages []int64) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), `SELECT rootpage FROM sqlite_schema WHERE tbl_name IN ('keys', 'usage_packs')`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var page int64
		if err := rows.Scan(&page); err != nil {
			t.Fatal(err)
		}
		pages = append(pages, page)
	}
	if err := rows.Err(); err != nil || len(pages) == 0 {
		t.Fatal("no pages", err)
	}
	return pages
}

// Check finds what SQLite takes for sound.
func TestCheckFinds(t *testing.T) {
	filled := filepath.Join(t.TempDir(), "llmgw.db")
	s := open(t, filled)
	storagetest.Fill(t, s)
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	end(t, s)
	file, err := os.ReadFile(filled)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ change, want string }{
		"an hour's sum":          {`UPDATE usage_hours SET requests = requests + 1 WHERE start = (SELECT max(start) FROM usage_hours)`, "usage_hours is not the sum"},
		"a day's sum":            {`UPDATE usage_days SET cost_nanos = 1 WHERE start = (SELECT max(start) FROM usage_days)`, "usage_days is not the sum"},
		"a day without its sum":  {`DELETE FROM usage_days WHERE start = (SELECT max(start) FROM usage_days)`, "usage_days is not the sum"},
		"a row less":             {`DELETE FROM usage_packs WHERE seq = (SELECT max(seq) FROM usage_packs); DELETE FROM usage_other_ids WHERE id = (SELECT max(id) FROM usage_other_ids)`, "usage_hours is not the sum"},
		"what rows share less":   {`DELETE FROM usage_common WHERE id = (SELECT max(id) FROM usage_common)`, "not in usage_common"},
		"an identity less":       {`DELETE FROM usage_other_ids WHERE id = (SELECT max(id) FROM usage_other_ids)`, "its identity is not kept"},
		"an identity more":       {`INSERT INTO usage_ids VALUES (7, zeroblob(12))`, "identities"},
		"a pack cut short":       {`UPDATE usage_packs SET rows = substr(rows, 1, length(rows) - 1) WHERE seq = (SELECT max(seq) FROM usage_packs)`, "cannot be read"},
		"spent":                  {`UPDATE budgets SET spent = spent + 1 WHERE start = (SELECT max(start) FROM budgets)`, "what is spent"},
		"granted":                {`UPDATE budgets SET granted = granted + 1 WHERE period = 'total'`, "what is granted"},
		"a table less":           {`DROP TABLE audit`, "audit is missing"},
		"an index less":          {`DROP INDEX usage_packs_by_time`, "usage_packs_by_time is missing"},
		"another column":         {`ALTER TABLE routers RENAME COLUMN renewed_at TO at`, "routers is not what"},
		"an account less":        {`PRAGMA foreign_keys = OFF; DELETE FROM accounts WHERE id = 'acct-001'`, "refer to nothing"},
		"a key counted apart":    {`UPDATE keys SET lineage = id WHERE account IS NOT NULL`, "not counted with it"},
		"a link's key less":      {`PRAGMA foreign_keys = OFF; DELETE FROM keys WHERE id = (SELECT key_id FROM links WHERE key_id <> '')`, "made a key that is not there"},
		"a grant without budget": {`PRAGMA foreign_keys = OFF; DELETE FROM budgets WHERE period = 'total'`, "refer to nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "llmgw.db")
			if err := os.WriteFile(path, file, 0o600); err != nil {
				t.Fatal(err)
			}
			s := open(t, path)
			defer end(t, s)
			raw(t, path, tt.change)
			if err := s.Check(t.Context()); !errors.Is(err, storage.ErrSchema) || errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v; want ErrSchema with %q", err, tt.want)
			}
		})
	}
}

// Pages of what was forgotten go back to the file system.
func TestShrink(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "llmgw.db")
	s := open(t, path)
	batch := make([]storage.Usage, 10_000)
	long := strings.Repeat("x", 250)
	for i := range batch {
		batch[i] = storage.Usage{RequestID: fmt.Sprintf("%08x", uint32(i)*2654435761), KeyID: "k", At: epoch.AddDate(0, 0, i/500), Source: storage.SourceNone, Path: long, Asked: long, Endpoint: long, Code: long}
	}
	if _, err := s.InsertUsage(ctx, batch); err != nil {
		t.Fatal(err)
	}
	end(t, s)
	full := size(t, path)
	s = open(t, path)
	for more := true; more; {
		var err error
		if _, more, err = s.PruneUsage(ctx, storage.Retention{Rows: epoch.AddDate(0, 0, 18), Most: 3000}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Check(ctx); err != nil {
		t.Error(err)
	}
	end(t, s)
	if now := size(t, path); now > full/2 {
		t.Errorf("a tenth of the rows takes %d bytes of %d", now, full)
	}
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// A store whose file cannot be opened does not keep a process from running, and
// opens when it can.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "llmgw.db")
	raw(t, path, `CREATE TABLE notes (text)`)
	s := closed(t, path)
	defer end(t, s)
	storagetest.Unavailable(t.Context(), t, s)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	// Run has tried once the error says why.
	poll(t, func() bool {
		_, err := s.Key(ctx, "k")
		return errors.Is(err, storage.ErrUnavailable) && errors.Is(err, storage.ErrSchema)
	})
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	poll(t, func() bool { _, err := s.Key(ctx, "k"); return errors.Is(err, storage.ErrNotFound) })
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	if _, err := s.Key(t.Context(), "k"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("after Run: %v", err)
	}
}

// A store says how often it is asked, and whether it is open.
func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	cfg := sqlite.DefaultConfig()
	cfg.Path = filepath.Join(t.TempDir(), "llmgw.db")
	s, err := sqlite.New(cfg, sqlite.Deps{Registerer: reg})
	if err != nil {
		t.Fatal(err)
	}
	check := func(when, want string) {
		t.Helper()
		if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "llmgw_store_operations_total", "llmgw_store_up"); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	const (
		up    = "# HELP llmgw_store_up 1 while the store is open and reached; 0 while every call is refused.\n# TYPE llmgw_store_up gauge\nllmgw_store_up "
		calls = "# HELP llmgw_store_operations_total Calls of the store, by how they ended.\n# TYPE llmgw_store_operations_total counter\n"
		key   = `llmgw_store_operations_total{operation="key",outcome="`
	)
	if _, err := s.Key(t.Context(), "k"); !errors.Is(err, storage.ErrUnavailable) {
		t.Fatal(err)
	}
	check("before it is open", calls+key+"unavailable\"} 1\n"+up+"0\n")
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, _ = s.Key(t.Context(), "k")
	_ = s.RemoveRouter(t.Context(), "r")
	check("open", calls+key+"not_found\"} 1\n"+key+"unavailable\"} 1\n"+`llmgw_store_operations_total{operation="remove_router",outcome="ok"} 1`+"\n"+up+"1\n")
	end(t, s)
	check("closed", calls+key+"not_found\"} 1\n"+key+"unavailable\"} 1\n"+`llmgw_store_operations_total{operation="remove_router",outcome="ok"} 1`+"\n"+up+"0\n")
}
