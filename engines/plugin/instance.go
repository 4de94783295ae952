package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"

	"github.com/llmgw/llmgw/engines"
)

// instance is one run of an adapter's program, from a handshake to its end.
type instance struct {
	client  *goplugin.Client
	process *process
	remote  *remote
	log     *slog.Logger
	held    *os.File       // marks the directory of the socket as in use; nil: nothing does
	calls   sync.WaitGroup // in flight; none is added once the slot has another state
}

// starter is what a start needs to know.
type starter struct {
	cfg     Config
	program Program
	log     *slog.Logger
}

// start runs the program up to its checked description. Every error is a
// [*ProgramError], but for the end of ctx, and nothing runs after it.
func (s starter) start(ctx context.Context) (*instance, error) {
	inst := &instance{log: s.log}
	var dir string
	// go-plugin's own limit ends before the connection is made, which takes as long
	// as a program likes that accepts and says nothing.
	bounded, cancel := context.WithTimeout(ctx, s.cfg.StartTimeout)
	defer cancel()
	giveUp := func() bool { return true }
	inst.client = goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  handshake(),
		VersionedPlugins: versions(nil),
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, socketDir string) (runner.Runner, error) {
			dir = socketDir
			held, err := hold(socketDir)
			if err != nil { // should this host be killed, the directory stays
				s.log.Debug("the directory of an adapter's socket is not marked", "err", err)
			}
			inst.held = held
			inst.process = newProcess(s.program, append(handedOn(s.cfg.Environment), cmd.Env...), socketDir, s.log)
			giveUp = context.AfterFunc(bounded, inst.process.kill)
			return inst.process, nil
		},
		SkipHostEnv:      true,
		AutoMTLS:         true,
		StartTimeout:     2 * s.cfg.StartTimeout,
		GRPCDialOptions:  dialOptions(),
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: socketDir(s.cfg.SocketDir)},
		// Where there are no sockets in files: below the ports of engines.
		MinPort: 10000, MaxPort: 19999,
		SyncStdout: printed{s.log}, SyncStderr: printed{s.log},
		Logger: hclogTo(s.log),
	})
	err := inst.connect()
	if err == nil {
		err = s.check(bounded, inst)
	} else {
		err = s.why(bounded, inst, err)
	}
	if giveUp() && err == nil {
		return inst, nil
	}
	if inst.process != nil {
		inst.process.kill()
	}
	inst.clear()          // waits for what it started
	_ = os.RemoveAll(dir) // which is left where nothing had been started; "" is no error
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err == nil: // and the time was up at the same moment
		err = s.why(bounded, inst, bounded.Err())
	}
	return nil, err
}

// connect starts the program and shakes hands.
func (i *instance) connect() error {
	protocol, err := i.client.Client()
	if err != nil {
		return err
	}
	raw, err := protocol.Dispense(service)
	if err != nil {
		return err
	}
	i.remote, _ = raw.(*remote)
	return nil
}

// why finds out what went wrong before or in the handshake.
func (s starter) why(bounded context.Context, inst *instance, err error) error {
	e := &ProgramError{Name: s.program.Name, Path: s.program.Path, Reason: ErrNotAdapter}
	if errors.Is(err, goplugin.ErrChecksumsDoNotMatch) {
		e.Reason, e.Advice = ErrChecksum, "install the program again, or pin the new one: sha256sum "+s.program.Path
		return e
	}
	p := inst.process
	if p == nil || p.started.Load() == nil {
		e.Reason, e.Cause, e.Advice = ErrMissing, err, "install the program again, built for this machine"
		return e
	}
	line := p.said.String()
	if line == "" { // its output may end a moment before it does itself
		select {
		case <-p.exited:
		case <-time.After(lingers):
		}
	}
	words := strings.Split(line, "|")
	switch ended := p.outcome(); {
	case bounded.Err() != nil:
		e.Reason, e.Detail = ErrSilent, fmt.Sprintf("no handshake within %v", s.cfg.StartTimeout)
		if line != "" {
			e.Detail += fmt.Sprintf(", but %.200q", line)
		}
		e.Advice = "put an adapter there, or give one that is slow more time with start_timeout"
	case len(words) >= 4 && words[0] == strconv.Itoa(goplugin.CoreProtocolVersion) && words[1] != strconv.Itoa(inst.client.NegotiatedVersion()):
		e.Reason, e.Detail = ErrVersion, fmt.Sprintf("it speaks %s, this host %s", words[1], spoken())
		e.Advice = "use an adapter that was built for this release of llmgw, or update llmgw"
	case len(words) >= 4 && words[0] == strconv.Itoa(goplugin.CoreProtocolVersion):
		e.Detail, e.Cause, e.Advice = "its handshake cannot be used", err, "build it on plugin.Serve of llmgw"
	case line != "":
		e.Detail, e.Advice = fmt.Sprintf("it printed %.200q in place of the handshake", line), "print nothing on standard output, which belongs to the handshake; log to standard error"
	case ended != "":
		e.Detail, e.Advice = "it ended before the handshake: "+ended, "put an adapter there; one says so when it is started by hand"
	default:
		e.Detail, e.Cause, e.Advice = "the handshake failed", err, "see what it logs"
	}
	return e
}

// check reads the description, once.
func (s starter) check(ctx context.Context, inst *instance) error {
	e := &ProgramError{Name: s.program.Name, Path: s.program.Path, Reason: ErrDescription}
	d, err := inst.remote.Describe(ctx)
	switch {
	case ctx.Err() != nil:
		e.Reason, e.Detail = ErrSilent, fmt.Sprintf("no description within %v", s.cfg.StartTimeout)
		e.Advice = "see what it logs, or give it more time with start_timeout"
	case errors.Is(err, engines.ErrUnavailable):
		e.Reason, e.Detail, e.Cause, e.Advice = ErrNotAdapter, "it went away after the handshake", err, "see what it logs"
	case err != nil:
		e.Cause, e.Advice = err, "tell who wrote the adapter, or go back to the version before"
	case string(d.Engine) != s.program.Name:
		e.Detail, e.Advice = fmt.Sprintf("it is the adapter of %q", d.Engine), "name the program "+Prefix+string(d.Engine)
	default:
		return nil
	}
	return e
}

// stop ends the program: in good order if calls in flight end in time, and otherwise
// by force. That they have is seen here, where the answers arrive: the adapter is
// done with a call before its answer is on its way.
func (i *instance) stop(drain time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	answered := make(chan struct{})
	go func() { // stop waits for it
		i.calls.Wait()
		close(answered)
	}()
	select {
	case <-answered:
	case <-ctx.Done():
	}
	if err := i.remote.drain(ctx); err != nil {
		i.log.Debug("the adapter was not drained", "err", err)
		i.process.kill()
	}
	// Kill asks without a deadline, of a process that may stand still.
	const closing = 2 * time.Second
	force := time.AfterFunc(closing, i.process.kill)
	defer force.Stop()
	i.clear()
	<-answered
}

// end kills the program at once.
func (i *instance) end() {
	i.process.kill()
	i.clear()
}

// clear waits for the end of the program and removes the directory of its socket.
func (i *instance) clear() {
	i.client.Kill()
	if i.held != nil {
		_ = i.held.Close()
	}
}

// handedOn returns those of the named variables that the host has.
func handedOn(names []string) []string {
	var env []string
	for _, name := range names {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
