package agent

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/process"
)

// machine is a runner without processes that outlives its agents, and notes what
// must never happen.
type machine struct {
	mu      sync.Mutex
	shards  map[string]*fakeShard // by directory; guarded by mu
	started map[string]uint64     // the highest generation by shard; guarded by mu
	faults  []string              // guarded by mu
}

// startTime is how long the machine takes to start processes.
const startTime = 400 * time.Millisecond

// fakeShard is a shard that is ready once it was started, and takes two seconds to end.
type fakeShard struct {
	machine *machine
	status  process.Status // guarded by machine.mu
	asleep  bool           // guarded by machine.mu
	changed chan struct{}  // guarded by machine.mu
}

func (m *machine) Start(_ context.Context, spec process.Spec) (attended, error) {
	time.Sleep(startTime)
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.shards[spec.Dir]; old != nil && old.runs() {
		m.faults = append(m.faults, fmt.Sprintf("%s: generation %d is started while %d runs", spec.ID, spec.Generation, old.status.Generation))
	}
	if last := m.started[spec.ID]; spec.Generation <= last {
		m.faults = append(m.faults, fmt.Sprintf("%s: generation %d is started after %d", spec.ID, spec.Generation, last))
	}
	m.started[spec.ID] = spec.Generation
	s := &fakeShard{machine: m, changed: make(chan struct{}), status: process.Status{
		ID: spec.ID, Generation: spec.Generation, State: process.StateReady,
		Processes: []process.ProcessStatus{{Name: process.Engine, PID: 1000 + len(m.started)}},
	}}
	m.shards[spec.Dir] = s
	return s, nil
}

func (m *machine) Adopt(_ context.Context, dir string) (attended, process.Found, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.shards[dir]
	switch {
	case s == nil:
		return nil, process.FoundNothing, process.ErrNoRecord
	case s.status.State == process.StateStopped:
		return s, process.FoundStopped, nil
	case s.status.State == process.StateStopping:
		return s, process.FoundStopping, nil
	}
	return s, process.FoundRunning, nil
}

func (*machine) Sweep(context.Context, string) ([]process.Member, error) { return nil, nil }
func (*machine) Marked() ([]process.Marked, error)                       { return nil, nil }

// runs is called with the machine's lock held.
func (s *fakeShard) runs() bool { return s.status.State != process.StateStopped }

func (s *fakeShard) Changed() (process.Status, <-chan struct{}) {
	s.machine.mu.Lock()
	defer s.machine.mu.Unlock()
	return s.status, s.changed
}

func (s *fakeShard) become(state process.State) {
	s.machine.mu.Lock()
	defer s.machine.mu.Unlock()
	s.status.State = state
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *fakeShard) Stop(ctx context.Context) error {
	if status, _ := s.Changed(); status.State == process.StateStopped {
		return nil
	}
	s.become(process.StateStopping)
	select {
	case <-time.After(2 * time.Second):
		s.become(process.StateStopped)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (*fakeShard) Detach() {}

func (*fakeShard) Sleeps() bool { return true }

func (s *fakeShard) Asleep(context.Context) (bool, error) {
	s.machine.mu.Lock()
	defer s.machine.mu.Unlock()
	return s.asleep, nil
}

func (s *fakeShard) Sleep(ctx context.Context) error { return s.turn(ctx, true) }
func (s *fakeShard) Wake(ctx context.Context) error  { return s.turn(ctx, false) }

// turn takes effect after a second, also where nobody waits for it.
func (s *fakeShard) turn(ctx context.Context, asleep bool) error {
	done := make(chan struct{})
	time.AfterFunc(time.Second, func() {
		s.machine.mu.Lock()
		defer s.machine.mu.Unlock()
		s.asleep = asleep
		close(done)
	})
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// plain is an adapter that takes every profile, and as long as a call may.
type plain struct{}

func (plain) Adapter(engines.Name) (engines.Adapter, error) { return plain{}, nil }

func (plain) Describe(context.Context) (engines.Description, error) {
	return engines.Description{Engine: engines.Sim}, nil
}

func (plain) Validate(ctx context.Context, _ engines.Profile) (engines.Shape, error) {
	select {
	case <-time.After(500 * time.Millisecond):
	case <-ctx.Done():
		return engines.Shape{}, fmt.Errorf("%w: %w", engines.ErrUnavailable, context.Cause(ctx))
	}
	return engines.Shape{Ranks: []engines.RankShape{{}}}, nil
}

func (plain) Launch(context.Context, engines.Shard) (engines.Launch, error) {
	return engines.Launch{Engine: engines.Command{Executable: os.Args[0]}, Sleep: &engines.Sleep{}}, nil
}

func (plain) Checks(context.Context) ([]engines.Check, error) { return nil, nil }

// bare is a machine without anything.
type bare struct{}

func (bare) Inventory(context.Context) (*engines.Inventory, error) { return &engines.Inventory{}, nil }
func (bare) State(context.Context) (engines.NodeState, error)      { return engines.NodeState{}, nil }
func (bare) Changed(context.Context) (bool, error)                 { return false, nil }
func (bare) Advertise(context.Context, string) (Advertised, error) {
	return Advertised{Address: "127.0.0.1", Interface: "lo"}, nil
}

// step is one thing that happens in a history.
type step struct {
	restart bool
	pause   time.Duration
	order   order
}

func steps() *rapid.Generator[[]step] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			restart: rapid.IntRange(0, 7).Draw(t, "restart") == 0,
			pause:   time.Duration(rapid.SampledFrom([]int{0, 0, 1, 300, 700, 2500}).Draw(t, "pause")) * time.Millisecond,
			order:   orders().Draw(t, "order"),
		}
	}), 1, 30)
}

