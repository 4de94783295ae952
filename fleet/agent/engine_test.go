package agent_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/process"
	"github.com/llmgw/llmgw/fleet/agent"
)

// actor as the first argument makes the test binary an engine.
const actor = "act-as-an-engine"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == actor {
		act(os.Args[2:])
		return
	}
	goleak.VerifyTestMain(m)
}

// act is an engine that serves its health and its load until it is told to end.
// Its work stands in files of its directory: "busy" holds the requests that it
// runs, "deaf" makes it ignore SIGTERM, "asleep" is there while it sleeps, in which it
// is not healthy, and "broken" makes it neither fall asleep nor wake.
func act(args []string) {
	address, mode := args[0], args[1]
	if mode == "fail" {
		fmt.Println("first line\nno memory for the cache")
		os.Exit(3)
	}
	if mode == "deaf" {
		signal.Ignore(syscall.SIGTERM)
	}
	http.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {
		if there("slow") || there("asleep") {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	_ = os.Remove("asleep") // of the generation before
	turn := func(do func() error) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if there("broken") || do() != nil {
				http.Error(w, "it is broken", http.StatusInternalServerError)
			}
		}
	}
	http.HandleFunc("POST /sleep", turn(func() error { return os.WriteFile("asleep", nil, 0o600) }))
	http.HandleFunc("POST /wake_up", turn(func() error { return os.Remove("asleep") }))
	http.HandleFunc("GET /is_sleeping", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"is_sleeping":%t}`, there("asleep"))
	})
	http.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		busy, err := os.ReadFile("busy")
		if err == nil {
			fmt.Fprintf(w, "test:running %s\n", busy)
		} else {
			fmt.Fprintf(w, "test:running 0\n")
		}
		fmt.Fprintf(w, "test:waiting 0\n")
	})
	fmt.Println("serving", address)
	panic(http.ListenAndServe(address, nil)) //nolint:gosec // ends with the test
}

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// adapter describes the engine that act is.
type adapter struct{ delay time.Duration }

func (a adapter) Describe(context.Context) (engines.Description, error) {
	sum := func(name string) engines.Metric {
		return engines.Metric{Names: []string{name}, Aggregate: engines.AggregateSum}
	}
	return engines.Description{
		Engine: engines.Sim, Title: "the test's engine", Version: "1",
		Metrics: &engines.MetricContract{
			Engine: engines.Sim, Path: "/metrics", Prefix: "test:", Running: sum("test:running"), Waiting: sum("test:waiting"),
		},
	}, nil
}

func (a adapter) Validate(ctx context.Context, p engines.Profile) (engines.Shape, error) {
	select {
	case <-time.After(a.delay):
	case <-ctx.Done():
		return engines.Shape{}, fmt.Errorf("%w: %w", engines.ErrUnavailable, context.Cause(ctx))
	}
	var fs engines.Faults
	if p.Model == "bad" {
		fs.Add("model", "is bad", "take another")
	}
	if err := fs.Err(engines.Sim); err != nil {
		return engines.Shape{}, err
	}
	return engines.Shape{Ranks: []engines.RankShape{{ServesHTTP: true, Ports: []engines.PortNeed{{Name: engines.PortHTTP, Count: 1}}}}}, nil
}

func (a adapter) Launch(_ context.Context, s engines.Shard) (engines.Launch, error) {
	port := s.Ports[engines.PortHTTP]
	var sleep *engines.Sleep
	if s.Profile.Sleep && s.Profile.Options["mode"] != "knows nothing of it" {
		sleep = &engines.Sleep{
			Port: port, Sleep: "/sleep?level=1", Wake: "/wake_up", Check: "/is_sleeping", Asleep: "true", Awake: "false",
			SleepTimeout: 20 * time.Second, WakeTimeout: 20 * time.Second,
		}
	}
	return engines.Launch{
		Sleep: sleep,
		Engine: engines.Command{
			Executable: cmp.Or(s.Profile.Executable, os.Args[0]),
			Args:       []string{actor, net.JoinHostPort(s.Bind, strconv.Itoa(port)), cmp.Or(s.Profile.Options["mode"], "serve")},
		},
		ServesHTTP: true,
		Ready: engines.Readiness{
			Probe:   &engines.Probe{Port: port, Path: "/health", Timeout: time.Second},
			Timeout: 20 * time.Second,
		},
		Stop: engines.Stop{Signal: engines.SignalTerm, Grace: 300 * time.Millisecond},
		Logs: []engines.LogRule{{Match: "no memory", Phase: engines.PhaseFailed, Reason: "there was no memory", Advice: "give it more"}},
	}, nil
}

func (a adapter) Checks(context.Context) ([]engines.Check, error) { return nil, nil }

// adapters hands out one adapter.
type adapters struct{ one engines.Adapter }

func (a adapters) Adapter(engines.Name) (engines.Adapter, error) { return a.one, nil }

// still is hardware that does not change.
type still struct{}

func (still) Inventory(context.Context) (*engines.Inventory, error) {
	return &engines.Inventory{GPUs: []engines.GPU{{UUID: "GPU-a", Vendor: engines.SimulatedCard}}}, nil
}
func (still) State(context.Context) (engines.NodeState, error) { return engines.NodeState{}, nil }
func (still) Changed(context.Context) (bool, error)            { return false, nil }
func (still) Advertise(context.Context, string) (agent.Advertised, error) {
	return agent.Advertised{Address: "127.0.0.1", Interface: "lo"}, nil
}

// node is an agent under test.
type node struct {
	cfg   agent.Config
	deps  agent.Deps
	end   context.CancelFunc
	ended chan error
}

// portRanges hands each test a range of its own, for they run at once.
var portRanges atomic.Int64

const portsPerTest = 20

// firstTestPort differs from one run to the next, since ports wait for their last
// packets for a minute.
func firstTestPort() int { return 23000 + os.Getpid()%15*500 }

// testConfig is an agent's that lives in a directory of the test's.
func testConfig(t *testing.T, servers ...string) agent.Config {
	t.Helper()
	cfg := agent.DefaultConfig()
	cfg.Node, cfg.Servers, cfg.Address, cfg.StateDir = "node-1", servers, "127.0.0.1", filepath.Join(t.TempDir(), "state")
	cfg.Ports.First = firstTestPort() + int(portRanges.Add(portsPerTest))
	cfg.Ports.Last = cfg.Ports.First + portsPerTest - 1
	cfg.Reconnect.Delay = 5 * time.Millisecond
	cfg.Process.Poll, cfg.Process.ProbeEvery = 10*time.Millisecond, 20*time.Millisecond
	return cfg
}

func testDeps(t *testing.T) agent.Deps {
	return agent.Deps{
		Hardware: still{}, Adapters: adapters{adapter{}}, Version: "test",
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

// run starts an agent, which the test's end ends. What it left running is ended
// too.
func run(t *testing.T, cfg agent.Config, deps agent.Deps) *node {
	t.Helper()
	a, err := agent.New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	n := &node{cfg: cfg, deps: deps, end: cancel, ended: make(chan error, 1)}
	go func() { n.ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		n.stop(t)
		sweep(t, cfg.StateDir)
	})
	return n
}

// stop ends the agent and waits for that; it may be called again.
func (n *node) stop(t *testing.T) {
	t.Helper()
	n.end()
	began := time.Now()
	err := <-n.ended
	n.ended <- err
	if took := time.Since(began); err != nil || took > 2*time.Second {
		t.Errorf("the agent ended after %v: %v", took, err)
	}
}

// sweep ends what runs of the shards of a state directory.
func sweep(t *testing.T, dir string) {
	t.Helper()
	instance, err := os.ReadFile(filepath.Join(dir, "instance"))
	if err != nil {
		return
	}
	marked, err := process.FindMarked()
	if err != nil {
		t.Error(err)
	}
	r, err := process.New(process.DefaultConfig(), process.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range marked {
		if strings.HasSuffix(m.ID, "."+strings.ToLower(string(instance[:8]))) {
			if _, err := r.Sweep(context.WithoutCancel(t.Context()), m.ID); err != nil {
				t.Error(err)
			}
		}
	}
}

func spec(replica string, generation uint64, change ...func(*engines.ShardSpec)) engines.ShardSpec {
	s := engines.ShardSpec{
		ID: engines.ShardID{Replica: replica}, Generation: generation,
		Profile: engines.Profile{Engine: engines.Sim, ServedNames: []string{"tiny"}},
	}
	for _, f := range change {
		f(&s)
	}
	return s
}
