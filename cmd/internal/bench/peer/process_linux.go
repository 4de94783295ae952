package peer

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
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

// Command describes a process to start.
type Command struct {
	Name string
	Path string
	Args []string
	Dir  string   // working directory, and where its log goes
	Env  []string // beside this process's own
	User string   // it runs as; empty: as this one
}

// Start starts c with its output in Dir/Name.log. The process gets SIGTERM when
// this one dies; for that the caller must stay on the thread it is on, so
// programs call runtime.LockOSThread in main and start all peers from there.
func Start(c Command) (*Process, error) {
	p := &Process{name: c.Name, log: filepath.Join(c.Dir, c.Name+".log"), done: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p.cmd = exec.Command(c.Path, c.Args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = c.Dir, out, out
	p.cmd.Env = append(os.Environ(), c.Env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if c.User != "" {
		if p.cmd.SysProcAttr.Credential, err = credential(c.User); err != nil {
			return nil, err
		}
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in Exited and the log
		close(p.done)
	}()
	return p, nil
}

// Stop asks the process to end, waits up to 10 s, then kills it.
func (p *Process) Stop() { p.Signal(syscall.SIGTERM) }

// Signal sends the process a signal and waits until it has ended, for which it
// has 10 s; then it is killed. It returns whether it ended well.
func (p *Process) Signal(sig syscall.Signal) bool {
	if !p.Exited() {
		_ = p.cmd.Process.Signal(sig)
		select {
		case <-p.done:
		case <-time.After(signalPatience):
			_ = p.cmd.Process.Kill()
			<-p.done
		}
	}
	return p.Wait()
}

// Wait waits until the process has ended, and returns whether it ended well.
func (p *Process) Wait() bool {
	<-p.done
	return p.cmd.ProcessState.Success()
}

const signalPatience = 10 * time.Second

// credential is how a process runs as a user of this machine.
func credential(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err1, err2)
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
