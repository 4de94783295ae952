package control

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
	"github.com/llmgw/llmgw/fleet/internal/convert"
)

// oneNode is a table with one node that has registered, for a test that steps it.
func oneNode(t interface{ Fatal(...any) }, now time.Time, shards ...engines.ShardStatus) (*fleet, *node) {
	f := newFleet(DefaultConfig(), now, now)
	n, _, err := f.register(now, &registration{id: "n1", instance: "i", shards: shards}, new(stream))
	if err != nil {
		t.Fatal(err)
	}
	return f, n
}

func start() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// A node that sends its heartbeats is never found silent, whatever the control
// plane's process sleeps: what arrived meanwhile is taken in the next moment in
// which it is awake, before or after silence is judged. Where the whole machine
// sleeps, nothing arrives meanwhile, and after it only as the network comes back.
func TestOwnStallsMakeNoNodeSilent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := start()
		f, n := oneNode(t, now)
		nextTick, nextBeat := now.Add(f.cfg.Tick), now
		millis := func(name string, least, most int) time.Duration {
			return time.Duration(rapid.IntRange(least, most).Draw(t, name)) * time.Millisecond
		}
		judge := func() {
			for _, c := range first(f.step(now)) {
				t.Fatalf("%v after %v: %v -> %v", c.node.id, now.Sub(start()), c.from, c.to)
			}
			nextTick = now.Add(f.cfg.Tick)
		}
		machine := rapid.Bool().Draw(t, "the machine sleeps")
		for range rapid.IntRange(1, 40).Draw(t, "windows") {
			now = now.Add(millis("asleep", 0, 120_000))
			arrived := !nextBeat.After(now)
			for !nextBeat.After(now) {
				nextBeat = nextBeat.Add(f.cfg.Heartbeat)
			}
			end := now.Add(millis("awake", 1, 12_000))
			if machine && arrived {
				arrived, nextBeat, end = false, now.Add(millis("network", 0, 4000)), now.Add(millis("awake", 5000, 12_000))
			}
			judgeFirst := rapid.Bool().Draw(t, "judged first")
			due := !nextTick.After(now)
			if due && judgeFirst {
				judge()
			}
			if arrived {
				n.hear(f.base, now)
			}
			if due && !judgeFirst {
				judge()
			}
			for {
				if nextTick.Before(nextBeat) && nextTick.Before(end) {
					now = nextTick
					judge()
				} else if nextBeat.Before(end) {
					now = nextBeat
					n.hear(f.base, now)
					nextBeat = nextBeat.Add(f.cfg.Heartbeat + millis("late", 0, 2000))
				} else {
					break
				}
			}
			now = end
		}
	})
}

func first[A, B any](a A, _ B) A { return a }

// A node that really is silent is found so at the first step after the bound and
// not before, as long as the process is not asleep; and sleep adds no more than
// itself.
func TestRealSilenceIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := start()
		f, n := oneNode(t, now)
		var heard time.Time
		silent := func() time.Duration { return now.Sub(heard) }
		var slept time.Duration
		for range rapid.IntRange(0, 30).Draw(t, "beats") {
			now = now.Add(time.Duration(rapid.IntRange(1, 2000).Draw(t, "gap")) * time.Millisecond)
			n.hear(f.base, now)
			f.step(now)
		}
		heard = now
		n.hear(f.base, now)
		sleeps := rapid.Bool().Draw(t, "sleeps")
		for n.state != Lost {
			gap := time.Duration(rapid.IntRange(1, 2000).Draw(t, "gap")) * time.Millisecond
			if sleeps && rapid.IntRange(0, 4).Draw(t, "sleep") == 0 {
				gap += 100 * time.Second
				slept += gap
			}
			now = now.Add(gap)
			before := n.state
			f.step(now)
			wantAtMost := Ready
			switch {
			case silent() >= f.cfg.LostAfter:
				wantAtMost = Lost
			case silent() >= f.cfg.UnreachableAfter:
				wantAtMost = Unreachable
			}
			if n.state > wantAtMost || n.state < before {
				t.Fatalf("after %v of silence: %v", silent(), n.state)
			}
			if slept == 0 && n.state != wantAtMost {
				t.Fatalf("after %v of silence, awake: %v; want %v", silent(), n.state, wantAtMost)
			}
			if silent()-slept > f.cfg.LostAfter+2*f.cfg.Tick {
				t.Fatalf("after %v of silence, of which %v asleep: %v", silent(), slept, n.state)
			}
		}
	})
}

