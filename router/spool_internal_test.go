package router

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/llmgw/llmgw/router/openai"
)

func newSpool(t *testing.T, limit int64) *spool {
	t.Helper()
	mem := &bodyMemory{limit: 64 << 20}
	s := &spool{all: &spools{dir: t.TempDir(), limit: limit, mem: mem}, mem: body{mem: mem}}
	t.Cleanup(func() {
		s.close(false)
		s.close(false)
		if held, files := mem.held.Load(), s.all.held.Load(); held != 0 || files != 0 {
			t.Errorf("%d bytes of memory and %d of files are still held", held, files)
		}
		if names, err := os.ReadDir(s.all.dir); err != nil || len(names) > 0 {
			t.Errorf("the directory holds %v, %v", names, err)
		}
	})
	return s
}

// What is written is read, from anywhere and across the border between memory and
// file.
func TestSpool(t *testing.T) {
	for _, size := range []int{0, 1, spoolMemory, spoolMemory + 1, 3 * spoolMemory} {
		s := newSpool(t, 16<<20)
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(i * 31 >> 3)
		}
		for rest := want; len(rest) > 0; {
			n, err := s.Write(rest[:min(len(rest), 100_000)])
			if err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		s.seal()
		if (s.file != nil) != (size > spoolMemory) || s.path != "" {
			t.Errorf("%d bytes: file %v under the name %q", size, s.file != nil, s.path)
		}
		open, n := s.edited(openai.Span{}, "")
		if got, err := io.ReadAll(iotest.HalfReader(open())); err != nil || !bytes.Equal(got, want) || n != size {
			t.Errorf("%d bytes, length %d: read %d, %v", size, n, len(got), err)
		}
		border := max(0, min(size, spoolMemory)-10)
		if got, err := io.ReadAll(iotest.OneByteReader(s.section(int64(border), int64(min(size, border+20))))); err != nil || !bytes.Equal(got, want[border:min(size, border+20)]) {
			t.Errorf("%d bytes: read %d around the border, %v", size, len(got), err)
		}
		if size < 2 {
			continue
		}
		v := openai.Span{Start: size / 2, End: size/2 + 1}
		open, n = s.edited(v, "another name")
		got, err := io.ReadAll(open())
		if edited := bytes.Join([][]byte{want[:v.Start], []byte("another name"), want[v.End:]}, nil); err != nil || !bytes.Equal(got, edited) || n != len(edited) {
			t.Errorf("%d bytes, edited, length %d: %d bytes, %v", size, n, len(got), err)
		}
	}
}

func TestSpoolBounds(t *testing.T) {
	s := newSpool(t, 2*spoolMemory)
	piece := make([]byte, spoolMemory)
	for i, want := range []error{nil, nil, nil, errSpoolFull} {
		if _, err := s.Write(piece); !errors.Is(err, want) {
			t.Errorf("piece %d: %v; want %v", i, err, want)
		}
	}
	s = newSpool(t, 2*spoolMemory)
	s.mem.mem.limit = 1000
	if _, err := s.Write(piece[:2000]); !errors.Is(err, errSpoolMemory) {
		t.Errorf("without memory: %v", err)
	}
}

// A disk's errors are its own, and what was given up cannot be read.
func TestSpoolOfABrokenDisk(t *testing.T) {
	s := newSpool(t, 16<<20)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	s.file = full
	if _, err := s.Write([]byte("x")); err == nil || errors.Is(err, errSpoolFull) {
		t.Errorf("a full disk: %v", err)
	}

	s = newSpool(t, 16<<20)
	if _, err := s.Write(make([]byte, 2*spoolMemory)); err != nil {
		t.Fatal(err)
	}
	s.seal()
	open, _ := s.edited(openai.Span{}, "")
	r := open()
	s.close(true)
	if _, err := io.ReadAll(r); !errors.Is(err, os.ErrClosed) {
		t.Errorf("read after the end: %v", err)
	}
}

func TestSpoolDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{"": true, t.TempDir(): true, file: false, file + "x": false} {
		if err := (Config{SpoolDir: dir}).CheckSpoolDir(); (err == nil) != want || err != nil && !strings.HasPrefix(err.Error(), "spool_dir: ") {
			t.Errorf("%q: %v", dir, err)
		}
	}
}

// A form that finds no room is told whether to come again, and when.
func TestSpoolRefuses(t *testing.T) {
	s := newSpool(t, 4*spoolMemory)
	defer s.close(false)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no full disk here: ", err)
	}
	s.file = full
	if _, err = s.Write(make([]byte, spoolMemory)); err == nil {
		_, err = s.Write(make([]byte, spoolMemory))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("a full disk: %v", err)
	}
	if e := s.refusal(err); e.Status != 413 || !e.NoRetry || !strings.Contains(e.Message, "disk") {
		t.Errorf("alone on a full disk: %+v", e)
	}
	s.all.held.Add(1)
	if e := s.refusal(err); e.Status != 503 || e.RetryAfter != diskRetryAfter || !strings.Contains(e.Message, "spool") {
		t.Errorf("beside another form on a full disk: %+v", e)
	}
	s.all.held.Add(-1)
	if e := s.refusal(os.ErrNotExist); e.Status != 503 || e.RetryAfter != diskRetryAfter || !strings.Contains(e.Message, "spool") {
		t.Errorf("the disk is away: %+v", e)
	}
	if e := s.refusal(errSpoolFull); e.Status != 503 || e.RetryAfter != spoolRetryAfter || !strings.Contains(e.Message, "spool") {
		t.Errorf("the bound is reached: %+v", e)
	}
	s.mem.mem.limit = 0
	another := &spool{all: s.all, mem: body{mem: s.mem.mem}}
	_, err = another.Write([]byte("x"))
	if e := another.refusal(err); !errors.Is(err, errSpoolMemory) || e.Status != 503 || strings.Contains(e.Message, "spool") {
		t.Errorf("no memory: %v, %+v", err, e)
	}
}
