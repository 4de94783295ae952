package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/storagetest"
)

var epoch = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant

// poll waits until f is true.
func poll(t testing.TB, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not become true")
		}
	}
}

// row is the nth usage row of a writer.
func row(writer string, n int) storage.Usage {
	return storage.Usage{RequestID: fmt.Sprintf("%s-%d", writer, n), KeyID: "k", Model: "m", At: epoch, Source: storage.SourceNone}
}

// A backup while others write is one moment's: sound, and everything before.
func TestBackup(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "llmgw.db"))
	defer end(t, s)
	storagetest.Fill(t, s)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := s.InsertUsage(ctx, []storage.Usage{row("w", n)}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	path := filepath.Join(dir, "copy.db")
	for i := range 2 {
		_ = os.Remove(path)
		before, _, err := s.ListRollups(ctx, storage.RollupQuery{Grain: storage.GrainHour, KeyID: "k", Model: "m"})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Backup(ctx, path); err != nil {
			t.Fatal(err)
		}
		func() {
			c := open(t, path)
			defer end(t, c)
			if err := c.Check(ctx); err != nil {
				t.Errorf("copy %d: %v", i, err)
			}
			got, _, err := c.ListRollups(ctx, storage.RollupQuery{Grain: storage.GrainHour, KeyID: "k", Model: "m"})
			if err != nil || len(before) > 0 && (len(got) == 0 || got[0].Requests < before[0].Requests) {
				t.Errorf("copy %d lacks rows: %v, %v; before it %v", i, got, err, before)
			}
		}()
	}
	close(stop)
	wg.Wait()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy: %v, %v", info.Mode(), err)
	}
	if err := s.Backup(ctx, path); !errors.Is(err, storage.ErrExists) {
		t.Errorf("over a file: %v", err)
	}

	// At rest it is the same, and nothing is left beside it.
	_ = os.Remove(path)
	if err := s.Backup(ctx, path); err != nil {
		t.Fatal(err)
	}
	c := open(t, path)
	defer end(t, c)
	if string(storagetest.Export(t, c)) != string(storagetest.Export(t, s)) {
		t.Error("the copy holds something else")
	}
	left, _ := filepath.Glob(filepath.Join(dir, ".llmgw-backup-*"))
	if len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.Backup(canceled, filepath.Join(dir, "never.db")); !errors.Is(err, context.Canceled) {
		t.Errorf("of an ended context: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "never.db")); err == nil {
		t.Error("half a copy has a name")
	}
}

// Processes write one file at once, as a command does while a server runs; each
// is killed in the middle once. What was acknowledged is there, and sums are
// right.
func TestProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "llmgw.db")
	if name := os.Getenv("LLMGW_TEST_WRITER"); name != "" {
		writeUntilKilled(t, os.Getenv("LLMGW_TEST_PATH"), name)
		return
	}
	s := open(t, path)
	defer end(t, s)
	acknowledged := make([]int, 2)
	var wg sync.WaitGroup
	for i := range acknowledged {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProcesses$")
			cmd.Env = append(os.Environ(), "LLMGW_TEST_WRITER="+fmt.Sprint("p", i), "LLMGW_TEST_PATH="+path)
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Error(err)
				return
			}
			for acknowledged[i] < 20+i {
				var n int
				if _, err := fmt.Fscanf(out, "kept %d\n", &n); err != nil {
					t.Errorf("process %d: %v", i, err)
					break
				}
				acknowledged[i] = n
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	for n := range 20 {
		if _, err := s.InsertUsage(t.Context(), []storage.Usage{row("here", n)}); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	kept := map[string]int{}
	rows, _, err := s.ListUsage(t.Context(), storage.UsageQuery{Page: storage.Page{Limit: 10000}})
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range rows {
		writer, _, _ := strings.Cut(u.RequestID, "-")
		kept[writer]++
	}
	for i, n := range acknowledged {
		if got := kept[fmt.Sprint("p", i)]; got < n {
			t.Errorf("process %d: %d rows are kept, %d were acknowledged", i, got, n)
		}
	}
	if kept["here"] != 20 {
		t.Errorf("%d rows of 20 of this process", kept["here"])
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func writeUntilKilled(t *testing.T, path, name string) {
	s := open(t, path)
	for n := 1; n < 1_000_000; n++ {
		if _, err := s.InsertUsage(t.Context(), []storage.Usage{row(name, n)}); err != nil {
			t.Fatal(err)
		}
		fmt.Printf("kept %d\n", n)
	}
}