func TestExpectedNodesAreLostFromTheAccessionOn(t *testing.T) {
	now := start()
	f := newFleet(DefaultConfig(), now.Add(-time.Hour), now)
	if got := f.expect([]Known{{ID: "n1", Instance: "a", Heard: now.Add(-time.Hour)}, {ID: "not an id"}}); got != 1 {
		t.Fatalf("%d nodes are expected", got)
	}
	for s := 1; s < 60; s++ {
		if c, _ := f.step(now.Add(time.Duration(s) * time.Second)); len(c) > 0 {
			t.Fatalf("after %d s: %v", s, c[0].to)
		}
	}
	c, _ := f.step(now.Add(60 * time.Second))
	if len(c) != 1 || c[0].from != Expected || c[0].to != Lost {
		t.Fatalf("after 60 s: %+v", c)
	}
	if got := f.snapshot(c[0].node, now.Add(time.Minute)); !got.Heard.IsZero() || got.Connected || !got.Since.Equal(now.Add(time.Minute)) {
		t.Errorf("node %+v", got)
	}
}

// agentModel is the truth of an agent's shards.
type agentModel struct {
	shards     map[engines.ShardID]engines.ShardStatus
	generation uint64 // no start is ordered with one that was used
	revision   uint64
	sequence   uint64
}

func (a *agentModel) heartbeat() *fleetpb.Heartbeat {
	a.sequence++
	m := &fleetpb.Heartbeat{Sequence: a.sequence}
	for _, s := range a.shards {
		m.Shards = append(m.Shards, convert.BriefToWire(s))
	}
	return m
}

// change makes something happen on the node and returns the status that tells of
// it; nil: a record was dropped, of which heartbeats tell.
func (a *agentModel) change(t *rapid.T) *engines.ShardStatus {
	id := engines.ShardID{Replica: rapid.SampledFrom([]string{"r1", "r2", "r3"}).Draw(t, "replica"), Rank: rapid.IntRange(0, 1).Draw(t, "rank")}
	s, has := a.shards[id]
	if has && rapid.IntRange(0, 5).Draw(t, "dropped") == 0 {
		delete(a.shards, id)
		return nil
	}
	a.revision++
	if !has || rapid.IntRange(0, 3).Draw(t, "started anew") == 0 {
		a.generation++
		s = engines.ShardStatus{ID: id, Generation: a.generation}
	}
	s.Revision = a.revision
	s.State = engines.ShardState(rapid.IntRange(1, int(engines.ShardFailed)).Draw(t, "state")) //nolint:gosec // in range
	s.Running = rapid.Ptr(rapid.IntRange(0, 9), true).Draw(t, "running")
	a.shards[id] = s
	return &s
}

