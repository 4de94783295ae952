package record_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgw/llmgw/storage/record"
)

// Keep waits for its directory, tells once that it does, and loses nothing that
// the buffer has room for.
func TestKeepWaitsForItsDirectory(t *testing.T) {
	parent := t.TempDir()
	file := filepath.Join(parent, "there")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		cfg := testConfig(filepath.Join(file, "log"))
		l, err := record.New(cfg, record.Deps{Key: record.NewKey(), Logger: slog.New(slog.NewTextHandler(&out, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Keep(ctx) }()
		if err := l.Append(1, time.Now(), []byte("early")); err != nil {
			t.Fatal(err)
		}
		if err := l.Flush(t.Context()); err == nil {
			t.Error("flushed to a directory that is not there")
		}
		time.Sleep(20 * time.Second) // of the bubble's time
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if err := l.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if lines := mustRead(t, cfg.Dir); len(lines) != 1 || lines[0].Payload != "early" {
			t.Errorf("%+v", lines)
		}
		if text := out.String(); strings.Count(text, "cannot be written") != 1 || strings.Count(text, "is written again") != 1 {
			t.Errorf("logged:\n%s", text)
		}
	})
}

// A log that never came to its directory says what it lost.
func TestKeepInVain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := newLog(t, testConfig(filepath.Join(file, "log")))
	ctx, cancel := context.WithCancel(t.Context())
	if err := l.Append(1, time.Now(), nil); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := l.Keep(ctx); err == nil || !strings.Contains(err.Error(), "1 records are lost") {
		t.Errorf("%v", err)
	}
	if err := l.Append(1, time.Now(), nil); !errors.Is(err, record.ErrClosed) {
		t.Errorf("afterwards: %v", err)
	}
	if s := l.Stats(); s.Lost != 1 || s.Closed != 1 {
		t.Errorf("%+v", s)
	}
}

func TestOpenFileRefuses(t *testing.T) {
	if _, err := record.OpenFile(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := record.OpenFile(t.TempDir()); !errors.Is(err, record.ErrInvalid) {
		t.Errorf("a directory: %v", err)
	}
}
