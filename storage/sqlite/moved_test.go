package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/storage"
)

// A store whose file was moved away, or has another one in its place, keeps nothing
// where nobody will find it and reads nothing that it did not open. When the file is
// back it goes on.
func TestMoved(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be moved there")
	}
	for _, tt := range []struct {
		name, want string
		move       func(t *testing.T, path, away string)
	}{
		{"away", "was removed or renamed", func(t *testing.T, path, away string) {
			if err := os.Rename(path, away); err != nil {
				t.Fatal(err)
			}
		}},
		{"with its directory", "was removed or renamed", func(t *testing.T, path, away string) {
			if err := os.Rename(filepath.Dir(path), filepath.Dir(away)); err != nil {
				t.Fatal(err)
			}
		}},
		{"for another one", "another file was put in the place", func(t *testing.T, path, away string) {
			other := closed(t, filepath.Join(t.TempDir(), "other.db"))
			if err := other.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := other.Backup(t.Context(), filepath.Join(filepath.Dir(path), "other.db")); err != nil {
				t.Fatal(err)
			}
			end(t, other)
			if err := errors.Join(os.Link(path, away), os.Rename(filepath.Join(filepath.Dir(path), "other.db"), path)); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path, away := filepath.Join(dir, "in", "llmgw.db"), filepath.Join(dir, "in", "away.db")
			if tt.name == "with its directory" {
				away = filepath.Join(dir, "out", "llmgw.db")
			}
			s := closed(t, path)
			defer end(t, s)
			if err := s.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			calls := map[string]func() error{
				"a key is read": func() error { _, err := s.KeyByHash(t.Context(), storage.KeyHash{1}); return err },
				"a row is kept": func() error {
					_, err := s.InsertUsage(t.Context(), []storage.Usage{{
						RequestID: "r", KeyID: "k", Asked: "m", Model: "m", Path: "/v1/chat/completions", Router: "r", At: time.Now(), Status: 200,
						Result: "ok", Source: storage.SourceNone,
					}})
					return err
				},
			}
			tt.move(t, path, away)
			for what, call := range calls {
				if err := call(); !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
					t.Errorf("%s: %v; want that the store is unavailable since %s %s", what, err, path, tt.want)
				}
			}
			if filepath.Dir(path) != filepath.Dir(away) {
				path, away = filepath.Dir(path), filepath.Dir(away)
			}
			if err := os.Rename(away, path); err != nil {
				t.Fatal(err)
			}
			for what, call := range calls {
				if err := call(); err != nil && !errors.Is(err, storage.ErrNotFound) {
					t.Errorf("the file is back, %s: %v", what, err)
				}
			}
		})
	}
}
