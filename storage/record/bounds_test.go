package record_test

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

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
		for i := range 50 {
			if err := l.Append(1, time.Now(), nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(4 * time.Minute) // of the bubble's time
			synctest.Wait()
			lines := mustRead(t, dir)
			oldest := time.Since(base().Add(lines[0].At))
			if oldest > cfg.MaxAge+cfg.FlushInterval {
				t.Fatalf("after %d entries one is %v old", i+1, oldest)
			}
			// An entry every 4 minutes, and seven eighths of an hour.
			if want := min(i+1, 60*7/8/4-1); len(lines) < want {
				t.Fatalf("after %d entries there are %d, want %d or more", i+1, len(lines), want)
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