// Whatever of a stream's messages is lost, doubled, late or in another order, the
// table comes to the agent's truth by heartbeats and what they ask for; and
// never goes back on the way.
func TestTheTableComesToTheTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, n := oneNode(t, start())
		a := &agentModel{shards: map[engines.ShardID]engines.ShardStatus{}}
		var underway []any // *engines.ShardStatus, *fleetpb.Heartbeat
		deliver := func(m any) (resend []string) {
			told := f.snapshot(n, start()).Shards
			before := slices.Clone(told)
			switch m := m.(type) {
			case *engines.ShardStatus:
				f.status(n, *m)
			case *fleetpb.Heartbeat:
				beat, err := convert.HeartbeatFromWire(m)
				if err != nil {
					t.Fatal(err)
				}
				resend = f.heartbeat(n, beat.Sequence, beat.State, nil, beat.Shards)
			}
			for _, old := range before {
				if i, found := n.find(old.ID); found && newer(old.Generation, old.Revision, n.shards[i]) {
					t.Fatalf("%v went back from (%d, %d) to (%d, %d)", old.ID, old.Generation, old.Revision, n.shards[i].Generation, n.shards[i].Revision)
				}
			}
			if diff := cmp.Diff(before, told, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("what a snapshot told has changed: (-then +now):\n%s", diff)
			}
			return resend
		}
		again := func(resend []string) (out []any) {
			for _, name := range resend {
				id, err := engines.ParseShardID(name)
				if err != nil {
					t.Fatal(err)
				}
				if s, has := a.shards[id]; has {
					out = append(out, &s)
				}
			}
			return out
		}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				if s := a.change(t); s != nil {
					underway = append(underway, s)
				}
			case 1:
				underway = append(underway, a.heartbeat())
			default:
				if len(underway) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(underway)-1).Draw(t, "which")
				m := underway[i]
				if rapid.IntRange(0, 3).Draw(t, "stays to come again") > 0 {
					underway = slices.Delete(underway, i, i+1)
				}
				if rapid.IntRange(0, 3).Draw(t, "lost") > 0 {
					underway = append(underway, again(deliver(m))...)
				}
			}
		}
		for _, m := range underway { // late
			deliver(m)
		}
		for range mostMissed + 1 {
			for _, m := range again(deliver(a.heartbeat())) {
				deliver(m)
			}
		}
		got := map[engines.ShardID]engines.ShardStatus{}
		for _, s := range f.snapshot(n, start()).Shards {
			got[s.ID] = s
		}
		if diff := cmp.Diff(a.shards, got); diff != "" {
			t.Fatalf("(-agent +table):\n%s", diff)
		}
	})
}

// A heartbeat that was sent before a shard began and comes after its status does
// not make the shard gone, and one that comes after a newer one says nothing.
func TestLateHeartbeats(t *testing.T) {
	now := start()
	r1, r2 := engines.ShardID{Replica: "r1"}, engines.ShardID{Replica: "r2"}
	f, n := oneNode(t, now, engines.ShardStatus{ID: r1, Generation: 1, Revision: 1})
	beat := func(sequence uint64, free uint64, replicas ...string) {
		var briefs []convert.Brief
		for _, r := range replicas {
			briefs = append(briefs, convert.Brief{ID: engines.ShardID{Replica: r}, Generation: 1, Revision: 1})
		}
		f.heartbeat(n, sequence, engines.NodeState{MemoryAvailableBytes: engines.Known(free)}, nil, briefs)
	}
	want := func(free uint64, ids ...engines.ShardID) {
		t.Helper()
		got := f.snapshot(n, now)
		if !got.Reading.MemoryAvailableBytes.Is(free) {
			t.Errorf("free: %v; want %d", got.Reading.MemoryAvailableBytes, free)
		}
		var has []engines.ShardID
		for _, s := range got.Shards {
			has = append(has, s.ID)
		}
		if diff := cmp.Diff(ids, has); diff != "" {
			t.Errorf("shards (-want +got):\n%s", diff)
		}
	}
	beat(1, 100, "r1")
	f.status(n, engines.ShardStatus{ID: r2, Generation: 1, Revision: 1})
	beat(2, 90, "r1") // sent before the status of r2
	want(90, r1, r2)
	beat(3, 80, "r1", "r2")
	beat(1, 100, "r1")
	beat(2, 90, "r1")
	want(80, r1, r2)
	beat(4, 70, "r1")
	want(70, r1, r2)
	beat(5, 60, "r1")
	want(60, r1)
}

