package plugin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
)

// process is an adapter's program as go-plugin runs one. It differs from go-plugin's
// own in that standard input is a pipe, by whose end the program knows that the host
// is gone; that the program has a process group; that what it prints is read here,
// for go-plugin panics on a line of JSON that it does not expect; and that it is
// believed no other address than a socket in the directory made for it.
type process struct {
	program   Program
	cmd       *exec.Cmd
	socketDir string
	log       *slog.Logger

	stdin          *os.File // held open; nothing is written
	stdout, stderr *os.File
	started        atomic.Pointer[os.Process]
	said           *beginning    // of standard output
	complained     *ending       // of standard error
	exited         chan struct{} // closed when the program has ended
	err            error         // how it ended; after exited
	printing       sync.WaitGroup
}

var _ runner.Runner = (*process)(nil)

// lingers is how long output is read on after a program's end, should something it
// started have left its group and hold the pipe.
const lingers = 500 * time.Millisecond

func newProcess(program Program, env []string, socketDir string, log *slog.Logger) *process {
	cmd := exec.Command(program.Path, program.Args...) //nolint:noctx // it outlives the call that starts it
	cmd.Env, cmd.SysProcAttr = env, attributes()
	if program.Builtin {
		cmd.Args[0] = os.Args[0] // for people who look for it
	}
	return &process{
		program: program, cmd: cmd, socketDir: socketDir, log: log,
		said: new(beginning), complained: new(ending), exited: make(chan struct{}),
	}
}

// Start implements [runner.Runner].
func (p *process) Start(context.Context) (err error) {
	if p.program.Checksum != nil {
		// Whoever may replace the file between here and its start may write to
		// the directory, which was looked at.
		same, err := (&goplugin.SecureConfig{Checksum: p.program.Checksum, Hash: sha256.New()}).Check(p.program.Path)
		if err != nil {
			return err
		}
		if !same {
			return goplugin.ErrChecksumsDoNotMatch
		}
	}
	var theirs []*os.File
	pipe := func() (read, write *os.File) {
		if err == nil {
			read, write, err = os.Pipe()
		}
		return read, write
	}
	var in, out, errs *os.File
	in, p.stdin = pipe()
	p.stdout, out = pipe()
	p.stderr, errs = pipe()
	theirs = append(theirs, in, out, errs)
	if err == nil {
		p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = in, out, errs
		err = p.cmd.Start()
	}
	for _, f := range theirs {
		_ = f.Close() // nil is an error, too
	}
	if err != nil {
		p.close()
		return err
	}
	p.started.Store(p.cmd.Process)
	p.printing.Go(func() { relayLog(io.TeeReader(p.stderr, p.complained), p.log) })
	go p.wait() // Wait waits for it
	return nil
}

func (p *process) wait() {
	p.err = p.cmd.Wait()
	killGroup(p.cmd.Process) // what it has started; the number is not given out again so soon
	_ = p.stdin.Close()
	deadline := time.Now().Add(lingers)
	_, _ = p.stdout.SetReadDeadline(deadline), p.stderr.SetReadDeadline(deadline)
	p.printing.Wait()
	close(p.exited)
}

func (p *process) close() {
	for _, f := range []*os.File{p.stdin, p.stdout, p.stderr} {
		_ = f.Close()
	}
}

// Wait implements [runner.Runner]. go-plugin calls it when standard output has ended.
func (p *process) Wait(context.Context) error {
	<-p.exited
	p.close()
	return p.err
}

// Kill implements [runner.Runner].
func (p *process) Kill(context.Context) error {
	p.kill()
	return nil
}

func (p *process) kill() {
	select {
	case <-p.exited:
	default:
		if started := p.started.Load(); started != nil {
			killGroup(started)
		}
	}
}

// Stdout implements [runner.Runner].
func (p *process) Stdout() io.ReadCloser { return io.NopCloser(handshakeReader{p.stdout, p.said}) }

// handshakeReader reads what a program prints up to where it cannot be a handshake:
// a line that begins otherwise may never end.
type handshakeReader struct {
	from io.Reader
	said *beginning
}

// Read implements [io.Reader].
func (r handshakeReader) Read(p []byte) (int, error) {
	if r.said.foreign() {
		return 0, io.EOF
	}
	n, err := r.from.Read(p)
	_, _ = r.said.Write(p[:n])
	return n, err
}

// Stderr implements [runner.Runner]; the lines are read elsewhere.
func (p *process) Stderr() io.ReadCloser { return io.NopCloser(bytes.NewReader(nil)) }

// Name implements [runner.Runner].
func (p *process) Name() string { return p.program.Path }

// ID implements [runner.Runner].
func (p *process) ID() string {
	started := p.started.Load()
	if started == nil {
		return ""
	}
	return strconv.Itoa(started.Pid)
}

// Diagnose implements [runner.Runner].
func (p *process) Diagnose(context.Context) string { return "" }

// PluginToHost implements [runner.Runner].
func (p *process) PluginToHost(network, address string) (string, string, error) {
	switch network {
	case "unix":
		if filepath.Dir(address) == filepath.Clean(p.socketDir) {
			return network, address, nil
		}
	case "tcp": // where there are no sockets in files
		host, _, err := net.SplitHostPort(address)
		if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsLoopback() && suffix() != "" {
			return network, address, nil
		}
	}
	return "", "", fmt.Errorf("it names the address %s %q, which is not in the directory made for it", network, address)
}

// HostToPlugin implements [runner.Runner].
func (p *process) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

// outcome says how the program ended, with the last of what it printed; "" while
// it runs.
func (p *process) outcome() string {
	select {
	case <-p.exited:
	default:
		return ""
	}
	how := "exit status 0"
	if e, ok := errors.AsType[*exec.ExitError](p.err); ok {
		how = e.String()
	}
	if last := p.complained.String(); last != "" {
		how += ", its last words: " + strconv.Quote(last)
	}
	return how
}

// beginning keeps the first line that is written to it, or the first bytes.
type beginning struct {
	mu   sync.Mutex
	kept []byte
	full bool
}

func (b *beginning) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.full {
		const most = 4 << 10
		line, _, whole := bytes.Cut(p, []byte("\n"))
		b.kept = append(b.kept, line[:min(len(line), most-len(b.kept))]...)
		b.full = whole || len(b.kept) == most
	}
	return len(p), nil
}

// String returns the line.
func (b *beginning) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.TrimSpace(string(b.kept))
}

// foreign reports whether the line is not, and will not become, a handshake.
func (b *beginning) foreign() bool {
	start := strconv.Itoa(goplugin.CoreProtocolVersion) + "|"
	line := b.String()
	return !strings.HasPrefix(line, start) && !strings.HasPrefix(start, line)
}

// ending keeps the last bytes that are written to it.
type ending struct {
	mu   sync.Mutex
	kept []byte
}

func (e *ending) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	const most = 300
	e.kept = append(e.kept, p[max(0, len(p)-most):]...)
	e.kept = e.kept[max(0, len(e.kept)-most):]
	return len(p), nil
}

// String returns the text without its outer white space.
func (e *ending) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(e.kept), ""))
}
