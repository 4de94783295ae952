package record_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llmgw/llmgw/storage/record"
)

// runOnce writes what is buffered and ends the log.
func runOnce(tb testing.TB, l *record.Log) {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	cancel()
	if err := l.Run(ctx); err != nil {
		tb.Fatalf("Run: %v", err)
	}
}

// cmpEmpty takes no entries and none at all for the same.
func cmpEmpty() cmp.Option { return cmpopts.EquateEmpty() }

// testConfig is small, so that its bounds are met soon.
func testConfig(dir string) record.Config {
	cfg := record.DefaultConfig()
	cfg.Dir = dir
	cfg.MaxBytes = 1 << 20
	cfg.BufferBytes = 64 << 10
	cfg.MaxEntryBytes = 4 << 10
	return cfg
}

func newLog(tb testing.TB, cfg record.Config) *record.Log {
	tb.Helper()
	l, err := record.New(cfg, record.Deps{Key: record.NewKey(), Writer: "test v1"})
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// run runs the log until the returned function is called, which returns what Run
// did.
func run(tb testing.TB, l *record.Log) (stop func() error) {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	return func() error {
		cancel()
		return <-done
	}
}

func mustStop(t *testing.T, stop func() error) {
	t.Helper()
	if err := stop(); err != nil {
		t.Fatalf("Run: %v", err)
	}
}

// line is an entry as tests compare it.
type line struct {
	Type    record.Type
	At      time.Duration // since base
	Payload string
	Gap     uint64
}

func base() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC) }

func lineOf(e record.Entry) line {
	out := line{Type: e.Type, At: e.Time.Sub(base())}
	if g, ok := record.ParseGap(e); ok {
		out.Gap = g.Dropped
	} else {
		out.Payload = string(e.Payload)
	}
	return out
}

func linesOf(seq iter.Seq2[record.Entry, error]) (lines []line, errs []error) {
	for e, err := range seq {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		lines = append(lines, lineOf(e))
	}
	return lines, errs
}

func read(t *testing.T, dir string, from, to time.Time) ([]line, []error) {
	t.Helper()
	r, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	return linesOf(r.Entries(from, to))
}

func mustRead(t *testing.T, dir string) []line {
	t.Helper()
	lines, errs := read(t, dir, time.Time{}, time.Time{})
	if len(errs) > 0 {
		t.Fatalf("read: %v", errors.Join(errs...))
	}
	return lines
}
