package process

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestLogIsBoundedAndWhole writes as a process does, through a descriptor that
// it holds, and sees every line once while the file begins anew under it.
func TestLogIsBoundedAndWhole(t *testing.T) {
	const limit = 4096
	cfg := DefaultConfig()
	cfg.LogBytes = limit
	r, err := New(cfg, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		path := filepath.Join(dir, "engine.log")
		w, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			rt.Fatal(err)
		}
		defer w.Close()
		l, err := r.openLog(path, "")
		if err != nil {
			rt.Fatal(err)
		}
		defer l.close()
		var wrote, seen []string
		for i := range rapid.IntRange(1, 12).Draw(rt, "writes") {
			line := fmt.Sprintf("%s %d", strings.Repeat("x", rapid.IntRange(0, 3000).Draw(rt, "bytes")), i)
			if _, err := w.WriteString(line + "\n"); err != nil {
				rt.Fatal(err)
			}
			wrote = append(wrote, line)
			if rapid.Bool().Draw(rt, "read") {
				if _, err := l.read(func(line string) { seen = append(seen, line) }); err != nil {
					rt.Fatal(err)
				}
				for _, name := range []string{path, path + ".1"} {
					if info, err := os.Stat(name); err == nil && info.Size() > limit {
						rt.Fatalf("%s has %d bytes after a read", name, info.Size())
					}
				}
			}
		}
		if _, err := l.read(func(line string) { seen = append(seen, line) }); err != nil {
			rt.Fatal(err)
		}
		if !slices.Equal(seen, wrote) {
			rt.Fatalf("saw %d lines of %d", len(seen), len(wrote))
		}
	})
}

func TestLogKeepsWhatItEmptied(t *testing.T) {
	cfg := DefaultConfig()
	cfg.LogBytes = 4096
	r, err := New(cfg, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "engine.log")
	text := strings.Repeat("0123456\n", 1024)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := r.openLog(path, "")
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if n, err := l.read(func(string) {}); err != nil || n != int64(len(text)) {
		t.Fatalf("read %d, %v", n, err)
	}
	kept, err := os.ReadFile(path + ".1")
	if err != nil || string(kept) != text[len(text)-4096:] {
		t.Errorf("kept %d bytes, %v, want the last 4096", len(kept), err)
	}
	// Somebody else empties it too.
	if err := os.WriteFile(path, []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var seen []string
	emit := func(line string) { seen = append(seen, line) }
	if _, err := l.read(emit); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := l.read(emit); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(seen, []string{"one"}) {
		t.Errorf("saw %q", seen)
	}
}
