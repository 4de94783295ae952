package engine_test

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a child process whose output is kept.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended and all it wrote is kept

	mu      sync.Mutex
	lines   []string      // guarded by mu
	changed chan struct{} // guarded by mu; closed by the next line
}

// startProcess starts argv. The process is killed if this one dies.
func startProcess(name string, argv ...string) (*process, error) {
	p := &process{name: name, cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{}), changed: make(chan struct{})}
	// Strictly that is when the thread dies that started it; threads of Go's
	// end before the process only with goroutines locked to them, and here are
	// none.
	// The group is for vLLM, whose own children outlive it.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	p.cmd.WaitDelay = 5 * time.Second
	out, in := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = in, in
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in the log or wanted
		_ = in.Close()
	}()
	go func() {
		defer close(p.done)
		r := bufio.NewReader(out)
		for {
			line, err := r.ReadString('\n')
			if line != "" {
				p.keep(strings.TrimRight(line, "\n"))
			}
			if err != nil {
				return
			}
		}
	}()
	return p, nil
}

func (p *process) keep(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, line)
	close(p.changed)
	p.changed = make(chan struct{})
}

// line waits for the first line that match accepts.
func (p *process) line(match func(string) bool, limit time.Duration) (string, error) {
	deadline := time.After(limit)
	for seen := 0; ; {
		p.mu.Lock()
		lines, changed := p.lines, p.changed
		p.mu.Unlock()
		for ; seen < len(lines); seen++ {
			if match(lines[seen]) {
				return lines[seen], nil
			}
		}
		select {
		case <-changed:
		case <-p.done:
			return "", fmt.Errorf("%s ended; its last output:\n%s", p.name, p.tail())
		case <-deadline:
			return "", fmt.Errorf("%s did not say within %v what was waited for; its last output:\n%s", p.name, limit, p.tail())
		}
	}
}

// tail is the end of what the process wrote.
func (p *process) tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines[max(0, len(p.lines)-30):], "\n")
}

// stop asks the process to end, and kills what is left of it after 10 s.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
	}
	p.kill()
}

// kill ends the process and its children without a warning.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}
