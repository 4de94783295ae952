package workload_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/llmgw/llmgw/engines/sim/workload"
)

func BenchmarkRead(b *testing.B) {
	for _, file := range []struct{ name, path string }{{"mooncake=6000", mooncakeFile}, {"azure=10000", azureFile}, {"aibrix=192", aibrixFile}} {
		b.Run(file.name, func(b *testing.B) {
			data, err := os.ReadFile(file.path)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			rows := 0
			for b.Loop() {
				t, err := workload.Read(bytes.NewReader(data), file.name, "")
				if err != nil {
					b.Fatal(err)
				}
				rows += len(t.Requests)
			}
			b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkAppend makes the prompts of the recorded conversations, 12,774
// tokens each on average, in 25 blocks.
func BenchmarkAppend(b *testing.B) {
	t := open(b, mooncakeFile)
	p := workload.NewPrompter(t)
	var buf []byte
	bytes, n := 0, 0
	b.ReportAllocs()
	for b.Loop() {
		buf = p.Append(buf[:0], &t.Requests[n%len(t.Requests)])
		bytes += len(buf)
		n++
	}
	b.ReportMetric(float64(bytes)/1e6/b.Elapsed().Seconds(), "MB/s")
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "prompts/s")
}

func BenchmarkAppendBlockHashes(b *testing.B) {
	t := open(b, mooncakeFile)
	var buf []uint64
	hashes, n := 0, 0
	b.ReportAllocs()
	for b.Loop() {
		buf = t.AppendBlockHashes(buf[:0], &t.Requests[n%len(t.Requests)], 16)
		hashes += len(buf)
		n++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(hashes), "ns/hash")
}

func BenchmarkStats(b *testing.B) {
	t := open(b, mooncakeFile)
	b.ReportAllocs()
	for b.Loop() {
		t.Stats()
	}
}

func BenchmarkRepeat(b *testing.B) {
	t := open(b, mooncakeFile)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := t.Repeat(10); err != nil {
			b.Fatal(err)
		}
	}
}
