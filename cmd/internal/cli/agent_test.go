package cli_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/process"
	"github.com/llmgw/llmgw/fleet/control"
)

// leads is an authority that leads in one term.
type leads struct{}

func (leads) Mandate() control.Mandate {
	return control.Mandate{Level: control.Leader, Cluster: "test", Term: 1}
}
func (leads) Outranked(string, uint64) {}

// startPlane serves a control plane to agents.
func startPlane(t *testing.T) (*control.Plane, string) {
	t.Helper()
	cfg := control.DefaultConfig()
	cfg.Heartbeat = 200 * time.Millisecond
	p, err := control.New(cfg, control.Deps{Authority: leads{}})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(p.Handler())
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	control.Configure(s)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 2)
	go func() { ended <- p.Run(ctx) }()
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		cancel()
		_ = s.Close()
		for range 2 {
			if err := <-ended; err != nil && !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		}
	})
	return p, "http://" + l.Addr().String()
}

// awaitShard waits until a node says of a shard what is wanted.
func awaitShard(t *testing.T, p *control.Plane, node string, id engines.ShardID, want func(control.Node, engines.ShardStatus) bool) engines.ShardStatus {
	t.Helper()
	w := p.Watch()
	defer w.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	for {
		n, _ := p.Node(node)
		st, _ := n.Shard(id)
		if want(n, st) {
			return st
		}
		if _, err := w.Next(ctx); err != nil {
			t.Fatalf("%v; the node is %+v", err, n)
		}
	}
}

// agentFile writes a configuration of an agent, and what it leaves running is
// ended with the test.
func agentFile(t *testing.T, node, server, more string) (file, state string) {
	t.Helper()
	dir := t.TempDir()
	file, state = filepath.Join(dir, "agent.yaml"), filepath.Join(dir, "state")
	text := fmt.Sprintf("node: %s\nservers: [%s]\nstate_dir: %s\naddress: 127.0.0.1\nport_range: {first: 22000, last: 22199}\n"+
		"process: {poll: 20ms, probe_every: 50ms}\nhardware: {root: %s}\n%s", node, server, state, dir, more)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		instance, err := os.ReadFile(filepath.Join(state, "instance"))
		if err != nil {
			return
		}
		marked, err := process.FindMarked()
		if err != nil {
			t.Error(err)
		}
		for _, m := range marked {
			if strings.HasSuffix(m.ID, "."+strings.ToLower(string(instance[:8]))) {
				_ = syscall.Kill(m.PID, syscall.SIGKILL)
			}
		}
	})
	return file, state
}