// Whatever orders come and whenever the agent ends and begins again, the whole of
// it never runs two engines of a shard, nor one of a generation that is not higher
// than the last; and in the end what was ordered to stop has stopped, and what runs
// sleeps, or does not, as it was ordered last.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		history := steps().Draw(rt, "history")
		m := &machine{shards: make(map[string]*fakeShard), started: make(map[string]uint64)}
		var known memory
		synctest.Test(t, func(t *testing.T) { known = live(t, m, history) })
		for _, f := range m.faults {
			rt.Error(f)
		}
		for dir, s := range m.shards {
			for id, h := range known.Shards {
				if parsed, ok := parseProcessID(s.status.ID, s.status.ID[len(s.status.ID)-8:]); ok && parsed == id && h.Generation >= s.status.Generation && s.runs() {
					if h.Stopped {
						rt.Errorf("%s: generation %d runs, and %d was ordered to stop", dir, s.status.Generation, h.Generation)
					}
					if h.Generation == s.status.Generation && s.asleep != (h.Posture == asleep) {
						rt.Errorf("%s: generation %d is asleep: %t, and was ordered to be %q", dir, s.status.Generation, s.asleep, h.Posture)
					}
				}
			}
		}
	})
}

// A shard that is ordered to stop while its processes are being started is ended once
// they are: it is not stopped before it is known what there is to stop.
func TestStopWhileStarting(t *testing.T) {
	m := &machine{shards: make(map[string]*fakeShard), started: make(map[string]uint64)}
	id := engines.ShardID{Replica: "a"}
	start := order{Cluster: "ours", Term: 1, Kind: orderStart, Shard: id, Generation: 1, Spec: engines.ShardSpec{ID: id, Generation: 1}}
	stop := order{Cluster: "ours", Term: 1, Kind: orderStop, Shard: id, Generation: 1}
	synctest.Test(t, func(t *testing.T) {
		live(t, m, []step{{order: start, pause: 500*time.Millisecond + startTime/2}, {order: stop}})
	})
	if len(m.shards) != 1 {
		t.Fatalf("%d shards were started, want the one that was being started when it was to stop", len(m.shards))
	}
	for dir, s := range m.shards {
		if s.runs() {
			t.Errorf("%s: it is %v, and was ordered to stop", dir, s.status.State)
		}
	}
}

// live plays a history and returns what the last agent had heard of.
func live(t *testing.T, m *machine, history []step) memory {
	cfg := DefaultConfig()
	cfg.Node, cfg.Servers, cfg.StateDir = "node-1", []string{"http://127.0.0.1:1"}, t.TempDir()
	deps := Deps{Hardware: bare{}, Adapters: plain{}, runner: m, listening: func() []int { return nil }, held: func(int) (process.Holder, bool) { return process.Holder{}, false }}
	deps.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done() // nobody is there; orders come by another way
		return nil, context.Cause(ctx)
	}
	var a *Agent
	var end context.CancelFunc
	ended := make(chan error, 1)
	begin := func() {
		var err error
		if a, err = New(cfg, deps); err != nil {
			t.Fatal(err)
		}
		var ctx context.Context
		ctx, end = context.WithCancel(t.Context())
		go func() { ended <- a.Run(ctx) }()
		synctest.Wait()
		if err := a.clerk.join(ctx, "ours", 1, defaults{}); err != nil {
			t.Fatal(err)
		}
	}
	stop := func() {
		end()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	begin()
	for _, s := range history {
		s.order.Spec.Profile.Engine = engines.Sim
		a.clerk.take(s.order)
		time.Sleep(s.pause)
		if s.restart {
			stop()
			begin()
		}
	}
	time.Sleep(5 * time.Minute)
	known := a.clerk.knows()
	stop()
	return known
}
