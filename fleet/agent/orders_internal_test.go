package agent

import (
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/engines"
)

// model is a node with the least that an agent needs: a disk, and engines. It does
// what apply decides, and ends where the test says.
type model struct {
	now    time.Time
	memory memory // lost in a crash
	disk   memory
	// records are what stands in the shards' directories, which a crash leaves.
	records map[engines.ShardID]presence
	running map[engines.ShardID]uint64

	// What happened, by which the model is judged.
	started map[engines.ShardID]uint64          // the highest generation that was started
	stopped map[engines.ShardID]map[uint64]bool // ordered to stop, and answered so
	heard   uint64                              // the highest term that was kept
}

func newModel() *model {
	return &model{
		now: time.Unix(1e9, 0), records: make(map[engines.ShardID]presence), running: make(map[engines.ShardID]uint64),
		started: make(map[engines.ShardID]uint64), stopped: make(map[engines.ShardID]map[uint64]bool),
	}
}

// crash is when the agent ends while it does an order.
type crash uint8

const (
	noCrash crash = iota
	beforePersist
	afterPersist
)

func (m *model) order(t *rapid.T, o order, when crash) {
	next, d := apply(m.memory, o, m.records[o.Shard], m.now)
	if when == beforePersist {
		m.restart()
		return
	}
	m.memory, m.disk = next, next
	if d.Verdict == verdictAct && o.Term < m.heard {
		t.Fatalf("an order of term %d is obeyed after term %d was heard of", o.Term, m.heard)
	}
	m.heard = max(m.heard, m.disk.Term)
	if when == afterPersist {
		m.restart()
		return
	}
	if d.Verdict == verdictStale || d.Verdict == verdictRefuse || d.Verdict == verdictLater {
		return
	}
	switch o.Kind {
	case orderStart:
		if d.Verdict == verdictAct {
			m.start(t, o)
		}
	case orderStop:
		if d.Verdict == verdictAct {
			m.records[o.Shard] = presence{Here: true, Generation: m.records[o.Shard].Generation, Ended: true}
			delete(m.running, o.Shard)
		}
		if m.stopped[o.Shard] == nil {
			m.stopped[o.Shard] = make(map[uint64]bool)
		}
		m.stopped[o.Shard][o.Generation] = true
		if g, runs := m.running[o.Shard]; runs && g <= o.Generation {
			t.Fatalf("generation %d runs after the stop of %d was answered %v", g, o.Generation, d.Verdict)
		}
	case orderDrain:
		if m.records[o.Shard].Generation != o.Generation {
			t.Fatalf("generation %d is drained, and %+v is here", o.Generation, m.records[o.Shard])
		}
	case orderSleep, orderWake:
		want := asleep
		if o.Kind == orderWake {
			want = awake
		}
		has, known := m.records[o.Shard], m.disk.Shards[o.Shard]
		if has.Generation != o.Generation || has.Ended || known.Generation == o.Generation && (known.Posture != want || want == awake && known.Draining) {
			t.Fatalf("%v of generation %d, and %+v is here, %+v heard", o.Kind, o.Generation, has, known)
		}
	}
}

func (m *model) start(t *rapid.T, o order) {
	if o.Generation <= m.started[o.Shard] {
		t.Fatalf("generation %d of %v is started after %d", o.Generation, o.Shard, m.started[o.Shard])
	}
	for g := range m.stopped[o.Shard] {
		if o.Generation <= g {
			t.Fatalf("generation %d is started after %d was ordered to stop", o.Generation, g)
		}
	}
	// The shard ends what runs before it starts another one.
	m.started[o.Shard], m.running[o.Shard] = o.Generation, o.Generation
	m.records[o.Shard] = presence{Here: true, Generation: o.Generation, Sleeps: true}
}

// restart is what an agent does that starts: it reads the disk and the records.
func (m *model) restart() {
	m.memory = m.disk
	for id, has := range m.records {
		m.memory = m.memory.found(id, has.Generation, m.now)
	}
}

func orders() *rapid.Generator[order] {
	return rapid.Custom(func(t *rapid.T) order {
		o := order{
			Cluster:    rapid.SampledFrom([]string{"ours", "ours", "ours", "other"}).Draw(t, "cluster"),
			Term:       rapid.Uint64Range(1, 4).Draw(t, "term"),
			Kind:       rapid.SampledFrom([]orderKind{orderStart, orderStart, orderStop, orderDrain, orderSleep, orderWake}).Draw(t, "kind"),
			Shard:      engines.ShardID{Replica: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "replica")},
			Generation: rapid.Uint64Range(1, 5).Draw(t, "generation"),
			Drain:      time.Duration(rapid.IntRange(0, 60).Draw(t, "drain")) * time.Second,
		}
		o.Spec = engines.ShardSpec{ID: o.Shard, Generation: o.Generation}
		return o
	})
}

