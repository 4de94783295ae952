package record_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/storage/record"
)

const firstSegment = "00000000000000000001.rec"

// sample writes one complete segment with a gap in it and returns its bytes, its
// entries and where each of them ends.
func sample(tb testing.TB) (data []byte, lines []line, ends []int64) {
	tb.Helper()
	dir := tb.TempDir()
	l, err := record.New(testConfig(dir), record.Deps{Key: record.NewKey(), Writer: "llmgw v0"})
	if err != nil {
		tb.Fatal(err)
	}
	for i, payload := range []string{"", "a", "a longer payload", "", strings.Repeat("x", 50)} {
		if i == 3 {
			_ = l.Append(0, base(), nil) // dropped
		}
		if err := l.Append(record.Type(i+1), base().Add(time.Duration(i)), []byte(payload)); err != nil {
			tb.Fatal(err)
		}
	}
	runOnce(tb, l)
	data, err = os.ReadFile(filepath.Join(dir, firstSegment))
	if err != nil {
		tb.Fatal(err)
	}
	r, err := record.Open(dir)
	if err != nil {
		tb.Fatal(err)
	}
	defer r.Close()
	for e, err := range r.Entries(time.Time{}, time.Time{}) {
		if err != nil {
			tb.Fatal(err)
		}
		lines = append(lines, lineOf(e))
		ends = append(ends, e.Offset+20+int64(len(e.Payload)))
	}
	if len(lines) != 6 {
		tb.Fatalf("%d entries, want 6", len(lines))
	}
	return data, lines, ends
}

