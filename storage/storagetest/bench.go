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
