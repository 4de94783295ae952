package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/llmgw/llmgw/engines/process"
)

// Keeper is the hidden command with which the binary starts itself to keep the
// machines of a fleet; KeepOptions.Dir and KeepOptions.Server follow.
const Keeper = "demo-machines"

const (
	// agentGrace is how long an agent may take to end before it is killed.
	agentGrace = 3 * time.Second
	// enginesGrace bounds the search for engines that still come up while they are
	// being killed.
	enginesGrace = 5 * time.Second
)

// KeepOptions are what Keep needs to know.
type KeepOptions struct {
	Dir    string    // the demo's, removed at the end
	Server string    // URL that agents dial
	In     io.Reader // ends when the demo has ended, in whatever way
	Out    io.Writer // gets a line a machine with its id and the process of its agent
	Err    io.Writer // gets what agents say
}

// Keep starts an agent for each machine and returns when In, ctx or the process was
// told to end. It is a process of its own because agents and engines outlive those
// who started them: a demo that is killed could not end them.
func Keep(ctx context.Context, opts KeepOptions) (err error) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	all := machinesOf(opts.Dir)
	defer func() { err = errors.Join(err, endEngines(all), os.RemoveAll(opts.Dir)) }()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	agents, endAgents := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer endAgents()
	for _, m := range all {
		if err := m.write(opts.Server, self); err != nil {
			return err
		}
		agent := exec.CommandContext(agents, self, "agent", "-c", m.file("agent.yaml")) //nolint:gosec // itself
		agent.Env = withoutKeys(os.Environ())
		agent.Stderr = opts.Err
		agent.Cancel = func() error { return agent.Process.Signal(syscall.SIGTERM) }
		agent.WaitDelay = agentGrace
		if err := agent.Start(); err != nil {
			return fmt.Errorf("the agent of %s: %w", m.id, err)
		}
		wg.Go(func() { _ = agent.Wait() }) // it says itself why it ends, and may be killed by who tries what happens then
		fmt.Fprintln(opts.Out, m.id, agent.Process.Pid)
	}
	ended := make(chan struct{})
	go func() { // ends with In, or with the process
		_, _ = io.Copy(io.Discard, opts.In)
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	return nil
}

// withoutKeys drops the variables that would override keys of agent.yaml.
func withoutKeys(environ []string) (kept []string) {
	for _, v := range environ {
		if !strings.HasPrefix(v, "LLMGW_") {
			kept = append(kept, v)
		}
	}
	return kept
}

// endEngines kills what the agents of the machines have started. The agents must
// have ended.
func endEngines(all []machine) error {
	var tags []string
	for _, m := range all {
		// An agent that never began has none.
		if instance, err := os.ReadFile(m.file("state/instance")); err == nil && len(instance) >= 8 {
			tags = append(tags, "."+strings.ToLower(string(instance[:8])))
		}
	}
	for deadline := time.Now().Add(enginesGrace); ; time.Sleep(20 * time.Millisecond) {
		marked, err := process.FindMarked()
		if err != nil {
			return err
		}
		left := 0
		for _, engine := range marked {
			for _, tag := range tags {
				if strings.HasSuffix(engine.ID, tag) {
					left++
					if p, err := os.FindProcess(engine.PID); err == nil {
						_ = p.Kill() // it may have ended by itself
					}
				}
			}
		}
		if left == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d engines could not be killed", left)
		}
	}
}
