package record_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/storage/record"
)

// testConfig is small, so that its bounds are met soon.
func testConfig(dir string) record.Config {
	cfg := record.DefaultConfig()
	cfg.Dir = dir
	cfg.MaxBytes = 1 << 20
	cfg.BufferBytes = 64 << 10
	cfg.MaxEntryBytes = 4 << 10
	return cfg
}

func newLog(t *testing.T, cfg record.Config) *record.Log {
	t.Helper()
	l, err := record.New(cfg, record.Deps{Key: record.NewKey(), Writer: "test v1"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// run runs the log until the returned function is called, which returns what Run
// did.
func run(t *testing.T, l *record.Log) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
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

func TestRoundTripOverRuns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "record")
	var want []line
	for part := range 3 {
		l := newLog(t, testConfig(dir))
		// Before Run, too, entries are taken.
		for i := range 5 {
			w := line{Type: record.Type(i + 1), At: time.Duration(part*100+i) * time.Nanosecond, Payload: fmt.Sprintf("%d.%d", part, i)}
			if err := l.Append(w.Type, base().Add(w.At), []byte(w.Payload)); err != nil {
				t.Fatal(err)
			}
			want = append(want, w)
		}
		stop := run(t, l)
		if err := l.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, mustRead(t, dir)); diff != "" {
			t.Errorf("while it is written (-want +got):\n%s", diff)
		}
		// What is left in the buffer is written at the end.
		w := line{Type: record.MaxType, At: time.Duration(part) * time.Hour}
		if err := l.Append(w.Type, base().Add(w.At), nil); err != nil {
			t.Fatal(err)
		}
		want = append(want, w)
		mustStop(t, stop)
		if err := l.Append(1, base(), nil); !errors.Is(err, record.ErrClosed) {
			t.Errorf("Append after Run: %v, want ErrClosed", err)
		}
		if err := l.Flush(t.Context()); !errors.Is(err, record.ErrClosed) {
			t.Errorf("Flush after Run: %v, want ErrClosed", err)
		}
		if diff := cmp.Diff(record.Stats{Appended: 6, Closed: 1}, l.Stats()); diff != "" {
			t.Errorf("stats (-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff(want, mustRead(t, dir)); diff != "" {
		t.Errorf("at the end (-want +got):\n%s", diff)
	}
}

func TestEntriesSayWhereTheyStand(t *testing.T) {
	dir := t.TempDir()
	key := record.NewKey()
	l, err := record.New(testConfig(dir), record.Deps{Key: key, Writer: "llmgw v1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.Append(7, base(), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	runOnce(t, l)
	r, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var offsets []int64
	for e, err := range r.Entries(time.Time{}, time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		offsets = append(offsets, e.Offset)
		want := record.Segment{File: "00000000000000000001.rec", Sequence: 1, Writer: "llmgw v1.2.3", Key: key.ID(), Created: e.Segment.Created}
		if diff := cmp.Diff(want, *e.Segment); diff != "" {
			t.Errorf("segment (-want +got):\n%s", diff)
		}
		if e.Segment.Created.IsZero() {
			t.Error("no creation time")
		}
	}
	if diff := cmp.Diff([]int64{104, 125}, offsets); diff != "" {
		t.Errorf("offsets (-want +got):\n%s", diff)
	}
}

func TestTimeRange(t *testing.T) {
	dir := t.TempDir()
	// Two segments, times out of order in each.
	for _, minutes := range [][]int{{0, 30, 10}, {40, 20, 50}} {
		l := newLog(t, testConfig(dir))
		for _, m := range minutes {
			if err := l.Append(1, base().Add(time.Duration(m)*time.Minute), nil); err != nil {
				t.Fatal(err)
			}
		}
		runOnce(t, l)
	}
	at := func(minutes int) time.Time { return base().Add(time.Duration(minutes) * time.Minute) }
	tests := []struct {
		name     string
		from, to time.Time
		want     []int
	}{
		{"all", time.Time{}, time.Time{}, []int{0, 30, 10, 40, 20, 50}},
		{"from is included", at(30), time.Time{}, []int{30, 40, 50}},
		{"to is not", time.Time{}, at(30), []int{0, 10, 20}},
		{"both", at(10), at(41), []int{30, 10, 40, 20}},
		{"one segment", at(40), at(60), []int{40, 50}},
		{"one instant", at(20), at(20).Add(1), []int{20}},
		{"none", at(60), at(70), nil},
		{"upside down", at(40), at(10), nil},
		{"years that no entry can have", time.Date(1000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC), []int{0, 30, 10, 40, 20, 50}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			lines, errs := read(t, dir, tt.from, tt.to)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			var got []int
			for _, l := range lines {
				got = append(got, int(l.At/time.Minute))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("minutes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnIterationEndsWhenItsReaderDoes(t *testing.T) {
	dir := t.TempDir()
	l := newLog(t, testConfig(dir))
	for range 3 {
		_ = l.Append(1, base(), nil)
	}
	runOnce(t, l)
	r, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n := 0
	for range r.Entries(time.Time{}, time.Time{}) {
		n++
		break
	}
	if n != 1 {
		t.Errorf("%d entries after a break", n)
	}
}

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

func directorySize(t *testing.T, dir string) (bytes int64, files int) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.rec"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		bytes += info.Size()
	}
	return bytes, len(names)
}

func TestSizeIsBounded(t *testing.T) {
	dir := t.TempDir()
	// What others left counts, and goes first.
	foreign := filepath.Join(dir, "00000000000000000041.rec")
	if err := os.WriteFile(foreign, make([]byte, 700<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	stranger := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(stranger, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := testConfig(dir)
	next := 0
	var largest int64
	for range 3 { // runs
		l := newLog(t, cfg)
		stop := run(t, l)
		for range 60 {
			for range 10 {
				payload := binary.LittleEndian.AppendUint64(make([]byte, 0, 4<<10), uint64(next))
				if err := l.Append(1, base(), payload[:4<<10]); err != nil {
					t.Fatal(err)
				}
				next++
			}
			if err := l.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			size, _ := directorySize(t, dir)
			largest = max(largest, size)
		}
		mustStop(t, stop)
		size, _ := directorySize(t, dir)
		largest = max(largest, size)
	}
	if largest > cfg.MaxBytes {
		t.Errorf("the log grew to %d bytes, more than %d", largest, cfg.MaxBytes)
	}
	if _, err := os.Stat(foreign); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the oldest segment is still there: %v", err)
	}
	if _, err := os.Stat(stranger); err != nil {
		t.Errorf("a file that is no segment: %v", err)
	}
	lines := mustRead(t, dir)
	for i, l := range lines {
		if got, want := binary.LittleEndian.Uint64([]byte(l.Payload)), uint64(next-len(lines)+i); got != want {
			t.Fatalf("record %d is %d, want %d: the newest without a hole", i, got, want)
		}
	}
	// The bound is used, but for a share of an eighth.
	if kept := int64(len(lines)) * (4<<10 + 20); kept < cfg.MaxBytes*3/4 {
		t.Errorf("%d bytes are kept of %d", kept, cfg.MaxBytes)
	}
}

func TestAgeIsBounded(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig(dir)
		cfg.MaxAge = time.Hour
		l := newLog(t, cfg)
		stop := run(t, l)
		for i := range 4 * 60 {
			if err := l.Append(1, time.Now(), nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute) // of the bubble's time
			synctest.Wait()
			lines := mustRead(t, dir)
			oldest := time.Since(base().Add(lines[0].At))
			if oldest > cfg.MaxAge+cfg.FlushInterval {
				t.Fatalf("after %d minutes an entry is %v old", i+1, oldest)
			}
			if want := min(i+1, 60*7/8-1); len(lines) < want {
				t.Fatalf("after %d minutes there are %d entries, want %d or more", i+1, len(lines), want)
			}
		}
		// Nothing new comes, and the old goes all the same.
		time.Sleep(cfg.MaxAge + time.Minute)
		synctest.Wait()
		if lines := mustRead(t, dir); len(lines) > 0 {
			t.Errorf("%d entries after an hour without any", len(lines))
		}
		if _, files := directorySize(t, dir); files != 0 {
			t.Errorf("%d files after an hour without entries", files)
		}
		mustStop(t, stop)
	})
}

// What is appended is in the file after the flush interval, without Flush.
func TestFlushInterval(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig(dir)
		l := newLog(t, cfg)
		stop := run(t, l)
		synctest.Wait()
		if err := l.Append(1, time.Now(), nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := len(mustRead(t, dir)); n != 0 {
			t.Errorf("%d entries at once, want them buffered", n)
		}
		time.Sleep(cfg.FlushInterval)
		synctest.Wait()
		if n := len(mustRead(t, dir)); n != 1 {
			t.Errorf("%d entries after the interval, want 1", n)
		}
		// Half a buffer is written without waiting.
		for range 9 {
			if err := l.Append(1, time.Now(), make([]byte, 4<<10)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := len(mustRead(t, dir)); n < 9 {
			t.Errorf("%d entries, want those of half a buffer", n)
		}
		mustStop(t, stop)
	})
}

func TestFlushWaitsAsLongAsItsContext(t *testing.T) {
	l := newLog(t, testConfig(t.TempDir())) // nobody runs it
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := l.Flush(ctx); !errors.Is(err, cause) {
		t.Errorf("Flush: %v, want the context's cause", err)
	}
}

func TestOneLogAtATime(t *testing.T) {
	dir := t.TempDir()
	first := newLog(t, testConfig(dir))
	stop := run(t, first)
	if err := first.Flush(t.Context()); err != nil { // it has the lock
		t.Fatal(err)
	}
	second := newLog(t, testConfig(dir))
	_ = second.Append(1, base(), nil)
	if err := second.Run(t.Context()); !errors.Is(err, record.ErrInUse) {
		t.Errorf("a second log: %v, want ErrInUse", err)
	}
	if s := second.Stats(); s.Lost != 1 {
		t.Errorf("stats of the second %+v, want one lost", s)
	}
	mustStop(t, stop)
	runOnce(t, newLog(t, testConfig(dir)))
}

func TestBadDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := newLog(t, testConfig(file)).Run(t.Context()); err == nil {
		t.Error("a file was taken for a directory")
	}
	if _, err := record.Open(filepath.Join(file, "no")); err == nil {
		t.Error("Open of what is not there succeeded")
	}
	if _, err := record.Open(filepath.Join(filepath.Dir(file), "no")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open: %v, want fs.ErrNotExist", err)
	}
}
