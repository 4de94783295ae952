package record_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/storage/record"
)

func TestInvalidRecords(t *testing.T) {
	dir := t.TempDir()
	l := newLog(t, testConfig(dir))
	ok := func(payload string) {
		t.Helper()
		if err := l.Append(1, base(), []byte(payload)); err != nil {
			t.Fatal(err)
		}
	}
	ok("before")
	for name, err := range map[string]error{
		"no type":             l.Append(0, base(), nil),
		"the log's own type":  l.Append(record.TypeGap, base(), nil),
		"a type above":        l.Append(0xFFFF, base(), nil),
		"no time":             l.Append(1, time.Time{}, nil),
		"a time too far away": l.Append(1, base().AddDate(300, 0, 0), nil),
		"too long":            l.Append(1, base(), make([]byte, 4<<10+1)),
	} {
		if !errors.Is(err, record.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	ok("after")
	runOnce(t, l)
	got := mustRead(t, dir)
	if len(got) != 3 || got[0].Payload != "before" || got[1].Gap != 6 || got[2].Payload != "after" {
		t.Errorf("log %+v, want a gap of 6 between the two", got)
	}
	if got[1].At != 0 {
		t.Errorf("the gap begins %v after the first dropped record", got[1].At)
	}
	if s := l.Stats(); s.Invalid != 6 || s.Dropped() != 6 || s.Appended != 2 {
		t.Errorf("stats %+v", s)
	}
}

// The buffer is filled without anybody who writes: exactly what was refused is
// told, where it was.
func TestDropsAreExact(t *testing.T) {
	dir := t.TempDir()
	l := newLog(t, testConfig(dir))
	var taken, dropped []int
	for i := range 1000 {
		err := l.Append(1, base().Add(time.Duration(i)), binary.LittleEndian.AppendUint64(make([]byte, 0, 100), uint64(i))[:100])
		switch {
		case err == nil:
			taken = append(taken, i)
		case errors.Is(err, record.ErrFull):
			dropped = append(dropped, i)
		default:
			t.Fatal(err)
		}
	}
	if want := (64 << 10) / 120; len(taken) != want {
		t.Errorf("%d records fit, want %d", len(taken), want)
	}
	stop := run(t, l)
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(2, base(), nil); err != nil {
		t.Errorf("after the buffer was written: %v", err)
	}
	mustStop(t, stop)

	r, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var got []int
	var gaps []record.Gap
	after := 0
	for e, err := range r.Entries(time.Time{}, time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		switch g, ok := record.ParseGap(e); {
		case ok:
			gaps = append(gaps, g)
		case e.Type == 2:
			after++
			if len(gaps) != 1 {
				t.Error("the gap does not stand before what came after it")
			}
		default:
			got = append(got, int(binary.LittleEndian.Uint64(e.Payload)))
		}
	}
	if diff := cmp.Diff(taken, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	want := []record.Gap{{
		Dropped: uint64(len(dropped)),
		First:   base().Add(time.Duration(dropped[0])),
		Last:    base().Add(time.Duration(dropped[len(dropped)-1])),
	}}
	if diff := cmp.Diff(want, gaps); diff != "" {
		t.Errorf("gaps (-want +got):\n%s", diff)
	}
	if after != 1 {
		t.Errorf("%d records after the gap, want 1", after)
	}
	// A gap is found by the time of any record that it stands for.
	lines, _ := read(t, dir, want[0].Last, want[0].Last.Add(1))
	if len(lines) != 1 || lines[0].Gap == 0 {
		t.Errorf("at the gap's last time: %+v, want the gap", lines)
	}
}

// Many callers append while the log is written: each caller's records stand in
// order, and entries and gaps together are what was appended.
func TestNothingIsLostSilently(t *testing.T) {
	dir := t.TempDir()
	cfg := testConfig(dir)
	cfg.MaxBytes = 64 << 20
	l := newLog(t, cfg)
	stop := run(t, l)
	const callers, each = 8, 4000
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(c)))
			payload := make([]byte, 400)
			for i := range each {
				binary.LittleEndian.PutUint32(payload, uint32(c))
				binary.LittleEndian.PutUint32(payload[4:], uint32(i))
				_ = l.Append(1, base(), payload[:8+rng.IntN(392)])
			}
		})
	}
	wg.Wait()
	mustStop(t, stop)

	stats := l.Stats()
	if stats.Appended+stats.Full != callers*each {
		t.Errorf("stats %+v do not add up to %d", stats, callers*each)
	}
	var entries, gaps uint64
	last := [callers]int{}
	for i := range last {
		last[i] = -1
	}
	r, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for e, err := range r.Entries(time.Time{}, time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		if g, ok := record.ParseGap(e); ok {
			gaps += g.Dropped
			continue
		}
		entries++
		c, i := binary.LittleEndian.Uint32(e.Payload), int(binary.LittleEndian.Uint32(e.Payload[4:]))
		if i <= last[c] {
			t.Fatalf("caller %d: record %d after %d", c, i, last[c])
		}
		last[c] = i
	}
	if entries != stats.Appended || gaps != stats.Full {
		t.Errorf("the log has %d records and gaps for %d; stats %+v", entries, gaps, stats)
	}
	t.Logf("%d records, %d dropped", entries, gaps)
}
