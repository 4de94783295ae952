package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// program is what a test runs, and may run again under the same name.
type program struct {
	t    *testing.T
	name string
	args []string // the program first
	env  []string
	log  string // a file with all that it has said, over all its runs

	cmd   *exec.Cmd
	ended chan error // closed after its end
	from  int        // where in log the last run begins
}

// start starts the program; it must not run.
func (p *program) start() {
	p.t.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	p.from = len(text(p.log))
	p.cmd = exec.Command(p.args[0], p.args[1:]...) //nolint:gosec,noctx // programs under test, ended by end
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = append(os.Environ(), p.env...)
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.ended = make(chan error, 1)
	go func(cmd *exec.Cmd, ended chan error) {
		ended <- cmd.Wait()
		close(ended)
	}(p.cmd, p.ended)
}

// kill ends the program by a signal and waits for its end.
func (p *program) kill(s syscall.Signal) {
	p.t.Helper()
	began := time.Now()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
	select {
	case err := <-p.ended:
		if s == syscall.SIGTERM && err != nil {
			p.t.Errorf("%s ended after SIGTERM with %v; want exit code 0", p.name, err)
		}
	case <-time.After(20 * time.Second):
		p.t.Fatalf("%s still runs %v after signal %v", p.name, time.Since(began), s)
	}
}

// said reports how often a text stands in a line of what the program said.
func (p *program) said(texts ...string) int {
	p.t.Helper()
	log, err := os.ReadFile(p.log)
	if err != nil {
		p.t.Fatal(err)
	}
	n := 0
	for line := range bytes.Lines(log) {
		all := true
		for _, text := range texts {
			all = all && bytes.Contains(line, []byte(text))
		}
		if all {
			n++
		}
	}
	return n
}

// tail returns the last lines of what the program said.
func (p *program) tail() string {
	log, _ := os.ReadFile(p.log)
	lines := strings.SplitAfter(string(log), "\n")
	return strings.Join(lines[max(0, len(lines)-60):], "")
}

// world is a directory with processes in it, all of which end with the test.
type world struct {
	t     *testing.T
	dir   string
	token string
	// lostAfter is after which silence a server counts a node as lost; default 60s.
	lostAfter string
	// control are further keys of the server's section control, each with a comma
	// behind it.
	control string
	// interval is how often a server looks at what runs besides at each change;
	// default 500ms.
	interval string
	all      []*program
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	w.token = runToken + strings.ReplaceAll(t.Name(), "/", "-") + "-"
	t.Cleanup(func() {
		// Twice: one may have started another in between.
		for range 2 {
			endAll(w.token)
			for _, p := range w.all {
				if p.ended != nil {
					<-p.ended
				}
			}
		}
		if t.Failed() {
			for _, p := range w.all {
				t.Logf("%s said at last:\n%s", p.name, p.tail())
			}
		}
	})
	return w
}

// program makes a program of the world, which does not run yet.
func (w *world) program(name string, args ...string) *program {
	p := &program{
		t: w.t, name: name, args: args, log: filepath.Join(w.dir, name+".log"),
		env: []string{tokenName + "=" + w.token, "GORACE=atexit_sleep_ms=0"},
	}
	w.all = append(w.all, p)
	return p
}

// write writes a file into the world's directory and returns its path.
func (w *world) write(name, text string) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // some are programs
		w.t.Fatal(err)
	}
	return path
}

// patience is how long a test waits for what has to become so: a busy machine is
// slow, and a test that passes does not wait for it.
const patience = 45 * time.Second

// eventually polls for what has to become so. What reports empty when it is, and
// else what is still missing.
func eventually(t *testing.T, what func() string) {
	t.Helper()
	eventuallyIn(t, patience, what)
}

// eventuallyIn is eventually for what takes its time even where nothing is slow.
func eventuallyIn(t *testing.T, patience time.Duration, what func() string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		missing := what()
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %s", patience, missing)
		}
	}
}

// until is eventually for what is so or not.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	eventually(t, func() string {
		if so() {
			return ""
		}
		return "it is still not so that " + what
	})
}

// text is fmt.Sprint of a file's contents, for messages.
func text(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Sprint(err)
	}
	return string(data)
}
