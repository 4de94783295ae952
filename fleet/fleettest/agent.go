package fleettest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
	"github.com/llmgw/llmgw/fleet/internal/frames"
)

// Agent is one fake agent. Its methods may be called at the same time.
type Agent struct {
	id     string
	cfg    *Config
	client *http.Client
	inv    *engines.Inventory

	mu        sync.Mutex
	rand      *rand.Rand                       // guarded by mu
	faults    Faults                           // guarded by mu
	silent    bool                             // guarded by mu
	paused    bool                             // guarded by mu; the agent's process is not there
	end       func(error)                      // guarded by mu; ends the stream; nil without one
	out       *lineOf[*fleetpb.ConnectRequest] // guarded by mu; to the control plane; nil until it is welcomed
	welcomed  bool                             // guarded by mu
	woken     chan struct{}                    // guarded by mu; closed and replaced at each change of what waits
	runs      int                              // guarded by mu
	cluster   string                           // guarded by mu; kept like the next four over restarts
	term      uint64                           // guarded by mu
	ports     *fleetpb.PortRange               // guarded by mu; that the control plane said last; not changed
	heard     map[engines.ShardID]uint64
	shards    map[engines.ShardID]*shard
	revision  uint64      // guarded by mu
	starts    int         // guarded by mu
	connects  []time.Time // guarded by mu
	refusals  []error     // guarded by mu
	dials     int         // guarded by mu
	answers   map[fleetpb.Result]int
	heartbeat time.Duration // guarded by mu; as welcomed
	lastBeat  time.Time     // guarded by mu; when a heartbeat was answered
	asked     time.Time     // guarded by mu; when the last heartbeat was sent
	sequence  uint64        // guarded by mu; its
}

// shard is a shard that is simulated.
type shard struct {
	status engines.ShardStatus
	sleeps bool        // it was started so that it can sleep
	timer  *time.Timer // of its next change; nil: none comes
}

func newAgent(id string, cfg *Config, r *rand.Rand) *Agent {
	a := &Agent{
		id: id, cfg: cfg, client: whole(cfg.Client(id)), inv: cfg.Inventory(id), rand: r, faults: cfg.Faults,
		woken: make(chan struct{}), heard: make(map[engines.ShardID]uint64), shards: make(map[engines.ShardID]*shard),
		answers: make(map[fleetpb.Result]int), ports: &fleetpb.PortRange{First: 20000, Last: 20999},
	}
	if cfg.Shards != nil {
		for _, s := range cfg.Shards(id) {
			a.shards[s.ID], a.heard[s.ID] = &shard{status: s}, s.Generation
			a.revision = max(a.revision, s.Revision)
		}
	}
	return a
}

// whole is a client that sends as an agent does.
func whole(c *http.Client) *http.Client {
	out := *c
	if out.Transport == nil {
		out.Transport = http.DefaultTransport
	}
	out.Transport = frames.Whole(out.Transport)
	return &out
}

// ID is the node's id.
func (a *Agent) ID() string { return a.id }

// Connected reports whether the agent has been welcomed on the stream that it has.
func (a *Agent) Connected() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.welcomed
}

// Starts is how often a shard was started here.
func (a *Agent) Starts() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.starts
}

// Connects are the times at which the agent was welcomed. The caller owns the
// slice.
func (a *Agent) Connects() []time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.connects)
}

// Refusals are the errors with which streams ended, the newest last, at most a
// hundred. The caller owns the slice.
func (a *Agent) Refusals() []error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.refusals)
}

// Answers is how many commands were answered so.
func (a *Agent) Answers(r fleetpb.Result) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.answers[r]
}

// Term is the highest term that the agent has heard of.
func (a *Agent) Term() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.term
}

// Shards are the agent's shards, by id. The caller owns the slice.
func (a *Agent) Shards() []engines.ShardStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.statuses()
}

// statuses are the shards by id; a.mu is held.
func (a *Agent) statuses() []engines.ShardStatus {
	out := make([]engines.ShardStatus, 0, len(a.shards))
	for _, s := range a.shards {
		out = append(out, s.status)
	}
	slices.SortFunc(out, func(x, y engines.ShardStatus) int {
		return cmp.Or(cmp.Compare(x.ID.Replica, y.ID.Replica), cmp.Compare(x.ID.Rank, y.ID.Rank))
	})
	return out
}

