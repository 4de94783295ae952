package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// An engine that prints faster than it is read loses what lies between, not the
// bound of its file, and not what it says last.
func TestLogOfAFlood(t *testing.T) {
	cfg := DefaultConfig()
	cfg.LogBytes = 64 << 10
	r, err := New(cfg, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "engine.log")
	const secret = "sk-0123456789abcdef"
	text := "first\n" + strings.Repeat("a line with "+secret+" in it, printed again and again\n", 100_000) + "last\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := r.openLog(path, secret)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	var seen []string
	n, err := l.read(func(line string) {
		if len(seen) == 0 {
			time.Sleep(2 * mostTime) // the look has no more time
		}
		seen = append(seen, line)
	})
	if err != nil || n < lateBytes || l.behind {
		t.Errorf("read %d bytes of %d, behind: %t, error %v", n, len(text), l.behind, err)
	}
	if len(seen) > 50_000 || seen[0] != "first" || seen[len(seen)-1] != "last" {
		t.Errorf("saw %d lines, from %q to %q", len(seen), seen[0], seen[len(seen)-1])
	}
	for _, line := range seen[1 : len(seen)-1] {
		if line != "a line with {{llmgw.secret}} in it, printed again and again" {
			t.Fatalf("saw %q", line)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Size() != 0 {
		t.Errorf("the file was not emptied: %v, %v", info, err)
	}
}

// A look that has no more time says so, and the next one goes on.
func TestLookEndsInTime(t *testing.T) {
	r, err := New(DefaultConfig(), Deps{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "engine.log")
	if err := os.WriteFile(path, []byte(strings.Repeat("0123456\n", 100_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := r.openLog(path, "")
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	lines := 0
	slow := func(string) {
		if lines++; lines == 1 {
			time.Sleep(2 * mostTime)
		}
	}
	if n, err := l.read(slow); err != nil || n != readBytes || !l.behind {
		t.Errorf("read %d bytes, behind: %t, error %v", n, l.behind, err)
	}
	for l.behind {
		if _, err := l.read(slow); err != nil {
			t.Fatal(err)
		}
	}
	if lines != 100_000 {
		t.Errorf("%d lines", lines)
	}
}

// The secret does not show in pieces: where a line is cut off, and where reading
// begins in the middle of one.
func TestSecretInPieces(t *testing.T) {
	const secret = "sk-0123456789abcdef"
	cfg := DefaultConfig()
	cfg.LineBytes = 64
	r, err := New(cfg, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	for before := range 64 {
		path := filepath.Join(t.TempDir(), "engine.log")
		text := strings.Repeat("x", before) + secret + strings.Repeat("y", 64) + "\nnext\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for keep := range int64(len(text)) {
			l, err := r.openLog(path, secret)
			if err != nil {
				t.Fatal(err)
			}
			l.skip(keep)
			if _, err := l.read(func(line string) {
				for _, piece := range []string{secret[:4], secret[len(secret)-4:]} {
					if strings.Contains(line, piece) {
						t.Errorf("%d before it, the last %d bytes: %q", before, keep, line)
					}
				}
			}); err != nil {
				t.Fatal(err)
			}
			if keep > 5 && len(l.tail.lines) == 0 {
				t.Fatalf("the last %d bytes: no line", keep)
			}
			l.close()
		}
	}
}