// Whatever orders come, in whatever order and how often, and wherever the agent
// ends: no generation is started twice or after a higher one, none after it was
// ordered to stop, and no leader is obeyed after a higher term was heard of.
func TestOrdersAreDoneOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel()
		var err error
		if m.memory, err = m.memory.join("ours", 1, defaults{}); err != nil {
			t.Fatal(err)
		}
		m.disk = m.memory
		var given []order
		t.Repeat(map[string]func(*rapid.T){
			"order": func(t *rapid.T) {
				o := orders().Draw(t, "order")
				given = append(given, o)
				m.order(t, o, crash(rapid.IntRange(0, 2).Draw(t, "crash")))
			},
			"again": func(t *rapid.T) {
				if len(given) > 0 {
					m.order(t, rapid.SampledFrom(given).Draw(t, "order"), noCrash)
				}
			},
			"restart": func(*rapid.T) { m.restart() },
			"time": func(t *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.IntRange(1, 100).Draw(t, "minutes")) * time.Minute)
			},
			"engine ends": func(t *rapid.T) { delete(m.running, orders().Draw(t, "order").Shard) },
			// What was started still stands in the directories. Terms, and stops of what
			// never was here, are lost with the file.
			"state is lost": func(*rapid.T) {
				m.disk, m.heard = memory{Cluster: "ours"}, 0
				for id, generations := range m.stopped {
					maps.DeleteFunc(generations, func(g uint64, _ bool) bool { return g > m.records[id].Generation })
				}
				m.restart()
			},
		})
	})
}

// An order that was done needs nothing done again, and nothing kept again.
func TestOrdersAreIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := memory{Cluster: "ours", Term: 1}
		now := time.Unix(1e9, 0)
		records := make(map[engines.ShardID]presence)
		for range rapid.IntRange(1, 20).Draw(t, "orders") {
			o := orders().Draw(t, "order")
			next, d := apply(m, o, records[o.Shard], now)
			if d.Verdict == verdictAct {
				switch o.Kind {
				case orderStart:
					records[o.Shard] = presence{Here: true, Generation: o.Generation, Sleeps: true}
				case orderStop:
					records[o.Shard] = presence{Here: true, Generation: records[o.Shard].Generation, Ended: true}
				case orderDrain, orderSleep, orderWake:
				}
			}
			again, second := apply(next, o, records[o.Shard], now.Add(time.Second))
			if !again.equal(next) {
				t.Fatalf("%v again changes the memory from %+v to %+v", o.Kind, next, again)
			}
			if d.Verdict == verdictAct && (o.Kind == orderStart || o.Kind == orderStop) && second.Verdict != verdictAlready {
				t.Fatalf("%v again is %v: %s", o.Kind, second.Verdict, second.Reason)
			}
			m = next
		}
	})
}

// What is here and can sleep is put to sleep and woken, and nothing else.
func TestSleepIsDecided(t *testing.T) {
	id := engines.ShardID{Replica: "a"}
	now := time.Unix(1e9, 0)
	here := presence{Here: true, Generation: 2, Sleeps: true}
	draining := memory{Cluster: "ours", Term: 1}.with(id, heard{Generation: 2, Draining: true})
	stopped := memory{Cluster: "ours", Term: 1}.with(id, heard{Generation: 2, Stopped: true})
	for _, tt := range []struct {
		name    string
		m       memory
		has     presence
		kind    orderKind
		of      uint64
		want    verdict
		posture posture
	}{
		{"sleep", draining, here, orderSleep, 2, verdictAct, asleep},
		{"wake", draining, here, orderWake, 2, verdictAct, awake},
		{"of another generation", draining, here, orderSleep, 3, verdictRefuse, asItIs},
		{"of an older one", draining, here, orderSleep, 1, verdictStale, asItIs},
		{"of nothing", draining, presence{}, orderWake, 2, verdictRefuse, asItIs},
		{"of what cannot", draining, presence{Here: true, Generation: 2}, orderSleep, 2, verdictRefuse, asItIs},
		{"of what is not decided", draining, presence{Here: true, Generation: 2, Undecided: true}, orderSleep, 2, verdictLater, asItIs},
		{"of what has ended", draining, presence{Here: true, Generation: 2, Sleeps: true, Ended: true}, orderWake, 2, verdictRefuse, asItIs},
		{"of what is to stop", stopped, here, orderWake, 2, verdictRefuse, asItIs},
	} {
		next, d := apply(tt.m, order{Cluster: "ours", Term: 1, Kind: tt.kind, Shard: id, Generation: tt.of}, tt.has, now)
		known := next.Shards[id]
		if d.Verdict != tt.want || known.Posture != tt.posture || known.Draining != (tt.m.Shards[id].Draining && tt.posture != awake) {
			t.Errorf("%s: %v (%s), heard %+v", tt.name, d.Verdict, d.Reason, known)
		}
		if d.Verdict == verdictRefuse && (d.Reason == "" || d.Advice == "") {
			t.Errorf("%s: it is not said why, or what to do", tt.name)
		}
	}
}

