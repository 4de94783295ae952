package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

var errDisk = errors.New("no space left on device")

// disk is a faulty disk: it takes so many bytes more and then refuses.
type disk struct {
	room       int  // bytes; negative: no bound
	noTruncate bool // what was written torn cannot be cut off
	syncs      int
	stalled    chan struct{} // if not nil, a write says here that it has begun
	resume     chan struct{} // and waits for this
}

type diskFile struct {
	segmentFile
	disk *disk
}

func (f *diskFile) Write(b []byte) (int, error) {
	if f.disk.stalled != nil {
		f.disk.stalled <- struct{}{}
		<-f.disk.resume
	}
	if f.disk.room < 0 || len(b) <= f.disk.room {
		if f.disk.room > 0 {
			f.disk.room -= len(b)
		}
		return f.segmentFile.Write(b)
	}
	n, err := f.segmentFile.Write(b[:f.disk.room])
	f.disk.room = 0
	return n, errors.Join(err, errDisk)
}

func (f *diskFile) Truncate(size int64) error {
	if f.disk.noTruncate {
		return errDisk
	}
	return f.segmentFile.Truncate(size)
}

func (f *diskFile) Sync() error {
	f.disk.syncs++
	return f.segmentFile.Sync()
}

// faultyLog is a log on a faulty disk that the test steps by hand.
func faultyLog(t *testing.T, d *disk, deps Deps) *Log {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Dir = t.TempDir()
	cfg.MaxBytes, cfg.BufferBytes, cfg.MaxEntryBytes = 1<<20, 64<<10, 4<<10
	deps.Key = NewKey()
	l, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	if l.dir, err = openDirectory(cfg, deps); err != nil {
		t.Fatal(err)
	}
	create := l.dir.create
	l.dir.create = func(name string) (segmentFile, error) {
		f, err := create(name)
		return &diskFile{f, d}, err
	}
	return l
}

// numbers returns the records of a log in order, each of which is a number, and
// how many tears there are.
func numbers(t *testing.T, dir string) (got []uint64, torn int) {
	t.Helper()
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for e, err := range r.Entries(time.Time{}, time.Time{}) {
		switch {
		case errors.Is(err, ErrTorn):
			torn++
		case err != nil:
			t.Fatal(err)
		case e.Type == 1:
			got = append(got, binary.LittleEndian.Uint64(e.Payload))
		}
	}
	return got, torn
}

func put(t *testing.T, l *Log, n uint64) {
	t.Helper()
	if err := l.Append(1, time.Unix(int64(n), 0), binary.LittleEndian.AppendUint64(nil, n)); err != nil {
		t.Fatal(err)
	}
}

func wantNumbers(t *testing.T, when string, got []uint64, n int) {
	t.Helper()
	for i, v := range got {
		if v != uint64(i) {
			t.Fatalf("%s: record %d is %d: %v", when, i, v, got)
		}
	}
	if len(got) != n {
		t.Fatalf("%s: %d records, want %d", when, len(got), n)
	}
}

// A disk that is full after any number of bytes costs no record and doubles none,
// once there is room again.
func TestFullDiskAtEveryByte(t *testing.T) {
	for _, noTruncate := range []bool{false, true} {
		for room := range segmentHeader + 6*28 + sealEntry {
			when := fmt.Sprintf("room for %d bytes, truncate fails: %v", room, noTruncate)
			d := &disk{room: room, noTruncate: noTruncate}
			l := faultyLog(t, d, Deps{})
			now := time.Unix(1e9, 0)
			failed := false
			for i := range 6 {
				put(t, l, uint64(i))
				failed = l.step(now) != nil || failed
			}
			if want := room < segmentHeader+6*28; failed != want {
				t.Fatalf("%s: failed %v, want %v", when, failed, want)
			}
			d.room = -1
			put(t, l, 6)
			if err := l.step(now); err != nil {
				t.Fatalf("%s: with room again: %v", when, err)
			}
			if err := l.finish(); err != nil {
				t.Fatalf("%s: finish: %v", when, err)
			}
			got, torn := numbers(t, l.cfg.Dir)
			wantNumbers(t, when, got, 7)
			if torn > 0 && !noTruncate {
				t.Fatalf("%s: %d tears, though they could be cut off", when, torn)
			}
			if s := l.Stats(); s.Appended != 7 || s.Dropped() != 0 {
				t.Fatalf("%s: stats %+v", when, s)
			}
			if l.dir.total != sizeOf(t, l.cfg.Dir) {
				t.Fatalf("%s: %d bytes are counted, there are %d", when, l.dir.total, sizeOf(t, l.cfg.Dir))
			}
		}
	}
}

