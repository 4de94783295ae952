package storagetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/llmgw/llmgw/storage"
)

// BenchmarkInsertUsage inserts batches of rows as a busy gateway has them: 200
// keys, 20 models, within an hour, identities that begin with the time as the
// router makes them, half of the rows charged to a budget; and batches whose
// identities are in no order. It reports rows per second.
func BenchmarkInsertUsage(b *testing.B, s storage.Store) {
	n := 0
	bench := func(name string, size int, id func(n int) string) {
		b.Run(name, func(b *testing.B) {
			batch := make([]storage.Usage, size)
			rows := 0
			for b.Loop() {
				b.StopTimer()
				for i := range batch {
					n++
					u := simpleUsage(n)
					u.RequestID = id(n)
					u.KeyID = fmt.Sprintf("key_%013d", n%200)
					u.Model, u.Asked = fmt.Sprintf("model-%d", n%20), "alias"
					u.Endpoint, u.Router = fmt.Sprintf("node-%d/0", n%50), "router-1"
					u.At = epoch.Add(time.Duration(n) * 50 * time.Microsecond)
					u.TTFT = new(80 * time.Millisecond)
					if n%2 == 0 {
						u.Charged = &storage.BudgetPeriod{KeyID: u.KeyID, Period: storage.PeriodDay, Start: epoch}
					}
					batch[i] = u
				}
				b.StartTimer()
				if _, err := s.InsertUsage(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
				rows += size
			}
			b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
		})
	}
	run := time.Now().UnixMilli()
	ordered := func(n int) string { return fmt.Sprintf("req_%012x%08x%012x", run+int64(n/20), uint32(n)*2654435761, n) }
	for _, size := range []int{1, 50, 500, 2000} {
		bench(fmt.Sprintf("batch=%d", size), size, ordered)
	}
	bench("batch=2000/ids=any", 2000, func(n int) string { return fmt.Sprintf("%08x-%d-%d", uint32(n)*2654435761, run, n) })
}

// BenchmarkAccounts asks a store of 1,000 accounts with ten keys and two sessions each
// what the pages ask.
func BenchmarkAccounts(b *testing.B, s storage.Store) {
	ctx := b.Context()
	const accounts, keys = 1000, 10
	for n := range accounts {
		a := simpleAccount(n)
		ok(b, s.CreateAccount(ctx, a, 0, because(a.ID)))
		for i := range keys {
			k := accountKey(a.ID, i)
			ok(b, s.CreateAccountKey(ctx, k, keys, because(k.ID)))
		}
		for i := range 2 {
			ok(b, s.CreateSession(ctx, simpleSession(a.ID, 2*n+i), 20))
		}
	}
	n := 0
	ask := func(name string, f func() error) {
		b.Run(fmt.Sprintf("%s/accounts=%d", name, accounts), func(b *testing.B) {
			for b.Loop() {
				n = (n + 7) % accounts
				ok(b, f())
			}
		})
	}
	list := func(q storage.KeyQuery) func() error {
		return func() error {
			q.Limit = 10_000
			got, _, err := s.ListKeys(ctx, q)
			if err == nil && len(got) != accounts*keys {
				return fmt.Errorf("%d keys", len(got))
			}
			return err
		}
	}
	ask("Session", func() error {
		_, _, err := s.Session(ctx, simpleSession("", 2*n).Hash, epoch, epoch)
		return err
	})
	at := epoch.Add(time.Hour)
	ask("TouchSession", func() error {
		at = at.Add(time.Microsecond)
		return s.TouchSession(ctx, simpleSession("", 2*n).ID, at)
	})
	ask("KeyByHash", func() error { _, err := s.KeyByHash(ctx, accountKey(simpleAccount(n).ID, 3).Hash); return err })
	ask("KeysOfAccount", func() error {
		_, _, err := s.ListKeys(ctx, storage.KeyQuery{Account: simpleAccount(n).ID})
		return err
	})
	ask("ListKeys", list(storage.KeyQuery{}))
	ask("ListKeysUsable", list(storage.KeyQuery{Usable: epoch}))
	ask("ListAccounts", func() error {
		_, _, err := s.ListAccounts(ctx, storage.AccountQuery{}, epoch)
		return err
	})
	ask("RollupsOfAccount", func() error {
		_, _, err := s.ListRollups(ctx, storage.RollupQuery{Grain: storage.GrainDay, Lineage: simpleAccount(n).ID})
		return err
	})
	ask("TakeAttempt", func() error {
		_, err := s.TakeAttempt(ctx, uint32(n), epoch.Add(time.Duration(n)*time.Hour), throttle()) //nolint:gosec // small
		return err
	})
}