// A stop can be hastened, and not delayed.
func TestStopIsHastened(t *testing.T) {
	id := engines.ShardID{Replica: "a"}
	here := presence{Here: true, Generation: 1}
	now := time.Unix(1e9, 0)
	m := memory{Cluster: "ours", Term: 1}.found(id, 1, now)
	stop := func(drain time.Duration, want time.Duration) {
		t.Helper()
		o := order{Cluster: "ours", Term: 1, Kind: orderStop, Shard: id, Generation: 1, Drain: drain}
		var d decision
		m, d = apply(m, o, here, now)
		if d.Verdict != verdictAct || !m.Shards[id].StopBy.Equal(now.Add(want)) {
			t.Errorf("a stop within %v is %v, by %v", drain, d.Verdict, m.Shards[id].StopBy.Sub(now))
		}
	}
	stop(time.Minute, time.Minute)
	stop(time.Hour, time.Minute)
	stop(time.Second, time.Second)
}

// What is over is forgotten after its time, and what is here never.
func TestForget(t *testing.T) {
	now := time.Unix(1e9, 0)
	here, gone := engines.ShardID{Replica: "here"}, engines.ShardID{Replica: "gone"}
	m := memory{Cluster: "ours"}.found(here, 1, now).found(gone, 2, now)
	is := func(id engines.ShardID) bool { return id == here }
	if kept := m.forget(now.Add(time.Hour), time.Hour, is); !kept.equal(m) {
		t.Errorf("after an hour: %+v", kept)
	}
	kept := m.forget(now.Add(time.Hour+1), time.Hour, is)
	if len(kept.Shards) != 1 || kept.Shards[here].Generation != 1 || len(m.Shards) != 2 {
		t.Errorf("after more than an hour: %+v of %+v", kept, m)
	}
}

// A node belongs to one cluster.
func TestJoin(t *testing.T) {
	m, err := memory{}.join("ours", 7, defaults{})
	if err != nil || m.Cluster != "ours" || m.Term != 7 {
		t.Fatalf("%+v, %v", m, err)
	}
	if m, err = m.join("ours", 5, defaults{}); err != nil || m.Term != 7 {
		t.Errorf("a lower term: %+v, %v", m, err)
	}
	if _, err := m.join("other", 9, defaults{Interface: "one"}); err == nil || m.Defaults != (defaults{}) {
		t.Error("another cluster is joined")
	}
}

// What a control plane says of what is left open holds until one says something else;
// one that says nothing of it changes nothing.
func TestJoinKeepsDefaults(t *testing.T) {
	var m memory
	for _, step := range []struct{ said, want defaults }{
		{defaults{}, defaults{}},
		{defaults{Interface: "one"}, defaults{Interface: "one"}},
		{defaults{First: 5, Last: 9}, defaults{"one", 5, 9}},
		{defaults{}, defaults{"one", 5, 9}},
		{defaults{"two", 6, 6}, defaults{"two", 6, 6}},
	} {
		before := m
		var err error
		if m, err = m.join("ours", 1, step.said); err != nil || m.Defaults != step.want {
			t.Errorf("%+v after %+v: %+v, %v; want %+v", step.said, before, m, err, step.want)
		}
		if changes := before.Defaults != m.Defaults; before.Cluster != "" && before.equal(m) == changes {
			t.Errorf("%+v and %+v pass for equal: %t", before, m, before.equal(m))
		}
	}
}
