package storagetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/llmgw/llmgw/storage"
)

// BenchmarkInsertUsage inserts batches of rows as a busy gateway has them: 200
// keys, 20 models, spread over an hour, half of them charged to a budget. It
// reports rows per second.
func BenchmarkInsertUsage(b *testing.B, s storage.Store) {
	for _, size := range []int{1, 50, 500, 2000} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			batch := make([]storage.Usage, size)
			n := 0
			start := time.Now()
			prefix := fmt.Sprint(start.UnixNano())
			for b.Loop() {
				for i := range batch {
					n++
					u := simpleUsage(n)
					u.RequestID = fmt.Sprintf("%08x-%s-%d", uint32(n)*2654435761, prefix, n) // in no order
					u.KeyID = fmt.Sprintf("key_%013d", n%200)
					u.Model, u.Asked = fmt.Sprintf("model-%d", n%20), "alias"
					u.Endpoint, u.Router = fmt.Sprintf("node-%d/0", n%50), "router-1"
					u.At = epoch.Add(time.Duration(n%3600) * time.Second)
					u.TTFT = new(80 * time.Millisecond)
					if n%2 == 0 {
						u.Charged = &storage.BudgetPeriod{KeyID: u.KeyID, Period: storage.PeriodDay, Start: epoch}
					}
					batch[i] = u
				}
				if _, err := s.InsertUsage(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)/time.Since(start).Seconds(), "rows/s")
		})
	}
}