func sizeOf(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		bytes += info.Size()
	}
	return bytes
}

// A disk that stays full: the buffer fills, then records are dropped, the log
// says so once, and the end says what is lost.
func TestFullDiskToTheEnd(t *testing.T) {
	var logged bytes.Buffer
	reg := prometheus.NewRegistry()
	d := &disk{room: segmentHeader + 100}
	l := faultyLog(t, d, Deps{
		Logger:     slog.New(slog.NewTextHandler(&logged, nil)),
		Registerer: reg,
	})
	now := time.Unix(1e9, 0)
	payload := make([]byte, 4<<10)
	full := 0
	for range 100 {
		if errors.Is(l.Append(1, now, payload), ErrFull) {
			full++
		}
		if err := l.step(now); !errors.Is(err, errDisk) {
			t.Fatalf("step: %v, want the disk's error", err)
		}
	}
	err := l.finish()
	s := l.Stats()
	if !errors.Is(err, errDisk) || !strings.Contains(err.Error(), fmt.Sprintf("%d records are lost", s.Lost)) {
		t.Errorf("finish: %v, want the number that is lost and the disk's error", err)
	}
	if full == 0 || s.Full != uint64(full) || s.Lost != s.Appended || s.Appended != 100-s.Full {
		t.Errorf("stats %+v with %d refused", s, full)
	}
	for message, want := range map[string]int{"cannot be written": 1, "records are dropped": 1, "written again": 0} {
		if got := strings.Count(logged.String(), message); got != want {
			t.Errorf("%q is logged %d times, want %d:\n%s", message, got, want, logged.String())
		}
	}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(fmt.Sprintf(`
# HELP llmgw_record_appended_total Records taken.
# TYPE llmgw_record_appended_total counter
llmgw_record_appended_total %d
# HELP llmgw_record_bytes Bytes of the log's segments.
# TYPE llmgw_record_bytes gauge
llmgw_record_bytes 0
# HELP llmgw_record_disk_errors_total Times that writing the log, or keeping it within its bounds, failed.
# TYPE llmgw_record_disk_errors_total counter
llmgw_record_disk_errors_total 100
# HELP llmgw_record_dropped_total Records that are not in the log, by reason (full, invalid, closed, lost: taken, and could not be written at the end).
# TYPE llmgw_record_dropped_total counter
llmgw_record_dropped_total{reason="closed"} 0
llmgw_record_dropped_total{reason="full"} %d
llmgw_record_dropped_total{reason="invalid"} 0
llmgw_record_dropped_total{reason="lost"} %d
# HELP llmgw_record_segments Files of the log.
# TYPE llmgw_record_segments gauge
llmgw_record_segments 0
`, s.Appended, s.Full, s.Lost))); err != nil {
		t.Error(err)
	}
}