func TestSnapshotsDoNotChange(t *testing.T) {
	now := start()
	id := engines.ShardID{Replica: "r1"}
	f, n := oneNode(t, now, engines.ShardStatus{ID: id, Generation: 1, Revision: 1, State: engines.ShardLoading})
	before := f.snapshot(n, now)
	f.status(n, engines.ShardStatus{ID: id, Generation: 1, Revision: 2, State: engines.ShardReady})
	f.heartbeat(n, 1, engines.NodeState{}, nil, []convert.Brief{{ID: engines.ShardID{Replica: "r1"}, Generation: 1, Revision: 2, Running: engines.Known(3)}})
	if s, _ := before.Shard(id); s.State != engines.ShardLoading || s.Running != nil {
		t.Errorf("an old snapshot says %+v", s)
	}
	after := f.snapshot(n, now)
	if s, _ := after.Shard(id); s.State != engines.ShardReady || s.Running == nil || *s.Running != 3 {
		t.Errorf("a new snapshot says %+v", s)
	}
	if _, found := after.Shard(engines.ShardID{Replica: "r1", Rank: 1}); found {
		t.Error("a shard that is not there is found")
	}
}

func TestTheTableIsBounded(t *testing.T) {
	now := start()
	cfg := DefaultConfig()
	cfg.MaxShardsPerNode, cfg.MaxNodes = 2, 1
	f := newFleet(cfg, now, now)
	n, _, err := f.register(now, &registration{id: "n1"}, new(stream))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.register(now, &registration{id: "n2"}, new(stream)); err == nil {
		t.Error("a node more than max_nodes was taken")
	}
	if got := f.expect([]Known{{ID: "n3"}}); got != 0 {
		t.Error("a node more than max_nodes is expected")
	}
	for i, want := range []bool{true, true, false} {
		s := engines.ShardStatus{ID: engines.ShardID{Replica: "r", Rank: i}, Generation: 1}
		if got := f.status(n, s); got != want {
			t.Errorf("shard %d: %v", i, got)
		}
	}
	resend := f.heartbeat(n, 1, engines.NodeState{}, nil, []convert.Brief{{ID: engines.ShardID{Replica: "r", Rank: 2}, Generation: 1}})
	if len(resend) != 0 {
		t.Errorf("asks for %v, for which there is no room", resend)
	}
}

func TestOneBeatAsksForSoMany(t *testing.T) {
	f, n := oneNode(t, start())
	var briefs []convert.Brief
	for i := range mostResend + 10 {
		briefs = append(briefs, convert.Brief{ID: engines.ShardID{Replica: "r", Rank: i}, Generation: 1})
	}
	if got := f.heartbeat(n, 1, engines.NodeState{}, nil, briefs); len(got) != mostResend || got[0] != "r/0" {
		t.Errorf("asks for %d", len(got))
	}
}

// The first look after a stall judges by what was known before it: what came
// meanwhile waits to be taken.
func TestWhatWaitsIsTakenBeforeSilenceIsJudged(t *testing.T) {
	now := start()
	f, n := oneNode(t, now)
	for range 14 { // its heartbeats were lost on the way
		now = now.Add(time.Second)
		f.step(now)
	}
	now = now.Add(time.Hour)
	changed, stalled := f.step(now)
	if len(changed) > 0 || stalled != time.Hour-2*f.cfg.Tick {
		t.Fatalf("at the first look after a stall: %+v, stalled for %v", changed, stalled)
	}
	n.hear(f.base, now)
	if changed, _ := f.step(now.Add(time.Second)); len(changed) > 0 {
		t.Fatalf("it was heard, and is %v", changed[0].to)
	}
	// One that has nothing waiting is found silent at the next look.
	f, n = oneNode(t, now)
	for range 14 {
		now = now.Add(time.Second)
		f.step(now)
	}
	now = now.Add(time.Hour)
	f.step(now)
	if f.step(now.Add(time.Second)); n.state != Unreachable {
		t.Fatalf("nothing came, and it is %v", n.state)
	}
}
