package storagetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/rows"
)

func testUsageRoundTrip(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	batch := []storage.Usage{
		{RequestID: "least", At: epoch, Source: storage.SourceNone},
		{
			RequestID: "most", KeyID: "k", Owner: "ö'", Asked: "alias", Model: "qwen3", Endpoint: "node-1/0", Provider: "acme", Path: "/v1/messages",
			Router: "r1", Stream: true, At: epoch.Add(time.Hour + 123456789), Latency: 1234567891, TTFT: new(time.Duration(0)), Status: 499,
			Result: "client_gone", Code: "x", Retries: 2,
			Tokens: storage.Tokens{Input: new(int64(0)), CachedInput: new(int64(1)), Output: new(int64(storage.MaxTokens)), Reasoning: new(int64(3))},
			Source: storage.SourcePartial, CostNanos: new(int64(storage.MaxCostNanos)),
			Charged: &storage.BudgetPeriod{KeyID: "k", Period: storage.PeriodTotal},
		},
	}
	n, err := s.InsertUsage(ctx, batch)
	ok(t, err)
	equal(t, "inserted", n, 2)
	batch[1].At = batch[1].At.Truncate(time.Microsecond)
	equal(t, "rows", usageOf(t, open(t), storage.UsageQuery{}), batch)
	n, err = s.InsertUsage(ctx, nil)
	ok(t, err)
	equal(t, "nothing inserted", n, 0)
	sound(t, s)
}

func testUsageOnce(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	day := storage.BudgetPeriod{KeyID: "k", Period: storage.PeriodDay, Start: epoch}
	charged := func(n int) storage.Usage {
		u := simpleUsage(n)
		u.Charged = &day
		return u
	}
	n, err := s.InsertUsage(ctx, []storage.Usage{charged(1), charged(2), charged(1)})
	ok(t, err)
	equal(t, "inserted", n, 2)
	dearer := charged(2)
	dearer.CostNanos = new(int64(5))
	n, err = s.InsertUsage(ctx, []storage.Usage{charged(1), dearer, charged(3)})
	ok(t, err)
	equal(t, "inserted of some that were there", n, 1)
	n, err = s.InsertUsage(ctx, []storage.Usage{charged(3), charged(2)})
	ok(t, err)
	equal(t, "inserted of those that were there", n, 0)

	equal(t, "rows", usageOf(t, s, storage.UsageQuery{}), []storage.Usage{charged(1), charged(2), charged(3)})
	sum := storage.Rollup{Start: epoch, KeyID: "k", Owner: "ada", Model: "qwen3", Requests: 3, Input: 300, Output: 60, CostNanos: 3000}
	for _, g := range []storage.Grain{storage.GrainHour, storage.GrainDay} {
		equal(t, "sums by "+g.String(), sumsOf(t, s, storage.RollupQuery{Grain: g}), []storage.Rollup{sum})
	}
	st, err := s.Budget(ctx, day)
	ok(t, err)
	equal(t, "spent", st, storage.BudgetState{SpentNanos: 3000})

	// One row that cannot be kept keeps all out.
	bad := charged(5)
	bad.Source = 0
	_, err = s.InsertUsage(ctx, []storage.Usage{charged(4), bad})
	wantErr(t, "a row without a source", err, storage.ErrInvalid)
	equal(t, "rows after a refusal", len(usageOf(t, s, storage.UsageQuery{})), 3)
	sound(t, s)
}

// A large batch that is sent again, with others or without, keeps each row once.
func testUsageAgain(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	rows := make([]storage.Usage, 200)
	for i := range rows {
		rows[i] = simpleUsage(i)
	}
	for _, b := range []struct{ from, to, want int }{{0, 130, 130}, {0, 130, 0}, {70, 190, 60}, {189, 200, 10}, {0, 200, 0}} {
		n, err := s.InsertUsage(ctx, rows[b.from:b.to])
		ok(t, err)
		equal(t, fmt.Sprintf("inserted of %d to %d", b.from, b.to), n, b.want)
	}
	equal(t, "rows", usageOf(t, s, storage.UsageQuery{}), rows)
	sound(t, s)
}

