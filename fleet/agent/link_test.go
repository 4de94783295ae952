package agent_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/agent"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// text is a log that can be read while it is written.
type text struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *text) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *text) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// A refusal is an error in the log, with the certificate and the claim; it is
// tried again less and less, and a connection alone does not hasten that. Once the
// node is welcome, all is well.
func TestRefused(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.refuse = connect.NewError(connect.CodePermissionDenied, errors.New("this certificate is another node's"))
	var log text
	deps := testDeps(t)
	deps.Logger = slog.New(slog.NewTextHandler(&log, nil))
	deps.Certificate = func() string { return "node gpu-18 of cluster test" }
	run(t, testConfig(t, p.url), deps)
	p.until(t, "five tries", func() bool { return p.streams >= 5 })
	var line strings.Builder
	for l := range strings.Lines(log.String()) {
		if strings.Contains(l, "refuses this node") {
			line.WriteString(l)
		}
	}
	for _, want := range []string{"level=ERROR", "claimed_node=node-1", `certificate="node gpu-18 of cluster test"`, "code=permission_denied", "another node's"} {
		if strings.Count(line.String(), want) != 1 {
			t.Errorf("%q is not once in the log: %s", want, line.String())
		}
	}
	p.change(func() { p.refuse = nil })
	p.connected(t)
}

// A control plane that is gone without a word, its connection still open, is given
// up; engines run on, and statuses are not lost.
func TestSilence(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.deaf, p.heartbeat = true, 50*time.Millisecond
	run(t, testConfig(t, p.url), testDeps(t))
	p.until(t, "a second stream", func() bool { return p.streams >= 2 })
	if n := len(p.told()); n < 2 {
		t.Errorf("it was given up after %d heartbeats", n)
	}
}

// Whoever listens and says nothing is given up in time, and the next server is
// tried; the agent's end waits for neither.
func TestServersAreTriedInTurn(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	l, err := net.Listen("tcp", "127.0.0.1:0") // which never accepts
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cfg := testConfig(t, "http://127.0.0.1:1", "http://"+l.Addr().String(), p.url)
	cfg.Reconnect.Timeout = 300 * time.Millisecond
	n := run(t, cfg, testDeps(t))
	p.connected(t)
	n.stop(t)

	cfg.Servers = cfg.Servers[1:2]
	cfg.Reconnect.Timeout = time.Minute
	n = run(t, cfg, testDeps(t))
	n.stop(t) // which has a deadline
}

// A stream that ends is dialled anew; what changed meanwhile is in the Hello, and
// a repeated command is not done twice.
func TestReconnect(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	run(t, testConfig(t, p.url), testDeps(t))
	wish := spec("m-1", 1)
	first := start(wish)
	p.order(t, first)
	ready := p.reaches(t, wish.ID, 1, engines.ShardReady)
	for i := range 3 {
		p.end()
		p.until(t, "another stream", func() bool { return p.streams == i+2 && p.current != nil })
	}
	p.change(func() { p.answers = nil })
	if a := p.order(t, first); a.GetResult() != fleetpb.Result_RESULT_ALREADY || int(a.GetStatus().GetPid()) != ready.PID {
		t.Errorf("repeated: %v", a)
	}
	if h := p.hello(-1); len(h.GetShards()) != 1 || h.GetRun() != p.hello(0).GetRun() || h.GetInstance() != p.hello(0).GetInstance() {
		t.Errorf("%v", h)
	}
}

// A control plane of another cluster is not obeyed, and an order of a lower term
// is stale also after the agent's restart.
func TestClusterAndTerm(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.term = 5
	n := run(t, testConfig(t, p.url), testDeps(t))
	p.connected(t)
	n.stop(t)
	p.change(func() { p.term = 4 })
	run(t, n.cfg, n.deps)
	p.until(t, "a second Hello", func() bool { return len(p.hellos) == 2 })
	if p.hello(1).GetTerm() != 5 || p.hello(1).GetCluster() != "test" {
		t.Errorf("%v", p.hello(1))
	}
	if a := p.order(t, start(spec("m-1", 1))); a.GetResult() != fleetpb.Result_RESULT_STALE || a.GetTerm() != 5 {
		t.Errorf("an order of term 4: %v", a)
	}
	c := start(spec("m-1", 1))
	c.Cluster, c.Term = "other", 9
	if a := p.order(t, c); a.GetResult() != fleetpb.Result_RESULT_REFUSED || a.GetTerm() != 5 {
		t.Errorf("an order of another cluster: %v", a)
	}
	var streams int
	p.change(func() { p.cluster, streams = "other", p.streams })
	p.end()
	p.until(t, "it tries again, and does not stay", func() bool { return p.streams >= streams+2 })
}

// Two agents never share a state directory.
func TestLocked(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	n := run(t, testConfig(t, p.url), testDeps(t))
	p.connected(t)
	second, err := agent.New(n.cfg, n.deps)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Run(t.Context()); !errors.Is(err, agent.ErrLocked) {
		t.Errorf("a second agent: %v", err)
	}
	info, err := os.Stat(n.cfg.StateDir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory is open: %v, %v", info.Mode(), err)
	}
}

// shrinking is hardware that loses its card.
type shrinking struct {
	still
	mu   sync.Mutex
	lost bool
}

func (s *shrinking) Inventory(context.Context) (*engines.Inventory, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost {
		return &engines.Inventory{}, nil
	}
	return s.still.Inventory(context.Background())
}

func (s *shrinking) Changed(context.Context) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost, nil
}

// A card that is lost is told while the stream lives, and by the next Hello.
func TestInventoryShrinks(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	deps := testDeps(t)
	hw := &shrinking{}
	deps.Hardware = hw
	run(t, testConfig(t, p.url), deps)
	p.until(t, "a Hello", func() bool { return len(p.hellos) == 1 && p.current != nil })
	if n := len(p.hello(0).GetInventory().GetGpus()); n != 1 {
		t.Fatalf("%d cards", n)
	}
	hw.mu.Lock()
	hw.lost = true
	hw.mu.Unlock()
	p.until(t, "an inventory", func() bool { return len(p.inventory) > 0 && len(p.inventory[0].GetGpus()) == 0 })
	p.end()
	p.until(t, "a second Hello", func() bool { return len(p.hellos) == 2 && len(p.hellos[1].GetInventory().GetGpus()) == 0 })
}
