package control_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/control"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// journal keeps nodes in memory, and fails while it is away.
type journal struct {
	mu    sync.Mutex
	away  bool
	nodes map[string]control.Known
	saves int
}

var errAway = errors.New("the store is away")

func (j *journal) Nodes(context.Context) ([]control.Known, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.away {
		return nil, errAway
	}
	var out []control.Known
	for _, n := range j.nodes {
		out = append(out, n)
	}
	return out, nil
}

func (j *journal) Save(_ context.Context, nodes []control.Known) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.away {
		return errAway
	}
	j.saves++
	for _, n := range nodes {
		j.nodes[n.ID] = n
	}
	return nil
}

func (j *journal) set(away bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.away = away
}

func (j *journal) saved(id string) (control.Known, int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.nodes[id], j.saves
}

func newJournal(ids ...string) *journal {
	j := &journal{nodes: map[string]control.Known{}}
	for _, id := range ids {
		j.nodes[id] = control.Known{ID: id, Instance: "instance-" + id, Inventory: &engines.Inventory{GPUs: []engines.GPU{{UUID: "GPU-1"}}}}
	}
	return j
}

func TestNodesOfTheJournalAreExpected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal("n1", "n2", "n3")
		w := newWorld(t, control.DefaultConfig(), control.Deps{Journal: j})
		begun := time.Now()
		if at, complete := w.plane.Accession(); !complete || !at.Equal(begun) {
			t.Errorf("accession %v, %v", at, complete)
		}
		n, _ := w.plane.Node("n1")
		if n.State != control.Expected || !n.Heard.IsZero() || n.Connected || len(n.Inventory.GPUs) != 1 {
			t.Errorf("node %+v", n)
		}
		// Another machine does not take an expected node's id at once.
		clone := hello("n2")
		clone.Instance = "another"
		w.dial(clone).wantRefusal(connect.CodeAlreadyExists, "the agent at an address that is not known has it")
		a := w.dial(hello("n1"))
		for range 7 {
			time.Sleep(5 * time.Second)
			a.heartbeat()
		}
		if got := []control.State{w.state("n1"), w.state("n2"), w.state("n3")}; !cmp.Equal(got, []control.State{control.Ready, control.Expected, control.Expected}) {
			t.Errorf("after 35 s: %v", got)
		}
		w.dial(clone).wantWelcome()
		for range 6 {
			time.Sleep(5 * time.Second)
			a.heartbeat()
		}
		if got := w.state("n3"); got != control.Lost {
			t.Errorf("after %v: %v", time.Since(begun), got)
		}
	})
}

func TestTheJournalMayBeAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal("n1", "n2")
		j.set(true)
		w := newWorld(t, control.DefaultConfig(), control.Deps{Journal: j})
		h := hello("n1")
		h.Address = "10.9.9.9"
		a := w.dial(h)
		a.wantWelcome()
		if _, complete := w.plane.Accession(); complete {
			t.Error("the list of nodes passes for complete")
		}
		watcher := w.plane.Watch()
		defer watcher.Close()
		watcher.Take()
		for range 3 {
			time.Sleep(5 * time.Second)
			a.heartbeat()
		}
		j.set(false)
		time.Sleep(6 * time.Second)
		a.heartbeat()
		if _, complete := w.plane.Accession(); !complete || w.state("n2") != control.Expected || w.state("n1") != control.Ready {
			t.Errorf("after the journal came back: %v, %v, %v", complete, w.state("n1"), w.state("n2"))
		}
		if c, some := watcher.Take(); !some || !c.All {
			t.Errorf("watcher: %+v, %v", c, some)
		}
		if known, saves := j.saved("n1"); known.Address != "10.9.9.9" || known.Ports.First != 20000 || known.Heard.IsZero() || saves != 1 {
			t.Errorf("saved %d times: %+v", saves, known)
		}
		for range 4 { // heartbeats are not worth writing
			time.Sleep(5 * time.Second)
			a.heartbeat()
		}
		if _, saves := j.saved("n1"); saves != 1 {
			t.Errorf("saved %d times", saves)
		}
	})
}

func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, control.DefaultConfig(), control.Deps{Journal: newJournal("n1", "n2")})
		h := hello("n1")
		h.Shards = []*fleetpb.ShardStatus{shard("r1", 1, 1, fleetpb.ShardState_SHARD_STATE_READY)}
		a := w.dial(h)
		watcher := w.plane.Watch()
		defer watcher.Close()
		watcher.Take()
		if w.plane.Forget("n1") {
			t.Error("a node that is connected is forgotten")
		}
		a.hangUp()
		watcher.Take()
		for _, id := range []string{"n1", "n2", "n2"} {
			if !w.plane.Forget(id) {
				t.Errorf("%s is not forgotten", id)
			}
		}
		if got := w.plane.Nodes(); len(got) != 0 {
			t.Errorf("nodes %+v", got)
		}
		c, _ := watcher.Take()
		var gone []string
		for _, change := range c.List {
			if change.Gone {
				gone = append(gone, change.Node+" "+change.Shard.Replica)
			}
		}
		if diff := cmp.Diff([]string{"n1 ", "n1 r1", "n2 "}, gone); diff != "" {
			t.Errorf("gone (-want +got):\n%s", diff)
		}
		w.dial(h).wantWelcome()
	})
}

func TestStandbysHoldNoStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		auth := leader()
		auth.set(func(m *control.Mandate) { m.Level = control.Standby })
		reg := prometheus.NewRegistry()
		w := newWorld(t, control.DefaultConfig(), control.Deps{Authority: auth, Journal: newJournal("n1"), Registerer: reg})
		w.dial(hello("n1")).wantRefusal(connect.CodeUnavailable, "this control plane does not lead")
		// The time before its beginning is none in which it stood still.
		if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP llmgw_control_stalls_seconds_total Time in which this process stood still, and no silence was counted.
# TYPE llmgw_control_stalls_seconds_total counter
llmgw_control_stalls_seconds_total 0
`), "llmgw_control_stalls_seconds_total"); err != nil {
			t.Error(err)
		}
		if got := w.plane.Nodes(); len(got) != 0 {
			t.Errorf("nodes %+v", got)
		}
		if _, complete := w.plane.Accession(); complete {
			t.Error("a standby's list of nodes passes for complete")
		}

		time.Sleep(time.Minute)
		auth.set(func(m *control.Mandate) { m.Level = control.Leader })
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if got := w.state("n1"); got != control.Expected {
			t.Errorf("after the accession: %v", got)
		}
		if at, _ := w.plane.Accession(); time.Since(at) > 2*time.Second {
			t.Errorf("accession %v ago", time.Since(at))
		}
		a := w.dial(hello("n1"))
		a.wantWelcome()

		auth.set(func(m *control.Mandate) { m.Level = control.Observer })
		time.Sleep(1500 * time.Millisecond)
		a.heartbeat()
		if n, _ := w.plane.Node("n1"); !n.Connected {
			t.Errorf("an observer has dropped the stream: %v", a.refusal())
		}

		auth.set(func(m *control.Mandate) { m.Level = control.Standby })
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		a.wantRefusal(connect.CodeUnavailable, "this control plane does not lead")
		if got := w.plane.Nodes(); len(got) != 0 {
			t.Errorf("nodes %+v", got)
		}
	})
}

func TestWatchersLoseNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := control.DefaultConfig()
		cfg.MaxWatched = 3
		w := newWorld(t, cfg, control.Deps{})
		watcher := w.plane.Watch()
		defer watcher.Close()
		if c, err := watcher.Next(t.Context()); err != nil || !c.All {
			t.Fatalf("first: %+v, %v", c, err)
		}
		a := w.dial(hello("n1"))
		loading, ready := shard("r1", 1, 1, fleetpb.ShardState_SHARD_STATE_LOADING), shard("r1", 1, 2, fleetpb.ShardState_SHARD_STATE_READY)
		a.status(loading)
		a.status(ready)
		<-watcher.C()
		c, err := watcher.Next(t.Context())
		if err != nil || len(c.List) != 2 || c.List[0].Node != "n1" || c.List[0].Shard.Replica != "" || c.List[1].Status.State != engines.ShardReady {
			t.Fatalf("changes %+v, %v", c, err)
		}
		if _, some := watcher.Take(); some {
			t.Error("there is more")
		}
		a.status(loading) // late
		a.heartbeat(&fleetpb.ShardBrief{Replica: "r1", Generation: 1, Revision: 2, Running: new(uint32(4))})
		if c, some := watcher.Take(); some {
			t.Errorf("a late status and a count are changes: %+v", c)
		}
		a.heartbeat()
		a.heartbeat()
		if c, some := watcher.Take(); !some || len(c.List) != 1 || !c.List[0].Gone {
			t.Errorf("the agent has the shard no more: %+v", c)
		}
		for _, r := range []string{"a", "b", "c", "d"} {
			a.status(shard(r, 1, 1, fleetpb.ShardState_SHARD_STATE_READY))
		}
		if c, some := watcher.Take(); !some || !c.All {
			t.Errorf("more than max_watched: %+v", c)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := watcher.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("nothing changes: %v", err)
		}
		a.hangUp()
		if c, err := watcher.Next(t.Context()); err != nil || len(c.List) != 1 || c.List[0].Gone {
			t.Errorf("the stream has ended: %+v, %v", c, err)
		}
	})
}

func TestLostStatusesAreAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, control.DefaultConfig(), control.Deps{})
		a := w.dial(hello("n1"))
		s := shard("r1", 2, 5, fleetpb.ShardState_SHARD_STATE_READY)
		if beat := a.heartbeat(brief(s)); !cmp.Equal(beat.GetResend(), []string{"r1/0"}) {
			t.Errorf("beat %v", beat)
		}
		a.status(s)
		if beat := a.heartbeat(brief(s)); len(beat.GetResend()) != 0 {
			t.Errorf("beat %v", beat)
		}
		if n, _ := w.plane.Node("n1"); len(n.Shards) != 1 || n.Shards[0].Revision != 5 {
			t.Errorf("shards %+v", n.Shards)
		}
	})
}

// A node that comes before the journal was read is new only if it has never heard
// of the cluster.
func TestNodesThatComeBeforeTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal("n1")
		j.set(true)
		reg := prometheus.NewRegistry()
		w := newWorld(t, control.DefaultConfig(), control.Deps{Journal: j, Registerer: reg})
		old := hello("n1")
		old.Cluster = new("c1")
		w.dial(old).wantWelcome()
		w.dial(hello("n2")).wantWelcome()
		err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP llmgw_control_registrations_total Streams that began: of new nodes, of nodes that came back, and over streams that had not ended.
# TYPE llmgw_control_registrations_total counter
llmgw_control_registrations_total{kind="new"} 1
llmgw_control_registrations_total{kind="reconnect"} 1
llmgw_control_registrations_total{kind="takeover"} 0
`), "llmgw_control_registrations_total")
		if err != nil {
			t.Error(err)
		}
	})
}
