package sqlite

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/llmgw/llmgw/storage"
)

// What SQLite answers when the disk is full or may only be read means that the
// store cannot be asked now, and heals with it; reading goes on.
func TestFullAndReadOnly(t *testing.T) {
	for name, tt := range map[string]struct{ begin, end string }{
		"full":      {"PRAGMA max_page_count = 1", "PRAGMA max_page_count = 1073741823"},
		"read-only": {"PRAGMA query_only = 1", "PRAGMA query_only = 0"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			cfg := DefaultConfig()
			cfg.Path = filepath.Join(t.TempDir(), "llmgw.db")
			s, err := New(cfg, Deps{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if err := s.Open(ctx); err != nil {
				t.Fatal(err)
			}
			batch := make([]storage.Usage, 5000)
			for i := range batch {
				batch[i] = storage.Usage{RequestID: time.Duration(i).String(), At: time.Unix(1_700_000_000, 0), Source: storage.SourceNone}
			}
			if _, err := s.db.write.ExecContext(ctx, tt.begin); err != nil {
				t.Fatal(err)
			}
			if n, err := s.InsertUsage(ctx, batch); !errors.Is(err, storage.ErrUnavailable) || n != 0 {
				t.Errorf("inserted %d, %v; want ErrUnavailable", n, err)
			}
			if rows, _, err := s.ListUsage(ctx, storage.UsageQuery{}); err != nil || len(rows) != 0 {
				t.Errorf("read %d rows, %v; want none, as before", len(rows), err)
			}
			if _, err := s.db.write.ExecContext(ctx, tt.end); err != nil {
				t.Fatal(err)
			}
			if n, err := s.InsertUsage(ctx, batch); err != nil || n != len(batch) {
				t.Errorf("afterwards inserted %d, %v", n, err)
			}
			if err := s.Check(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

// Another process that holds the write lock for too long is waited for no longer
// than BusyTimeout.
func TestBusy(t *testing.T) {
	ctx := t.Context()
	cfg := DefaultConfig()
	cfg.Path, cfg.BusyTimeout = filepath.Join(t.TempDir(), "llmgw.db"), 20*time.Millisecond
	stores := make([]*Store, 2)
	for i := range stores {
		s, err := New(cfg, Deps{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Open(ctx); err != nil {
			t.Fatal(err)
		}
		stores[i] = s
	}
	tx, err := stores[0].db.write.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := stores[1].RemoveRouter(ctx, "r"); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("while another writes: %v", err)
	}
	if _, err := stores[1].Budget(ctx, storage.BudgetPeriod{KeyID: "k", Period: storage.PeriodTotal}); err != nil {
		t.Errorf("reading while another writes: %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := stores[1].RemoveRouter(ctx, "r"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestConfig(t *testing.T) {
	good := DefaultConfig()
	if err := good.Validate(); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("no path: %v", err)
	}
	good.Path = "llmgw.db"
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, edit := range map[string]func(*Config){
		"in memory":  func(c *Config) { c.Path = ":memory:" },
		"a URI":      func(c *Config) { c.Path = "file:x?mode=memory" },
		"no wait":    func(c *Config) { c.BusyTimeout = 0 },
		"no readers": func(c *Config) { c.Readers = 0 },
		"no cache":   func(c *Config) { c.CacheBytes = 0 },
	} {
		c := good
		edit(&c)
		if err := c.Validate(); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := New(c, Deps{}); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("New with %s: %v", name, err)
		}
	}
}