// SetFaults replaces what becomes of messages from now on.
func (a *Agent) SetFaults(f Faults) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.faults = f
}

// Silence drops every message in both directions, as a network does that lets
// connections stand, and lets no new connection come about; false ends that.
func (a *Agent) Silence(on bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.silent = on
	a.wakeUp()
}

// wakeUp tells run to look anew; a.mu is held.
func (a *Agent) wakeUp() {
	close(a.woken)
	a.woken = make(chan struct{})
}

// Cut ends the stream, if there is one. The agent dials again.
func (a *Agent) Cut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cut(errCut)
}

func (a *Agent) cut(why error) {
	if a.end != nil {
		a.end(why)
	}
}

// Stop ends the agent's process: the stream is cut without a word, and its shards
// run on. Start begins a new run of it.
func (a *Agent) Stop() { a.pause(true) }

// Start begins a new run of an agent that was stopped.
func (a *Agent) Start() { a.pause(false) }

func (a *Agent) pause(on bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.paused == on {
		return
	}
	a.paused = on
	if on {
		a.cut(errStopped)
	} else {
		a.runs++
		a.revision = 0
		for _, s := range a.shards {
			a.revision++
			s.status.Revision, s.status.Adopted = a.revision, s.status.State.Runs()
		}
	}
	a.wakeUp()
}

// Crash ends the engine of a shard by itself. It reports whether it ran.
func (a *Agent) Crash(id engines.ShardID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.shards[id]
	if s == nil || !s.status.State.Runs() {
		return false
	}
	a.change(s, engines.ShardFailed, func(st *engines.ShardStatus) {
		st.Reason, st.Exit, st.Lines = "it ended by itself", "exit status 1", []string{"simulated crash"}
	})
	return true
}

// change gives a shard a new state and reports it; a.mu is held.
func (a *Agent) change(s *shard, state engines.ShardState, more func(*engines.ShardStatus)) {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	a.revision++
	s.status.State, s.status.Since, s.status.Revision = state, time.Now(), a.revision
	if more != nil {
		more(&s.status)
	}
	a.report(s)
}

// later changes a shard after a time, unless something else comes before; a.mu is
// held.
func (a *Agent) later(s *shard, after time.Duration, f func()) {
	var t *time.Timer
	t = time.AfterFunc(after, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if s.timer == t {
			s.timer = nil
			f()
		}
	})
	s.timer = t
}

// run keeps a stream until ctx is done.
func (a *Agent) run(ctx context.Context) {
	defer a.client.CloseIdleConnections()
	defer a.stopTimers()
	a.mu.Lock()
	first := time.Duration(a.rand.Float64() * float64(a.cfg.FirstDial))
	a.mu.Unlock()
	if !wait(ctx, first) {
		return
	}
	bound := a.cfg.BackoffMin
	for a.present(ctx) {
		if a.stream(ctx) {
			bound = a.cfg.BackoffMin
		} else {
			bound = min(2*bound, a.cfg.BackoffMax)
		}
		a.mu.Lock()
		pause := time.Duration(a.rand.Float64() * float64(bound))
		a.mu.Unlock()
		if !wait(ctx, pause) {
			return
		}
	}
}

func (a *Agent) stopTimers() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.shards {
		if s.timer != nil {
			s.timer.Stop()
			s.timer = nil
		}
	}
}

// present waits until the agent's process is there, and a network; false: ctx is
// done.
func (a *Agent) present(ctx context.Context) bool {
	for ctx.Err() == nil {
		a.mu.Lock()
		away, woken := a.paused || a.silent, a.woken
		a.mu.Unlock()
		if !away {
			return true
		}
		select {
		case <-ctx.Done():
		case <-woken:
		}
	}
	return false
}

// wait reports whether d has passed before ctx was done.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func (a *Agent) runName() string { return fmt.Sprintf("%s-run-%d", a.id, a.runs) }
