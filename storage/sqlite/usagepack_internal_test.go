package sqlite

import (
	"bytes"
	"testing"
	"time"

	"github.com/llmgw/llmgw/storage"
)

// A pack that is damaged in whatever way is said to be, or read to some end; one that
// is read whole has the rows that it says.
func FuzzReadPack(f *testing.F) {
	var p packer
	p.begin()
	for i, text := range []string{"req_019cab3f00b80123456789abcdef0123", "req_019cab3f00b80123456789abcdef0124.mine", "other"} {
		id := parseID(text)
		at := time.UnixMilli(0x019cab3f00b8).Add(time.Duration(i) * time.Second)
		p.add(&storage.Usage{RequestID: text, At: at, Latency: time.Second, TTFT: new(time.Millisecond), CostNanos: new(int64(7))}, at.UnixMicro(), &id, 1, 300)
	}
	first, last := p.first, p.last
	f.Add(p.blob())
	f.Add([]byte{packVersion, 0, 0})
	f.Fuzz(func(t *testing.T, blob []byte) {
		p, err := readPack(1, first, last, bytes.Clone(blob))
		if err != nil {
			return
		}
		rows := 0
		for want := p.left; ; rows++ {
			more, err := p.advance()
			if err != nil {
				return
			}
			if !more {
				if rows != want {
					t.Fatalf("%d rows of %d", rows, want)
				}
				return
			}
			if p.row.at < first || p.row.latency < 0 {
				t.Fatalf("a row at %d of %d ns", p.row.at, p.row.latency)
			}
			_ = p.row.id.String()
		}
	})
}
