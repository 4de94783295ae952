package peer

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Process is a child process. Its methods are for one goroutine at a time.
type Process struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when the process has ended
}

// command describes a process to start.
type command struct {
	name string
	path string
	args []string
	dir  string // working directory, and where its log goes
}

// start starts c with its output in dir/name.log. The process gets SIGTERM when
// this one dies; for that the caller must stay on the thread it is on, so
// programs call runtime.LockOSThread in main and start all peers from there.
func start(c command) (*Process, error) {
	p := &Process{name: c.name, log: filepath.Join(c.dir, c.name+".log"), done: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p.cmd = exec.Command(c.path, c.args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = c.dir, out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in Exited and the log
		close(p.done)
	}()
	return p, nil
}

// Stop asks the process to end, waits up to 10 s, then kills it.
func (p *Process) Stop() {
	if p.Exited() {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// Exited reports whether the process has ended.
func (p *Process) Exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Log returns the last 2 KiB of what the process wrote.
func (p *Process) Log() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-2048):])
}

// failed wraps err with what the process wrote.
func (p *Process) failed(err error) error {
	if p.Exited() {
		err = errors.Join(errors.New("it ended"), err)
	}
	return fmt.Errorf("%s: %w; its output:\n%s", p.name, err, p.Log())
}