// The agent as a program: it registers, an engine that it starts outlives its
// SIGKILL and its upgrade, and an order reaches the engine afterwards.
func TestAgent(t *testing.T) {
	t.Parallel()
	p, url := startPlane(t)
	file, _ := agentFile(t, "node-1", url, "")
	first := launch(t, nil, "agent", "-c", file)
	id := engines.ShardID{Replica: "tiny-1"}
	awaitShard(t, p, "node-1", id, func(n control.Node, _ engines.ShardStatus) bool { return n.Connected })
	exe, err := exec.LookPath("llmgw")
	if err != nil {
		t.Fatal(err)
	}
	wish := engines.ShardSpec{ID: id, Generation: 1, Secret: "sesame", Profile: engines.Profile{
		Engine: engines.Sim, Executable: exe, ServedNames: []string{"tiny"}, CPU: true, Options: map[string]string{"load_time": "8ms"},
	}}
	if _, err := p.Start(t.Context(), "node-1", wish); err != nil {
		t.Fatal(err)
	}
	ready := awaitShard(t, p, "node-1", id, func(_ control.Node, st engines.ShardStatus) bool { return st.State == engines.ShardReady })
	if code, _ := askWith(t, "sesame", "GET", "http://"+ready.Address+"/v1/models", ""); code != http.StatusOK {
		t.Errorf("the engine answers %d", code)
	}

	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.ends(t)
	killed := time.Now()
	second := launch(t, nil, "agent", "-c", file)
	again := awaitShard(t, p, "node-1", id, func(n control.Node, st engines.ShardStatus) bool {
		return n.Connected && st.Adopted && st.State == engines.ShardReady
	})
	t.Logf("adopted %v after the kill", time.Since(killed))
	if again.PID != ready.PID || again.Start != ready.Start || again.Address != ready.Address {
		t.Errorf("adopted %+v of %+v", again, ready)
	}
	if answer, err := p.Start(t.Context(), "node-1", wish); err != nil || !answer.Already {
		t.Errorf("the same start again: %+v, %v", answer, err)
	}

	if err := second.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	asked := time.Now()
	if code := second.ends(t); code != 0 {
		t.Errorf("the agent ends with %d", code)
	}
	t.Logf("ended %v after SIGTERM", time.Since(asked))
	if code, _ := askWith(t, "sesame", "GET", "http://"+ready.Address+"/v1/models", ""); code != http.StatusOK {
		t.Errorf("without an agent the engine answers %d", code)
	}
	launch(t, nil, "agent", "-c", file)
	awaitShard(t, p, "node-1", id, func(n control.Node, st engines.ShardStatus) bool {
		return n.Connected && st.Adopted && st.State == engines.ShardReady
	})
	if _, err := p.Stop(t.Context(), "node-1", control.Stop{Shard: id, Generation: 1, Drain: time.Minute}); err != nil {
		t.Fatal(err)
	}
	awaitShard(t, p, "node-1", id, func(_ control.Node, st engines.ShardStatus) bool { return st.State == engines.ShardStopped })
	refuses(t, ready.Address)
}

// A profile that cannot run is refused with its faults, and nothing is started;
// a missing executable fails the shard.
func TestAgentRefuses(t *testing.T) {
	t.Parallel()
	p, url := startPlane(t)
	file, state := agentFile(t, "node-1", url, "engines: {sim: '', vllm: /no/such/vllm}")
	launch(t, nil, "agent", "-c", file)
	id := engines.ShardID{Replica: "tiny-1"}
	awaitShard(t, p, "node-1", id, func(n control.Node, _ engines.ShardStatus) bool { return n.Connected })
	wish := engines.ShardSpec{ID: id, Generation: 1, Profile: engines.Profile{
		Engine: engines.Sim, ServedNames: []string{"tiny"}, CPU: true, Options: map[string]string{"speed": "-1"},
	}}
	_, err := p.Start(t.Context(), "node-1", wish)
	refusal, ok := errors.AsType[*control.RefusedError](err)
	if !ok || refusal.Again || !strings.Contains(refusal.Reason, "options.speed") {
		t.Errorf("a bad profile: %v", err)
	}
	if _, err := os.Stat(filepath.Join(state, "shards", "tiny-1.0")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused shard has a directory: %v", err)
	}
	wish.Profile = engines.Profile{Engine: engines.TGI, Model: "m", ServedNames: []string{"m"}}
	_, err = p.Start(t.Context(), "node-1", wish)
	if refusal, ok = errors.AsType[*control.RefusedError](err); !ok || !strings.Contains(refusal.Advice, "engines.tgi") {
		t.Errorf("an engine that is not configured: %v", err)
	}
	wish.Profile = engines.Profile{Engine: engines.VLLM, Model: "m", ServedNames: []string{"m"}, CPU: true}
	if _, err = p.Start(t.Context(), "node-1", wish); err != nil {
		t.Fatal(err)
	}
	st := awaitShard(t, p, "node-1", id, func(_ control.Node, st engines.ShardStatus) bool { return st.State == engines.ShardFailed })
	if !strings.Contains(st.Reason, "/no/such/vllm is missing") || !strings.Contains(st.Advice, "engines.vllm") {
		t.Errorf("a missing executable: %+v", st)
	}
}
