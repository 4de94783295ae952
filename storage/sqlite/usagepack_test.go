package sqlite_test

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/storage"
)

// Whatever rows come, in whatever batches, again or late, from whichever process, and
// whatever is forgotten meanwhile: lists have those that are to be there, once, in
// order, on pages of any size, and the check finds no fault.
func TestPacksModel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "llmgw.db")
	one, two := open(t, path), open(t, path)
	defer end(t, one)
	defer end(t, two)
	stores := []storage.UsageLog{one, two}
	const runs = 15 // each asks a database; more of them only make a failure smaller
	run, failed := 0, false
	rapid.Check(t, func(t *rapid.T) {
		if run >= runs && !failed {
			return
		}
		defer func() { failed = failed || t.Failed() }()
		// A time of its own for each run, later than all before: what was forgotten is
		// forgotten for all.
		begin := epoch.Add(time.Duration(run) * time.Hour)
		run++
		row := rapid.Custom(func(t *rapid.T) storage.Usage {
			at := begin.Add(time.Duration(rapid.Int64Range(0, 150_000_000).Draw(t, "at")) * time.Microsecond)
			if rapid.Bool().Draw(t, "at the same time as others") {
				at = at.Truncate(time.Minute)
			}
			n := rapid.IntRange(0, 40).Draw(t, "id")
			id := fmt.Sprintf("other-%d-%d", run, n)
			if form := n % 4; form > 0 {
				// Some begin with a time that is not the row's.
				id = fmt.Sprintf("req_%012x%08x%012x", begin.UnixMilli()+int64(n)*200, run, n)
				id += []string{"", "", ".mine"}[form-1]
			}
			u := storage.Usage{
				RequestID: id, KeyID: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "key"), Owner: "ada", Model: rapid.SampledFrom([]string{"m", "n"}).Draw(t, "model"),
				At: at, Source: storage.SourceEngine, Status: 200, Latency: time.Duration(rapid.Int64Range(0, 1<<40).Draw(t, "latency")),
			}
			some := rapid.Int64Range(0, storage.MaxTokens)
			for _, to := range []**int64{&u.Tokens.Input, &u.Tokens.CachedInput, &u.Tokens.Output, &u.Tokens.Reasoning, &u.CostNanos} {
				if rapid.Bool().Draw(t, "known") {
					*to = new(some.Draw(t, "number"))
				}
			}
			if rapid.Bool().Draw(t, "content") {
				u.TTFT = new(time.Duration(some.Draw(t, "ttft")))
			}
			if u.KeyID != "" && rapid.Bool().Draw(t, "charged") {
				u.Charged = &storage.BudgetPeriod{KeyID: u.KeyID, Period: storage.PeriodDay, Start: begin.Truncate(24 * time.Hour)}
			}
			return u
		})
		kept := map[string]storage.Usage{}
		store := func() storage.UsageLog { return stores[rapid.IntRange(0, 1).Draw(t, "process")] }
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			if rapid.IntRange(0, 3).Draw(t, "step") == 0 {
				before := begin.Add(time.Duration(rapid.Int64Range(0, 150).Draw(t, "before")) * time.Second)
				most := rapid.IntRange(1, 9).Draw(t, "most")
				for more := true; more; {
					n, again, err := store().PruneUsage(t.Context(), storage.Retention{Rows: before, Most: most})
					if err != nil || n > most {
						t.Fatalf("%d rows are forgotten, %v; want %d at most", n, err, most)
					}
					more = again
				}
				for id, u := range kept {
					if u.At.Before(before) {
						delete(kept, id)
					}
				}
				continue
			}
			batch, fresh := rapid.SliceOfN(row, 0, 25).Draw(t, "batch"), 0
			for _, u := range batch {
				if _, there := kept[u.RequestID]; !there {
					kept[u.RequestID] = u
					fresh++
				}
			}
			if n, err := store().InsertUsage(t.Context(), batch); err != nil || n != fresh {
				t.Fatalf("%d rows are new, %v; want %d", n, err, fresh)
			}
		}
		for _, q := range []storage.UsageQuery{
			{}, {KeyID: "a"}, {Model: "n"}, {From: begin.Add(time.Minute)}, {To: begin.Add(100 * time.Second), Owner: "ada"}, {KeyID: "b", From: begin.Add(30 * time.Second), To: begin.Add(90 * time.Second)},
		} {
			if q.From.IsZero() {
				q.From = begin
			}
			want := []storage.Usage{}
			for _, u := range kept {
				if !u.At.Before(q.From) && (q.To.IsZero() || u.At.Before(q.To)) && (q.KeyID == "" || q.KeyID == u.KeyID) && (q.Model == "" || q.Model == u.Model) {
					want = append(want, u)
				}
			}
			q.Limit = rapid.IntRange(1, 20).Draw(t, "page")
			got := []storage.Usage{}
			for more := true; more; {
				page, next, err := store().ListUsage(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, page...)
				q.After, more = next, next != ""
			}
			if !slices.IsSortedFunc(got, func(a, b storage.Usage) int { return a.At.Compare(b.At) }) {
				t.Fatal("rows are not in the order of their time")
			}
			// Rows of one time may come in any order.
			order := func(a, b storage.Usage) int { return cmp.Compare(a.RequestID, b.RequestID) }
			slices.SortFunc(got, order)
			slices.SortFunc(want, order)
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Fatal(diff)
			}
		}
	})
	if err := one.Check(t.Context()); err != nil {
		t.Error(err)
	}
}
