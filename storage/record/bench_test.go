package record_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/llmgw/llmgw/storage/record"
)

func TestAppendAllocatesNothing(t *testing.T) {
	l := newLog(t, testConfig(t.TempDir()))
	ring := newRing(t, record.Key{})
	payload := make([]byte, 32)
	now := time.Now()
	key := record.NewKey()
	var sum uint64
	for name, f := range map[string]func(){
		"log":     func() { _ = l.Append(1, now, payload) },
		"ring":    func() { _ = ring.Append(1, now, payload) }, // but for one chunk in a sixteenth of the ring
		"invalid": func() { _ = l.Append(0, now, payload) },
		"fingerprint": func() {
			sum += key.Fingerprint("a text that is longer than what fits into a small buffer on the stack")
		},
	} {
		if n := testing.AllocsPerRun(1000, f); n != 0 {
			t.Errorf("%s: %v allocations, want none", name, n)
		}
	}
	for !errors.Is(l.Append(1, now, payload), record.ErrFull) { // fills it
		continue
	}
	if n := testing.AllocsPerRun(1000, func() { _ = l.Append(1, now, payload) }); n != 0 {
		t.Errorf("full: %v allocations, want none", n)
	}
	if sum == 0 {
		t.Error("no fingerprints")
	}
}

// BenchmarkAppend is of records that are taken: the buffer is emptied beside the
// measured time.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{64, 256, 1024} {
		b.Run(fmt.Sprintf("payload=%d", size), func(b *testing.B) {
			cfg := record.DefaultConfig()
			cfg.Dir = b.TempDir()
			l := newLog(b, cfg)
			stop := run(b, l)
			payload := make([]byte, size)
			now := time.Now()
			room := int(cfg.BufferBytes) / (size + 20)
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				_ = l.Append(1, now, payload)
				if n++; n%room == 0 {
					b.StopTimer()
					if err := l.Flush(b.Context()); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
			}
			if err := stop(); err != nil {
				b.Fatal(err)
			}
			if s := l.Stats(); s.Dropped() > 0 {
				b.Errorf("%d records were dropped", s.Dropped())
			}
		})
	}
}

// BenchmarkAppendFlatOut is of callers on all processors that append without a
// pause, far faster than can be written; it says what share is taken.
func BenchmarkAppendFlatOut(b *testing.B) {
	cfg := record.DefaultConfig()
	cfg.Dir = b.TempDir()
	l := newLog(b, cfg)
	stop := run(b, l)
	now := time.Now()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		payload := make([]byte, 256)
		for pb.Next() {
			_ = l.Append(1, now, payload)
		}
	})
	b.StopTimer() // the end waits for the disk
	if err := stop(); err != nil {
		b.Fatal(err)
	}
	s := l.Stats()
	b.ReportMetric(float64(s.Appended)/float64(b.N), "taken/op")
	b.ReportMetric(float64(s.Appended)/b.Elapsed().Seconds(), "taken/s")
}

func BenchmarkRingAppend(b *testing.B) {
	r, err := record.NewRing(record.DefaultRingConfig(), record.Key{})
	if err != nil {
		b.Fatal(err)
	}
	payload := make([]byte, 256)
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		_ = r.Append(1, now, payload)
	}
}

func BenchmarkFingerprint(b *testing.B) {
	key := record.NewKey()
	for _, size := range []int{16, 1024} {
		text := string(make([]byte, size))
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				_ = key.Fingerprint(text)
			}
		})
	}
}

// BenchmarkRead reads 64 MiB of entries of 256 bytes.
func BenchmarkRead(b *testing.B) {
	cfg := record.DefaultConfig()
	cfg.Dir = b.TempDir()
	l, err := record.New(cfg, record.Deps{Key: record.NewKey()})
	if err != nil {
		b.Fatal(err)
	}
	stop := run(b, l)
	payload := make([]byte, 256)
	const entries = 64 << 20 / 276
	for i := range entries {
		if err := l.Append(1, time.Unix(0, int64(i)), payload); err != nil {
			b.Fatal(err)
		}
		if i%1000 == 0 {
			if err := l.Flush(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := stop(); err != nil {
		b.Fatal(err)
	}
	r, err := record.Open(cfg.Dir)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	b.SetBytes(entries * 276)
	for b.Loop() {
		n := 0
		for _, err := range r.Entries(time.Time{}, time.Time{}) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != entries {
			b.Fatalf("%d entries, want %d", n, entries)
		}
	}
}
