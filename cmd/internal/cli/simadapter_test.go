package cli_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/process"
	"github.com/llmgw/llmgw/engines/sim"
)

// startReplica returns the ranks of a replica of the simulated engine that a has
// described and a runner has started, and where rank 0 serves.
func startReplica(t *testing.T, a engines.Adapter, p engines.Profile) (ranks []*process.Shard, url string) {
	t.Helper()
	var err error
	if p.Executable, err = exec.LookPath("llmgw"); err != nil {
		t.Fatal(err)
	}
	p.Engine, p.ServedNames, p.CPU = engines.Sim, []string{"tiny"}, true
	cfg := process.DefaultConfig()
	cfg.Poll, cfg.ProbeEvery, cfg.GiveUp = 5*time.Millisecond, 10*time.Millisecond, 0
	runner, err := process.New(cfg, process.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	shape, err := a.Validate(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	ports := make(map[string]int)
	for _, need := range shape.Ranks[0].Ports {
		_, port, _ := net.SplitHostPort(freeAddress(t))
		ports[need.Name], _ = strconv.Atoi(port)
	}
	for i := range shape.Ranks {
		s := engines.Shard{
			Profile: p, Replica: "tiny-1", Generation: 7, Rank: i, Dir: t.TempDir(), Keyed: true,
			Leader: "127.0.0.1", Address: "127.0.0.1", Bind: "127.0.0.1", LeaderPorts: ports,
		}
		spec := process.Spec{ID: fmt.Sprintf("tiny-1-%d", i), Generation: 7, Dir: s.Dir, Secret: "sesame", Address: s.Bind}
		if i == 0 {
			s.Ports = ports
			for _, port := range ports {
				spec.Ports = append(spec.Ports, port)
			}
		}
		if spec.Launch, err = a.Launch(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		shard, err := runner.Start(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = shard.Stop(context.WithoutCancel(t.Context())) })
		ranks = append(ranks, shard)
	}
	return ranks, fmt.Sprintf("http://127.0.0.1:%d", ports[engines.PortHTTP])
}

// What the adapter describes, a runner starts: two ranks become ready, ask for
// the key that they were given, and end when they are told to.
func TestSimAdapter(t *testing.T) {
	t.Parallel()
	ranks, url := startReplica(t, sim.Adapter{}, engines.Profile{Ranks: 2, Options: map[string]string{"load_time": "8ms"}})
	for i, r := range ranks {
		if _, err := r.Wait(t.Context(), process.StateReady); err != nil {
			t.Fatalf("rank %d: %v", i, err)
		}
	}
	if code, _ := ask(t, "GET", url+"/v1/models", ""); code != 401 {
		t.Errorf("without the secret: %d", code)
	}
	if code, _ := askWith(t, "sesame", "GET", url+"/v1/models", ""); code != 200 {
		t.Errorf("with the secret: %d", code)
	}
	for i, r := range ranks {
		if err := r.Stop(t.Context()); err != nil {
			t.Errorf("rank %d: %v", i, err)
		}
		for _, e := range r.Status().Ended {
			if len(e.Killed) > 0 {
				t.Errorf("rank %d had to be killed: %+v", i, e)
			}
		}
	}
}

// Why an engine does not come up is said in words, by the adapter's rules.
func TestSimAdapterFails(t *testing.T) {
	t.Parallel()
	ranks, _ := startReplica(t, sim.Adapter{}, engines.Profile{Options: map[string]string{"faults": "fail_load=context"}, ContextTokens: 4096})
	_, err := ranks[0].Wait(t.Context(), process.StateReady)
	failed, ok := errors.AsType[*process.FailedError](err)
	if !ok || failed.Advice != "set context_tokens to 2048 or less, or take the fault fail_load out of options.faults" {
		t.Errorf("got %v", err)
	}
}