// Texts come back as they were, whatever form they are kept in.
func testUsageTexts(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	check(t, 100, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.OneOf(rapid.SampledFrom([]rune("\"'\\\n\x01\x1f\x7f\u2028 ,[]{}é漢😀")), rapid.RuneFrom(nil, unicode.L)), 0, 40, 128).
			Filter(func(s string) bool { return utf8.ValidString(s) })
		u := storage.Usage{
			RequestID: rapid.StringMatching("[a-z]{12}").Draw(t, "id"), KeyID: "texts", Owner: text.Draw(t, "owner"), Asked: text.Draw(t, "asked"),
			Model: text.Draw(t, "model"), Endpoint: text.Draw(t, "endpoint"), Provider: text.Draw(t, "provider"), Path: text.Draw(t, "path"),
			Router: text.Draw(t, "router"), Result: text.Draw(t, "result"), Code: text.Draw(t, "code"), Source: storage.SourceNone,
			At: epoch.Add(time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "at")) * time.Microsecond),
		}
		if n, err := s.InsertUsage(ctx, []storage.Usage{u}); err != nil {
			t.Fatal(err)
		} else if n == 0 {
			t.Skip("there already")
		}
		page, _, err := s.ListUsage(ctx, storage.UsageQuery{KeyID: "texts", From: u.At, To: u.At.Add(time.Microsecond)})
		if err != nil || !slices.ContainsFunc(page, func(got storage.Usage) bool { return cmp.Equal(got, u) }) {
			t.Fatalf("%v: %+v is not in %+v", err, u, page)
		}
	})
	sound(t, s)
}

// Rows of a key are found wherever they are, its sums kept or forgotten.
func testUsageOfKey(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	var batch []storage.Usage
	for n := range 300 {
		u := simpleUsage(n)
		u.At = epoch.Add(time.Duration(n) * 20 * time.Minute)
		u.KeyID = fmt.Sprintf("k%d", n/7%3)
		u.Model = fmt.Sprintf("m%d", n%2)
		batch = append(batch, u)
	}
	_, err := s.InsertUsage(ctx, batch)
	ok(t, err)
	limits := []int{45, 0}
	if raced {
		limits = limits[:1]
	}
	all := func(what string) {
		for _, from := range []int{0, 100} {
			for _, to := range []int{300, 150} {
				var want []storage.Usage
				for _, u := range batch[from:max(from, to)] {
					if u.KeyID == "k1" {
						want = append(want, u)
					}
				}
				q := storage.UsageQuery{KeyID: "k1", From: batch[from].At, To: epoch.Add(time.Duration(to) * 20 * time.Minute)}
				if from == 0 {
					q.From = time.Time{}
				}
				if to == 300 {
					q.To = time.Time{}
				}
				for _, limit := range limits {
					equal(t, fmt.Sprintf("%s, from %d to %d by %d", what, from, to, limit), everything(t, limit, func(p storage.Page) ([]storage.Usage, string, error) {
						q.Page = p
						return s.ListUsage(ctx, q)
					}), want)
				}
			}
		}
	}
	all("at first")
	_, _, err = s.PruneUsage(ctx, storage.Retention{Hours: batch[120].At, Most: 1000})
	ok(t, err)
	all("sums of hours forgotten")
	_, _, err = s.PruneUsage(ctx, storage.Retention{Rows: batch[90].At, Hours: batch[120].At, Most: 1000})
	ok(t, err)
	for i := range 90 {
		batch[i].KeyID = "gone"
	}
	all("rows forgotten")
	late := batch[95]
	late.RequestID, late.At, late.KeyID = "late", epoch.Add(time.Minute), "k1"
	_, err = s.InsertUsage(ctx, []storage.Usage{late})
	ok(t, err)
	batch[0] = late
	all("one that came late")
	sound(t, s)
}