// While the disk does not answer, records are taken as long as there is room, and
// then dropped; nobody waits.
func TestStalledDiskBlocksNobody(t *testing.T) {
	d := &disk{room: -1, stalled: make(chan struct{}), resume: make(chan struct{})}
	l := faultyLog(t, d, Deps{})
	now := time.Unix(1e9, 0)
	put(t, l, 0)
	stepped := make(chan error, 1)
	go func() { stepped <- l.step(now) }()
	<-d.stalled // in the header's write
	taken := uint64(1)
	for ; ; taken++ {
		err := l.Append(1, now, binary.LittleEndian.AppendUint64(nil, taken))
		if errors.Is(err, ErrFull) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if want := uint64(1 + 64<<10/28); taken != want {
		t.Errorf("%d records were taken, want %d", taken, want)
	}
	if s := l.Stats(); s.Appended != taken || s.Full != 1 {
		t.Errorf("stats %+v, want %d taken and one dropped", s, taken)
	}
	d.resume <- struct{}{}
	for range 2 { // the first record, and the rest
		<-d.stalled
		d.resume <- struct{}{}
	}
	if err := <-stepped; err != nil {
		t.Fatal(err)
	}
	d.stalled = nil
	if err := l.finish(); err != nil {
		t.Fatal(err)
	}
	got, _ := numbers(t, l.cfg.Dir)
	wantNumbers(t, "at the end", got, int(taken))
}

// When the disk heals, the log says so, and a gap tells what was dropped.
func TestDiskHeals(t *testing.T) {
	var logged bytes.Buffer
	d := &disk{}
	l := faultyLog(t, d, Deps{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	now := time.Unix(1e9, 0)
	for range 40 {
		_ = l.Append(2, now, make([]byte, 4<<10))
		_ = l.step(now)
	}
	d.room = -1
	for range 2 {
		if err := l.step(now); err != nil {
			t.Fatal(err)
		}
	}
	for _, message := range []string{"cannot be written", "written again", `"records are dropped`, "dropped any more"} {
		if n := strings.Count(logged.String(), message); n != 1 {
			t.Errorf("%q is logged %d times, want once:\n%s", message, n, logged.String())
		}
	}
	if err := l.finish(); err != nil {
		t.Fatal(err)
	}
	r, err := Open(l.cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var entries, gaps uint64
	for e, err := range r.Entries(time.Time{}, time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		if g, ok := ParseGap(e); ok {
			gaps += g.Dropped
		} else {
			entries++
		}
	}
	if s := l.Stats(); entries != s.Appended || gaps != s.Full || entries+gaps != 40 {
		t.Errorf("%d records and gaps for %d; stats %+v", entries, gaps, s)
	}
}

func TestSyncs(t *testing.T) {
	now := time.Unix(1e9, 0)
	step := func(l *Log, after time.Duration) {
		t.Helper()
		put(t, l, 0)
		if err := l.step(now.Add(after)); err != nil {
			t.Fatal(err)
		}
	}
	d := &disk{room: -1}
	l := faultyLog(t, d, Deps{})
	l.synced = now
	for _, tt := range []struct {
		after time.Duration
		want  int
	}{{0, 0}, {29 * time.Second, 0}, {30 * time.Second, 1}, {59 * time.Second, 1}, {time.Hour, 2}} {
		if step(l, tt.after); d.syncs != tt.want {
			t.Errorf("after %v: %d syncs, want %d", tt.after, d.syncs, tt.want)
		}
	}
	if err := l.step(now.Add(2 * time.Hour)); err != nil || d.syncs != 2 {
		t.Errorf("without anything new: %d syncs, want 2 (%v)", d.syncs, err)
	}
	if err := l.finish(); err != nil || d.syncs != 3 {
		t.Errorf("at the end: %d syncs, want 3 (%v)", d.syncs, err)
	}

	d = &disk{room: -1}
	l = faultyLog(t, d, Deps{})
	l.cfg.SyncInterval = 0
	if step(l, time.Hour); d.syncs != 0 {
		t.Errorf("interval 0: %d syncs before the segment is complete, want none", d.syncs)
	}
	if err := l.finish(); err != nil || d.syncs != 1 {
		t.Errorf("interval 0: %d syncs at the end, want 1 (%v)", d.syncs, err)
	}
}

// A process that starts again and again does not fill the directory with files.
func TestFilesAreBounded(t *testing.T) {
	l := faultyLog(t, &disk{room: -1}, Deps{})
	for i := range maxSegments + 5 {
		l.dir.old = append(l.dir.old, oldSegment{name: segmentName(uint64(i + 1)), began: time.Unix(1e9, 0)})
	}
	l.dir.next = maxSegments + 6
	put(t, l, 0)
	if err := l.step(time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	if n := l.dir.segments(); n != maxSegments {
		t.Errorf("%d segments, want %d", n, maxSegments)
	}
	if err := l.finish(); err != nil {
		t.Fatal(err)
	}
}

func TestSegmentNames(t *testing.T) {
	for _, n := range []uint64{0, 1, 1<<63 - 1} {
		if got, ok := parseName(segmentName(n)); !ok || got != n {
			t.Errorf("%d comes back as %d, %v", n, got, ok)
		}
	}
	for _, name := range []string{"", ".rec", "1.rec", segmentName(1) + "x", "+0000000000000000001.rec", segmentName(1 << 63), "00000000000000000001.REC", "0000000000000000000a.rec"} {
		if n, ok := parseName(name); ok {
			t.Errorf("%q is taken for segment %d", name, n)
		}
	}
}

func TestWriterNameIsCutBetweenCharacters(t *testing.T) {
	long := strings.Repeat("é", 40) // 80 bytes
	s, err := parseHeader(appendHeader(nil, &Segment{Writer: long, Sequence: 3, Key: 5, Run: 9, Created: time.Unix(7, 8)}), "f", segmentHeader)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Segment{File: "f", Writer: long[:64], Sequence: 3, Key: 5, Run: 9, Created: time.Unix(7, 8).UTC()}); *s != want {
		t.Errorf("header %+v, want %+v", *s, want)
	}
}
