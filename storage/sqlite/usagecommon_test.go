package sqlite_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/sqlite"
)

// usages are n rows of one caller and kind, a second apart.
func usages(name string, n int, from time.Time) []storage.Usage {
	batch := make([]storage.Usage, n)
	for i := range batch {
		batch[i] = storage.Usage{
			RequestID: fmt.Sprintf("%s-%05d", name, i), KeyID: "k", Owner: "ada", Asked: "m", Model: "m", Endpoint: "e-" + name, Status: 200,
			At: from.Add(time.Duration(i) * time.Second), Source: storage.SourceEngine,
			Charged: &storage.BudgetPeriod{KeyID: "k", Period: storage.PeriodTotal}, CostNanos: new(int64(1)),
		}
	}
	return batch
}

func insert(t *testing.T, s *sqlite.Store, batch []storage.Usage, fresh int) {
	t.Helper()
	n, err := s.InsertUsage(t.Context(), batch)
	if err != nil || n != fresh {
		t.Fatalf("%d rows are new, %v; want %d", n, err, fresh)
	}
}

// holds fails unless a store has exactly these rows and is sound.
func holds(t *testing.T, s *sqlite.Store, want []storage.Usage) {
	t.Helper()
	got, _, err := s.ListUsage(t.Context(), storage.UsageQuery{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func prune(t *testing.T, s *sqlite.Store, before time.Time) {
	t.Helper()
	for more := true; more; {
		var err error
		if _, more, err = s.PruneUsage(t.Context(), storage.Retention{Rows: before, Most: 20}); err != nil {
			t.Fatal(err)
		}
	}
}

// commons is how many things that rows have in common are kept.
func commons(t *testing.T, path string) (n int) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM usage_common`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// What rows had in common is forgotten with the last row of its day, by whichever
// process, and is there again for a row that comes late.
func TestCommonIsForgotten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "llmgw.db")
	s, other := open(t, path), open(t, path)
	defer end(t, s)
	defer end(t, other)
	next := epoch.AddDate(0, 0, 1)
	first, second := usages("first", 70, epoch), usages("second", 10, next)
	insert(t, s, first, 70)
	insert(t, s, second, 10)

	prune(t, other, first[69].At)
	holds(t, s, append(first[69:], second...))
	prune(t, other, next)
	holds(t, s, second)
	if n := commons(t, path); n != 2 { // a caller and a kind, of the second day
		t.Errorf("%d are kept; want 2", n)
	}

	insert(t, s, first[:1], 1)
	insert(t, s, first[1:60], 59)
	holds(t, s, append(first[:60:60], second...))
	prune(t, s, next.AddDate(0, 0, 1))
	holds(t, s, []storage.Usage{})
	insert(t, s, first, 70)
	holds(t, s, first)
}

// What a transaction made that was undone is made again: some of its rows were there
// before, so that it was begun anew.
func TestCommonOfUndone(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "llmgw.db"))
	defer end(t, s)
	batch := append(usages("a", 60, epoch), usages("b", 60, epoch.Add(time.Hour))...)
	insert(t, s, batch[110:], 10)
	insert(t, s, batch, 110)
	insert(t, s, batch, 0)
	holds(t, s, batch)
}

// Every ID is told from every other, whether it has the form of ours or almost.
func TestUsageIDs(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "llmgw.db"))
	defer end(t, s)
	digits := "019cab3f00b8" + strings.Repeat("0123456789", 2)
	var batch []storage.Usage
	for i, id := range []string{
		"req_" + digits, "req_" + digits[:31] + "a", "req_" + digits[:31] + "A", "req_" + digits[:31] + "g", "req_" + digits[:31], "req_" + digits + "0",
		"req_" + digits + ".mine", "REQ_" + digits, "req-" + digits, digits, "\x01<", "ö", "req_" + strings.Repeat("0", 32), "req_" + strings.Repeat("f", 32),
	} {
		u := usages("x", 1, epoch.Add(time.Duration(i)*time.Second))[0]
		u.RequestID = id
		batch = append(batch, u)
	}
	insert(t, s, batch, len(batch))
	insert(t, s, batch, 0)
	holds(t, s, batch)
}