// Many writers repeat batches that overlap; each row is kept and counted once.
func testUsageConcurrent(t *testing.T, open Open) {
	ctx := t.Context()
	stores := []storage.Store{open(t), open(t)}
	const writers, batches, size = 8, 6, 20
	budget := storage.BudgetPeriod{KeyID: "k", Period: storage.PeriodTotal}
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		total int
	)
	for w := range writers {
		wg.Go(func() {
			for b := range batches {
				var batch []storage.Usage
				for i := range size {
					u := simpleUsage((w%4*7 + b*size + i) % (batches * size))
					u.Model = fmt.Sprintf("m%d", i%3)
					u.Model = fmt.Sprintf("m%d", len(u.RequestID)%2) // the same in every batch
					u.Charged = &budget
					batch = append(batch, u)
				}
				if w%2 == 1 {
					slices.Reverse(batch)
				}
				n, err := stores[w%2].InsertUsage(ctx, batch)
				if err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
				mu.Lock()
				total += n
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	kept := usageOf(t, stores[0], storage.UsageQuery{})
	equal(t, "rows", len(kept), batches*size)
	equal(t, "said to be inserted", total, batches*size)
	st, err := stores[1].Budget(ctx, budget)
	ok(t, err)
	equal(t, "spent", st.SpentNanos, int64(batches*size*1000))
	sound(t, stores[0])
}

// What keys used that follow each other is told together.
func testUsageLineage(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	var batch []storage.Usage
	for n := range 4 {
		k, u := simpleKey(n), simpleUsage(n)
		if n == 1 || n == 2 {
			k.Lineage = simpleKey(0).ID
		}
		ok(t, s.CreateKey(ctx, k, because(k.ID)))
		u.KeyID = k.ID
		batch = append(batch, u)
	}
	_, err := s.InsertUsage(ctx, batch)
	ok(t, err)
	for id, want := range map[string][]storage.Usage{
		"key-000": batch[:3], "key-001": nil, "key-003": batch[3:], "none": nil, "'; --": nil,
	} {
		equal(t, "rows of "+id, usageOf(t, s, storage.UsageQuery{Lineage: id}), want)
		all := make([]*storage.Usage, len(want))
		for i := range want {
			all[i] = &want[i]
		}
		for _, g := range []storage.Grain{storage.GrainHour, storage.GrainDay} {
			equal(t, "sums of "+id, sumsOf(t, s, storage.RollupQuery{Grain: g, Lineage: id}), rows.Rollups(g, all))
		}
	}
	equal(t, "of one of them", usageOf(t, s, storage.UsageQuery{Lineage: "key-000", KeyID: "key-001"}), batch[1:2])
}

func testUsageList(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	var batch []storage.Usage
	for n := range 40 {
		u := simpleUsage(n)
		u.At = epoch.Add(time.Duration(n/4) * time.Second) // four of each time
		u.KeyID, u.Owner, u.Model = fmt.Sprintf("k%d", n%2), fmt.Sprintf("o%d", n%3), fmt.Sprintf("m%d", n%5)
		batch = append(batch, u)
	}
	backwards := slices.Clone(batch)
	slices.Reverse(backwards)
	_, err := s.InsertUsage(ctx, backwards)
	ok(t, err)

	for name, q := range map[string]storage.UsageQuery{
		"all":      {},
		"from":     {From: epoch.Add(4*time.Second - 1)},
		"to":       {To: epoch.Add(4*time.Second + 1)},
		"key":      {KeyID: "k1"},
		"owner":    {Owner: "o2"},
		"model":    {Model: "m3"},
		"combined": {KeyID: "k0", Owner: "o1", Model: "m4", From: epoch, To: epoch.Add(9 * time.Second)},
		"nobody":   {KeyID: "k0'; DROP TABLE usage; --"},
	} {
		var want []storage.Usage
		for _, u := range batch {
			if (q.From.IsZero() || !u.At.Before(q.From)) && (q.To.IsZero() || u.At.Before(q.To)) && (q.KeyID == "" || u.KeyID == q.KeyID) &&
				(q.Owner == "" || u.Owner == q.Owner) && (q.Model == "" || u.Model == q.Model) {
				want = append(want, u)
			}
		}
		for _, limit := range []int{3, 0} {
			got := everything(t, limit, func(p storage.Page) ([]storage.Usage, string, error) {
				q.Page = p
				return s.ListUsage(context.Background(), q)
			})
			equal(t, name, got, want)
		}
	}

	// Rows that come before a page's end are not seen, later ones are, and none
	// is seen twice.
	n := 1000
	got := everything(t, 8, func(p storage.Page) ([]storage.Usage, string, error) {
		rows, next, err := s.ListUsage(ctx, storage.UsageQuery{Page: p})
		if n < 1003 {
			early, late := simpleUsage(n), simpleUsage(n)
			early.At, late.RequestID = epoch.Add(-time.Hour), late.RequestID+"late"
			_, err := s.InsertUsage(ctx, []storage.Usage{early, late})
			ok(t, err)
			n++
		}
		return rows, next, err
	})
	equal(t, "rows while others come", len(got), 40+3)
	equal(t, "the first of them", got[:40], batch)
}

// Roll-ups and what is spent equal the sums of the rows that are kept, whatever
// batches they came in.
func testUsageSums(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	run := 0
	check(t, 15, func(t *rapid.T) {
		run++
		key := fmt.Sprintf("key%d", run)
		count := rapid.Custom(func(t *rapid.T) *int64 {
			if rapid.Bool().Draw(t, "known") {
				return new(rapid.Int64Range(0, 1000).Draw(t, "count"))
			}
			return nil
		})
		row := rapid.Custom(func(t *rapid.T) storage.Usage {
			u := storage.Usage{
				RequestID: fmt.Sprintf("%s/%d", key, rapid.IntRange(0, 15).Draw(t, "id")), KeyID: key,
				Owner: rapid.SampledFrom([]string{"", "ada", "bob"}).Draw(t, "owner"), Model: rapid.SampledFrom([]string{"a", "B", "ä"}).Draw(t, "model"),
				At:     epoch.Add(time.Duration(rapid.Int64Range(-1, 50*3600*1e6).Draw(t, "at")) * time.Microsecond),
				Status: rapid.SampledFrom([]int{0, 199, 200, 299, 300, 503}).Draw(t, "status"), Source: storage.SourceCounted,
				Tokens:    storage.Tokens{Input: count.Draw(t, "input"), CachedInput: count.Draw(t, "cached"), Output: count.Draw(t, "output"), Reasoning: count.Draw(t, "reasoning")},
				CostNanos: count.Draw(t, "cost"),
			}
			if rapid.Bool().Draw(t, "charged") {
				u.Charged = &storage.BudgetPeriod{KeyID: key, Period: storage.PeriodDay, Start: epoch.Add(time.Duration(rapid.IntRange(0, 1).Draw(t, "day")) * 24 * time.Hour)}
			}
			return u
		})
		kept := map[string]storage.Usage{}
		for _, batch := range rapid.SliceOfN(rapid.SliceOfN(row, 0, 8), 1, 3).Draw(t, "batches") {
			want := 0
			for _, u := range batch {
				if _, there := kept[u.RequestID]; !there {
					kept[u.RequestID] = u
					want++
				}
			}
			n, err := s.InsertUsage(ctx, batch)
			if err != nil || n != want {
				t.Fatalf("inserted %d, %v; want %d", n, err, want)
			}
		}
		var all []*storage.Usage
		spent := map[storage.BudgetPeriod]int64{}
		for _, u := range kept {
			all = append(all, &u)
			if u.Charged != nil && u.CostNanos != nil {
				spent[*u.Charged] += *u.CostNanos
			}
		}
		for _, g := range []storage.Grain{storage.GrainHour, storage.GrainDay} {
			equal(t, "sums", sumsOf(t, s, storage.RollupQuery{Grain: g, KeyID: key}), rows.Rollups(g, all))
		}
		for b, want := range spent {
			if st, err := s.Budget(ctx, b); err != nil || st.SpentNanos != want {
				t.Fatalf("spent of %v: %v, %v; want %d", b, st, err, want)
			}
		}
	})
	sound(t, s)
}

func testUsagePrune(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	budget := storage.BudgetPeriod{KeyID: "k", Period: storage.PeriodTotal}
	var batch []storage.Usage
	for n := range 96 { // one each half hour
		u := simpleUsage(n)
		u.At = epoch.Add(time.Duration(n) * 30 * time.Minute)
		u.Charged = &budget
		batch = append(batch, u)
	}
	_, err := s.InsertUsage(ctx, batch)
	ok(t, err)
	forget := storage.Retention{Rows: epoch.Add(30 * time.Hour), Hours: epoch.Add(10 * time.Hour), Days: epoch.Add(time.Hour), Most: 25}
	total, calls := 0, 0
	for more := true; more; calls++ {
		var n int
		n, more, err = s.PruneUsage(ctx, forget)
		ok(t, err)
		if n > 3*forget.Most {
			t.Errorf("%d rows at once; want at most %d of each", n, forget.Most)
		}
		total += n
		if calls > 20 {
			t.Fatal("it does not end")
		}
	}
	equal(t, "deleted", total, 60+10+1)
	equal(t, "calls", calls, 3)
	equal(t, "rows that stay", usageOf(t, s, storage.UsageQuery{}), batch[60:])
	equal(t, "hours that stay", len(sumsOf(t, s, storage.RollupQuery{Grain: storage.GrainHour})), 38)
	equal(t, "days that stay", len(sumsOf(t, s, storage.RollupQuery{Grain: storage.GrainDay})), 1)
	st, err := s.Budget(ctx, budget)
	ok(t, err)
	equal(t, "spent stays", st.SpentNanos, int64(96*1000))
	sound(t, s)

	// What is late is kept all the same, and is no damage.
	late := simpleUsage(5000)
	late.At = epoch
	n, err := s.InsertUsage(ctx, []storage.Usage{late})
	ok(t, err)
	equal(t, "late", n, 1)
	sound(t, s)
	n, more, err := s.PruneUsage(ctx, storage.Retention{Most: 1})
	ok(t, err)
	equal(t, "no time, nothing forgotten", n, 0)
	equal(t, "no time, nothing left", more, false)
}