// A process may die after any byte. Every entry before that is read, what is torn
// is told exactly, and the next run goes on in a segment of its own.
func TestCrashAtEveryByte(t *testing.T) {
	data, lines, ends := sample(t)
	const header = 112
	for n := range len(data) {
		dir := t.TempDir()
		path := filepath.Join(dir, firstSegment)
		if err := os.WriteFile(path, data[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		whole, boundary := 0, int64(0)
		if n >= header {
			boundary = header
		}
		for whole < len(ends) && ends[whole] <= int64(n) {
			boundary = ends[whole]
			whole++
		}
		check := func(newest bool, want []line) {
			t.Helper()
			got, errs := read(t, dir, time.Time{}, time.Time{})
			if diff := cmp.Diff(want, got, cmpEmpty()); diff != "" {
				t.Fatalf("cut at %d (-want +got):\n%s", n, diff)
			}
			if n >= header && int64(n) == boundary {
				// Nothing is torn, but a later run shows that this one died.
				if newest && len(errs) > 0 {
					t.Fatalf("cut at %d, between entries: %v", n, errs)
				}
				if newest {
					return
				}
			}
			if len(errs) != 1 {
				t.Fatalf("cut at %d: errors %v, want one", n, errs)
			}
			damage, ok := errors.AsType[*record.DamageError](errs[0])
			if !ok || !errors.Is(errs[0], record.ErrTorn) {
				t.Fatalf("cut at %d: %v, want ErrTorn", n, errs[0])
			}
			if damage.File != firstSegment || damage.Offset != boundary || damage.Bytes != int64(n)-boundary || damage.Newest != newest {
				t.Fatalf("cut at %d: %+v, want %d bytes at %d, newest %v", n, damage, int64(n)-boundary, boundary, newest)
			}
		}
		check(true, lines[:whole:whole])

		l := newLog(t, testConfig(dir))
		if err := l.Append(9, base(), nil); err != nil {
			t.Fatal(err)
		}
		runOnce(t, l)
		check(false, append(lines[:whole:whole], line{Type: 9}))
		if after, err := os.ReadFile(path); err != nil || len(after) != n {
			t.Fatalf("cut at %d: the next run changed an old segment", n)
		}
	}
}

// A machine may die and leave zeros, or stale blocks, where entries were.
func TestZerosAtTheEndAreATear(t *testing.T) {
	data, lines, ends := sample(t)
	dir := t.TempDir()
	torn := append(append([]byte(nil), data[:ends[2]]...), make([]byte, 4096)...)
	if err := os.WriteFile(filepath.Join(dir, firstSegment), torn, 0o600); err != nil {
		t.Fatal(err)
	}
	got, errs := read(t, dir, time.Time{}, time.Time{})
	if diff := cmp.Diff(lines[:3], got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if len(errs) != 1 || !errors.Is(errs[0], record.ErrTorn) {
		t.Errorf("errors %v, want ErrTorn", errs)
	}
}

// No change of one byte goes unnoticed, and none costs what stands before it.
func TestEveryChangedByteIsNoticed(t *testing.T) {
	data, lines, ends := sample(t)
	dir := t.TempDir()
	for i := range data {
		for _, flip := range []byte{0x01, 0x80, 0xff} {
			changed := append([]byte(nil), data...)
			changed[i] ^= flip
			if err := os.WriteFile(filepath.Join(dir, firstSegment), changed, 0o600); err != nil {
				t.Fatal(err)
			}
			whole := 0
			for whole < len(ends) && ends[whole] <= int64(i) {
				whole++
			}
			got, errs := read(t, dir, time.Time{}, time.Time{})
			if i < 112 {
				whole = 0
			}
			if diff := cmp.Diff(lines[:whole], got, cmpEmpty()); diff != "" {
				t.Fatalf("byte %d (-want +got):\n%s", i, diff)
			}
			if len(errs) != 1 {
				t.Fatalf("byte %d: errors %v, want one", i, errs)
			}
			isVersion := errors.Is(errs[0], record.ErrVersion)
			if isVersion != (i == 8 || i == 9) || (!isVersion && !errors.Is(errs[0], record.ErrDamaged) && !errors.Is(errs[0], record.ErrTorn)) {
				t.Fatalf("byte %d: %v", i, errs[0])
			}
		}
	}
}

func TestOtherVersionIsRefused(t *testing.T) {
	data, lines, _ := sample(t)
	dir := t.TempDir()
	old := append([]byte(nil), data...)
	old[8] = 3
	// Another version may have another header after the first 80 bytes.
	for name, content := range map[string][]byte{
		firstSegment:               old,
		"00000000000000000002.rec": old[:80],
		"00000000000000000003.rec": data,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, errs := read(t, dir, time.Time{}, time.Time{})
	if diff := cmp.Diff(lines, got); diff != "" {
		t.Errorf("entries of our version (-want +got):\n%s", diff)
	}
	if len(errs) != 2 {
		t.Fatalf("errors %v, want two", errs)
	}
	for i, err := range errs {
		want := &record.VersionError{File: []string{firstSegment, "00000000000000000002.rec"}[i], Found: 3, Want: 1, Writer: "llmgw v0"}
		got, ok := errors.AsType[*record.VersionError](err)
		if !ok || !errors.Is(err, record.ErrVersion) {
			t.Fatalf("error %v, want a VersionError", err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("error (-want +got):\n%s", diff)
		}
		for _, part := range []string{want.File, "version 3", "version 1", `"llmgw v0"`} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %s", err, part)
			}
		}
	}
	// The log goes on beside them, and an old one is no reason not to start.
	l := newLog(t, testConfig(dir))
	if err := l.Append(1, base(), nil); err != nil {
		t.Fatal(err)
	}
	runOnce(t, l)
	if got, _ := read(t, dir, time.Time{}, time.Time{}); len(got) != len(lines)+1 {
		t.Errorf("%d entries after a further run, want %d", len(got), len(lines)+1)
	}
}

func TestSegmentThatGoesWhileReading(t *testing.T) {
	data, lines, _ := sample(t)
	dir := t.TempDir()
	second := filepath.Join(dir, "00000000000000000002.rec")
	for _, path := range []string{filepath.Join(dir, firstSegment), second} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var n int
	var last error
	for _, err := range r.Entries(time.Time{}, time.Time{}) {
		if n == 0 {
			if err := os.Remove(second); err != nil {
				t.Fatal(err)
			}
		}
		if last = err; err == nil {
			n++
		}
	}
	if n != len(lines) || !errors.Is(last, record.ErrExpired) {
		t.Errorf("%d entries and %v, want those of the first and ErrExpired", n, last)
	}
}
