package record_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/storage/record"
)

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
		want := record.Segment{File: "00000000000000000001.rec", Sequence: 1, Writer: "llmgw v1.2.3", Key: key.ID(), Created: e.Segment.Created, Run: e.Segment.Run}
		if diff := cmp.Diff(want, *e.Segment); diff != "" {
			t.Errorf("segment (-want +got):\n%s", diff)
		}
		if e.Segment.Created.IsZero() || e.Segment.Run == 0 {
			t.Errorf("no creation time or run: %+v", *e.Segment)
		}
	}
	if diff := cmp.Diff([]int64{112, 133}, offsets); diff != "" {
		t.Errorf("offsets (-want +got):\n%s", diff)
	}
}

// Where the run changes, the writer's memory began anew.
func TestRunsAreTold(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		l := newLog(t, testConfig(dir))
		_ = l.Append(1, base(), nil)
		_ = l.Append(1, base(), nil)
		runOnce(t, l)
	}
	r, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var runs []uint64
	for e, err := range r.Entries(time.Time{}, time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, e.Segment.Run)
	}
	if len(runs) != 4 || runs[0] != runs[1] || runs[2] != runs[3] || runs[1] == runs[2] {
		t.Errorf("runs %v, want two and two", runs)
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

// A reader beside a writer sees an unbroken row of records, whatever is written and
// removed meanwhile; only the newest segment may end in the middle.
func TestReadingWhileWriting(t *testing.T) {
	dir := t.TempDir()
	l := newLog(t, testConfig(dir))
	stop := run(t, l)
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	const total = 4000 // four times what is kept
	written := make(chan error, 1)
	go func() {
		written <- func() error {
			for i := range total {
				payload := binary.LittleEndian.AppendUint32(make([]byte, 0, 1<<10), uint32(i))
				if err := l.Append(1, base(), payload[:1<<10]); err != nil {
					return err
				}
				if i%32 == 31 {
					if err := l.Flush(t.Context()); err != nil {
						return err
					}
				}
			}
			return l.Flush(t.Context())
		}()
	}()
	r, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	last := -1
	for done := false; !done; {
		select {
		case err := <-written:
			if err != nil {
				t.Fatal(err)
			}
			done = true // one more look
		default:
		}
		last = -1
		for e, err := range r.Entries(time.Time{}, time.Time{}) {
			damage, damaged := errors.AsType[*record.DamageError](err)
			switch {
			case errors.Is(err, record.ErrExpired):
				last = -1 // what is missing is older than what follows
				continue
			case damaged && damage.Newest && errors.Is(err, record.ErrTorn):
				continue
			case err != nil:
				t.Fatal(err)
			}
			n := int(binary.LittleEndian.Uint32(e.Payload))
			if last >= 0 && n != last+1 {
				t.Fatalf("record %d after %d", n, last)
			}
			last = n
		}
	}
	if last != total-1 {
		t.Errorf("the last record is %d, want %d", last, total-1)
	}
	mustStop(t, stop)
}

// Log and Ring take records alike, so that a program can use either or both.
func TestLogAndRingAppendAlike(t *testing.T) {
	type appender interface {
		Append(t record.Type, at time.Time, payload []byte) error
	}
	for _, a := range []appender{newLog(t, testConfig(t.TempDir())), newRing(t, record.Key{})} {
		if err := a.Append(1, base(), []byte("x")); err != nil {
			t.Errorf("%T: %v", a, err)
		}
	}
}
