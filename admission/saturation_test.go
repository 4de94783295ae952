package admission_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/admission"
)

func detector(tb testing.TB) *admission.WorseOf {
	tb.Helper()
	return detectorOf(tb, 8)
}

// detectorOf is a detector that takes engines to run that many requests.
func detectorOf(tb testing.TB, assumed float64) *admission.WorseOf {
	tb.Helper()
	cfg := admission.DefaultSaturationConfig()
	cfg.AssumedCapacity = assumed
	d, err := admission.NewWorseOf(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func known(v float64) admission.Reading { return admission.Read(v) }

// TestSaturation shows what one look at a pool says (R-ADM-03, R-ADM-17).
func TestSaturation(t *testing.T) {
	now := start()
	type endpoints = []admission.EndpointLoad
	measured := func(running, waiting, kv admission.Reading) admission.EndpointLoad {
		return admission.EndpointLoad{
			ID: "a", MeasuredAt: now, InFlight: known(0), MeasuredInFlight: known(0),
			Running: running, Waiting: waiting, KVUsedRatio: kv,
		}
	}
	var none admission.Reading
	for _, test := range []struct {
		name   string
		load   endpoints
		leases int
		want   float64
	}{
		{"no endpoints: open", nil, 100, 0},
		{"idle", endpoints{measured(known(0), known(0), known(0))}, 0, 0},
		{"no queue, KV 0.95: saturated", endpoints{measured(known(0), known(0), known(0.95))}, 0, 0.95 / 0.9},
		{"long queue, KV 0: saturated", endpoints{measured(known(0), known(8), known(0))}, 0, 2},
		{"KV at its ceiling", endpoints{measured(known(1), known(0), known(0.9))}, 1, 1},
		{"half of the capacity that is taken for granted", endpoints{measured(none, none, none)}, 4, 0.5},
		{"queued work: twice the capacity", endpoints{measured(none, none, none)}, 16, 2},
		{"others run 6 of 8", endpoints{measured(known(6), known(0), known(0))}, 0, 6.0 / 8},
		{"others run 12, so it can", endpoints{measured(known(12), known(0), known(0))}, 0, 12.0 / 15},
		{"never measured: leases alone", endpoints{{ID: "a"}}, 2, 0.25},
		{"capacity known", endpoints{{ID: "a", BatchCapacity: known(100)}}, 25, 0.25},
		{"capacity known to be 0 is no capacity", endpoints{{ID: "a", BatchCapacity: known(0)}}, 2, 0.25},
		{"a weight is a share, no capacity", endpoints{{ID: "a", Weight: 3}}, 4, 0.5},
		{"capacity assumed", endpoints{{ID: "a", AssumedCapacity: known(100)}}, 25, 0.25},
		{"capacity known and assumed", endpoints{{ID: "a", AssumedCapacity: known(10), BatchCapacity: known(100)}}, 25, 0.25},
		{"capacity assumed to be 0 is no capacity", endpoints{{ID: "a", AssumedCapacity: known(0)}}, 2, 0.25},
		{"more than the known capacity counts against it", endpoints{{
			ID: "a", MeasuredAt: now, InFlight: known(0), MeasuredInFlight: known(0), Running: known(12), BatchCapacity: known(6),
		}}, 0, 2},
		{"another pool's requests", endpoints{{ID: "a", InFlight: known(4)}}, 0, 0.5},
		{"mine are among those in flight", endpoints{{ID: "a", InFlight: known(4)}}, 4, 0.5},
		{"granted, not sent yet", endpoints{{ID: "a", InFlight: known(1)}}, 4, 0.5},
		{"measurement from the future", endpoints{{ID: "a", MeasuredAt: now.Add(time.Hour), Running: known(4)}}, 0, 0.5},
		{"stale: says nothing", endpoints{{
			ID: "a", MeasuredAt: now.Add(-11 * time.Second), Running: known(100), Waiting: known(100), KVUsedRatio: known(1),
		}}, 2, 0.25},
		{"others by a measurement that saw 3 of mine", endpoints{{
			ID: "a", MeasuredAt: now, InFlight: known(1), MeasuredInFlight: known(3), Running: known(5),
		}}, 1, 3.0 / 8},
		{"two engines: queue and KV over both", endpoints{
			measured(known(0), known(4), known(0.9)),
			{ID: "b", MeasuredAt: now, Running: known(0), Waiting: known(0), KVUsedRatio: known(0)},
		}, 0, 0.5},
		{"one of two has no metrics: its queue is not 0", endpoints{measured(known(0), known(4), none), {ID: "b"}}, 0, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := detector(t)
			d.Observe(now, &admission.Load{Endpoints: test.load}, test.leases)
			if got := d.Saturation(test.leases); math.Abs(got-test.want) > 1e-9 {
				t.Errorf("saturation %v, want %v: %+v", got, test.want, d.Explain(test.leases))
			}
		})
	}
}

// scrapes shows a detector one engine's measurements, a second apart.
type scrapes struct {
	d   *admission.WorseOf
	now time.Time
}

func (s *scrapes) see(running, waiting float64) admission.Saturation {
	s.now = s.now.Add(time.Second)
	load := &admission.Load{Endpoints: []admission.EndpointLoad{{
		ID: "a", MeasuredAt: s.now, Running: known(running), Waiting: known(waiting),
	}}}
	for range 3 { // looked at more often than measured
		s.d.Observe(s.now, load, int(running+waiting))
	}
	return s.d.Explain(int(running + waiting))
}

// TestLearnedCapacity: the most that an engine was seen to run is what it can
// (R-ADM-18).
func TestLearnedCapacity(t *testing.T) {
	s := &scrapes{detector(t), start()}
	for _, running := range []float64{3, 20, 5} {
		s.see(running, 0)
	}
	got := s.see(2, 0)
	if got.Learned != 20 {
		t.Errorf("learned %v, want 20", got.Learned)
	}
}

// TestProbe: an engine that runs most of what it is thought able to and holds
// nothing back is given more, and no more once it is full.
func TestProbe(t *testing.T) {
	s := &scrapes{detector(t), start()}
	if got := s.see(2, 0); got.Capacity != 8 {
		t.Fatalf("capacity %v at first, want the target", got.Capacity)
	}
	steps := 0
	capacity := 8.0
	for capacity < 256 {
		next := s.see(math.Ceil(0.85*capacity), 0).Capacity
		if next <= capacity {
			t.Fatalf("capacity %v after %v", next, capacity)
		}
		capacity = next
		steps++
	}
	if steps > 16 {
		t.Errorf("%d measurements from 8 to 256, want 16 at most", steps)
	}
	// It runs 200 and holds some back, twice: that is its limit.
	s.see(256, 0)
	s.see(256, 40)
	if got := s.see(256, 30); got.Capacity != 256 || got.Learned != 256 {
		t.Errorf("capacity %v, learned %v of a full engine; want 256", got.Capacity, got.Learned)
	}
	for range 20 {
		if got := s.see(250, 0); got.Capacity != 256 {
			t.Fatalf("capacity %v soon after it was full", got.Capacity)
		}
	}
	for range 20 {
		s.see(250, 0)
	}
	if got := s.see(250, 0); got.Capacity <= 256 {
		t.Errorf("capacity %v long after it was full; want another trial", got.Capacity)
	}
}

// TestSmallEngine: an engine that runs fewer than assumed is found out by what it
// holds back: for certain by several measurements, and for the time being by one
// where it holds back more than it runs.
func TestSmallEngine(t *testing.T) {
	for _, test := range []struct {
		name  string
		queue []float64 // while it runs 3
		want  float64
	}{
		{"a short queue once", []float64{2}, 8},
		{"a long queue once", []float64{6}, 3},
		{"a queue twice", []float64{6, 4}, 3},
		{"one request twice, with places to spare", []float64{1, 1}, 8},
		{"one request three times, not in a row", []float64{1, 0, 1, 0, 0, 1}, 8},
	} {
		s := &scrapes{detector(t), start()}
		s.see(3, 0)
		var got admission.Saturation
		for _, q := range test.queue {
			got = s.see(3, q)
		}
		if got.Capacity != test.want {
			t.Errorf("%s: capacity %v, want %v", test.name, got.Capacity, test.want)
		}
	}
	// A long queue that was gone is believed for half a minute, or until the engine
	// runs clearly more; the second time it is believed.
	s := &scrapes{detector(t), start()}
	s.see(3, 6)
	if got := s.see(1, 0); got.Capacity != 3 {
		t.Errorf("%+v, want 3", got)
	}
	if got := s.see(4, 0); got.Capacity >= 8 {
		t.Errorf("%+v of an engine that ran one more, want it not to be believed yet", got)
	}
	if got := s.see(5, 0); got.Capacity != 8 {
		t.Errorf("%+v of an engine that ran more, want 8", got)
	}
	for i, want := range []float64{8, 5} {
		s.see(4, 6)
		s.now = s.now.Add(30 * time.Second)
		if got := s.see(1, 0); got.Capacity != want {
			t.Errorf("%+v half a minute after the queue no. %d, want %v", got, i+1, want)
		}
	}
	// What comes and goes in the queue of a busy engine, since for each that ends
	// another comes, is no sign that it is full.
	idle := &scrapes{detectorOf(t, 256), start()}
	for range 100 {
		if got := idle.see(3, 2); got.Capacity != 256 {
			t.Fatalf("%+v, want 256", got)
		}
	}
	busy := &scrapes{detectorOf(t, 256), start()}
	for range 100 {
		for _, q := range []float64{3, 2, 0} {
			if got := busy.see(77, q); got.Capacity != 256 {
				t.Fatalf("%+v, want 256", got)
			}
		}
	}
	// One that begins with a flood, taken for 256, is known with the first look.
	s = &scrapes{detectorOf(t, 256), start()}
	s.see(0, 0)
	if got := s.see(16, 61); got.Capacity != 16 || got.Value < 4 {
		t.Errorf("%+v after one look, want a capacity of 16", got)
	}
	if got := s.see(16, 40); got.Capacity != 16 {
		t.Errorf("%+v after two looks", got)
	}
	for range 100 { // and stays known when the flood is kept out
		if got := s.see(5, 0); got.Capacity != 16 {
			t.Fatalf("%+v with 5 running", got)
		}
	}
	// What looked small and was not grows again.
	s = &scrapes{detector(t), start()}
	s.see(1, 0)
	s.see(1, 5)
	if got := s.see(1, 5); got.Capacity != 1 {
		t.Fatalf("capacity %v, want 1", got.Capacity)
	}
	capacity := 1.0
	for range 60 {
		capacity = s.see(math.Ceil(0.85*capacity), 0).Capacity
	}
	if capacity < 8 {
		t.Errorf("capacity %v a minute later, want it to have grown", capacity)
	}
}

// TestUnlearned: what was learned of a full engine is given up an hour after it
// was full last, and what it once ran when it is full at much less for a while.
func TestUnlearned(t *testing.T) {
	s := &scrapes{detectorOf(t, 64), start()}
	s.see(16, 30)
	s.see(16, 30)
	if got := s.see(0, 0); got.Capacity != 16 {
		t.Fatalf("capacity %v, want 16", got.Capacity)
	}
	s.now = s.now.Add(time.Hour)
	if got := s.see(2, 0); got.Capacity != 64 {
		t.Errorf("capacity %v an hour later, want 64", got.Capacity)
	}

	s = &scrapes{detectorOf(t, 64), start()}
	s.see(200, 0)
	var got admission.Saturation
	for range 4 {
		got = s.see(20, 30)
	}
	if got.Capacity != 200 || got.Queue < 7 {
		t.Errorf("%+v after some seconds, want 200 and a queue that says enough", got)
	}
	for range 2 {
		got = s.see(20, 30)
	}
	if got.Capacity != 20 {
		t.Errorf("capacity %v, want 20 of an engine that runs no more", got.Capacity)
	}
	if got = s.see(60, 0); got.Learned != 60 {
		t.Errorf("learned %v, want what it runs again", got.Learned)
	}
}

// TestKVFullIsNoCapacity: an engine that holds requests back for want of cache has
// not shown how many it can run.
func TestKVFullIsNoCapacity(t *testing.T) {
	d := detectorOf(t, 64)
	now := start()
	for range 10 {
		now = now.Add(time.Second)
		d.Observe(now, &admission.Load{Endpoints: []admission.EndpointLoad{{
			ID: "a", MeasuredAt: now, Running: known(5), Waiting: known(20), KVUsedRatio: known(0.95),
		}}}, 25)
	}
	if got := d.Explain(25); got.Capacity != 64 || got.Value < 1 {
		t.Errorf("%+v, want 64 and saturation by cache and queue", got)
	}
}

// TestMomentaryQueue: what is held back for a moment, before the engine's next
// batch, does not saturate; what two measurements saw does.
func TestMomentaryQueue(t *testing.T) {
	s := &scrapes{detector(t), start()}
	s.see(100, 0)
	if got := s.see(100, 40).Queue; got != 0 {
		t.Errorf("queue %v after one measurement, want 0", got)
	}
	if got := s.see(130, 4).Queue; got != 1 {
		t.Errorf("queue %v after two, want 1: the shorter over the target", got)
	}
}

// TestInstances: what was learned goes with the instance, and a change of
// order or a stall of the clock loses nothing.
func TestInstances(t *testing.T) {
	d := detector(t)
	instance := uint64(1)
	see := func(now time.Time, ids string, running float64) admission.Saturation {
		load := &admission.Load{}
		for _, id := range ids {
			load.Endpoints = append(load.Endpoints, admission.EndpointLoad{
				ID: string(id), Instance: instance, MeasuredAt: now, Running: known(running), Waiting: known(0), MeasuredInFlight: known(running), InFlight: known(0),
			})
		}
		d.Observe(now, load, 0)
		return d.Explain(0)
	}
	see(start(), "ab", 20)
	if got := see(start().Add(time.Second), "cba", 1); got.Learned != 41 || got.Endpoints != 3 {
		t.Errorf("%+v, want 20 learned twice and 1", got)
	}
	if got := see(start().Add(2*time.Second), "c", 1); got.Learned != 1 || got.Capacity != 8 {
		t.Errorf("%+v, want what is gone to be forgotten", got)
	}
	if got := see(start().Add(3*time.Second), "a", 1); got.Learned != 1 {
		t.Errorf("%+v, want an instance that comes back to begin anew", got)
	}
	see(start().Add(4*time.Second), "a", 30)
	instance++
	if got := see(start().Add(5*time.Second), "a", 1); got.Learned != 1 || got.Capacity != 8 {
		t.Errorf("%+v, want another instance of the same name to begin anew", got)
	}
}

// TestSaturationSane: whatever endpoints say, saturation is a number that does
// not fall with more leases, and an engine can run something.
func TestSaturationSane(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, err := admission.NewWorseOf(admission.DefaultSaturationConfig())
		if err != nil {
			t.Fatal(err)
		}
		now := start()
		some := rapid.OneOf(rapid.Float64Range(0, 20), rapid.Just(math.NaN()), rapid.Just(math.Inf(1)), rapid.Just(-1.0), rapid.Just(1e15))
		reading := func(name string) admission.Reading { return admission.Read(some.Draw(t, name)) }
		for range rapid.IntRange(1, 20).Draw(t, "looks") {
			now = now.Add(time.Duration(rapid.IntRange(0, 15000).Draw(t, "ms")) * time.Millisecond)
			load := &admission.Load{}
			for range rapid.IntRange(0, 4).Draw(t, "endpoints") {
				load.Endpoints = append(load.Endpoints, admission.EndpointLoad{
					ID:         rapid.SampledFrom([]string{"a", "b", "c", ""}).Draw(t, "id"),
					Weight:     some.Draw(t, "weight"),
					MeasuredAt: now.Add(-time.Duration(rapid.IntRange(-1, 12).Draw(t, "age")) * time.Second),
					InFlight:   reading("inflight"), MeasuredInFlight: reading("then"), BatchCapacity: reading("batch"),
					AssumedCapacity: reading("assumed"), Instance: uint64(rapid.IntRange(0, 1).Draw(t, "instance")),
					Running: reading("running"), Waiting: reading("waiting"), KVUsedRatio: reading("kv"),
				})
			}
			leases := rapid.IntRange(0, 50).Draw(t, "leases")
			d.Observe(now, load, leases)
			e := d.Explain(leases)
			if !(e.Value >= 0) || math.IsInf(e.Value, 0) || d.Saturation(leases+1) < e.Value {
				t.Fatalf("saturation %v, then %v: %+v", e.Value, d.Saturation(leases+1), e)
			}
			if e.Capacity < float64(e.Endpoints) || e.Endpoints != len(load.Endpoints) {
				t.Fatalf("capacity %v of %d engines", e.Capacity, e.Endpoints)
			}
		}
	})
}

// One number that an engine cannot mean changes nothing, then or later.
func TestNonsenseIsUnknown(t *testing.T) {
	nonsense := []admission.Reading{admission.Read(1e300), admission.Read(1e7), admission.Read(math.MaxFloat64)}
	for i, bad := range nonsense {
		for name, set := range map[string]func(*admission.EndpointLoad){
			"running":  func(e *admission.EndpointLoad) { e.Running = bad },
			"waiting":  func(e *admission.EndpointLoad) { e.Waiting = bad },
			"kv":       func(e *admission.EndpointLoad) { e.KVUsedRatio = bad },
			"capacity": func(e *admission.EndpointLoad) { e.BatchCapacity = bad },
			"assumed":  func(e *admission.EndpointLoad) { e.AssumedCapacity = bad },
		} {
			d, err := admission.NewWorseOf(admission.DefaultSaturationConfig())
			if err != nil {
				t.Fatal(err)
			}
			now := time.Unix(1000, 0)
			load := func(edit func(*admission.EndpointLoad)) *admission.Load {
				now = now.Add(time.Second)
				e := admission.EndpointLoad{
					ID: "e", MeasuredAt: now, Running: admission.Read(0), Waiting: admission.Read(0), KVUsedRatio: admission.Read(0.09),
				}
				edit(&e)
				return &admission.Load{Endpoints: []admission.EndpointLoad{e}}
			}
			d.Observe(now, load(set), 128)
			if got := d.Saturation(128); got < 0.1 || got > 0.5 {
				t.Errorf("%s of number %d: saturation %v", name, i, got)
			}
			d.Observe(now, load(func(*admission.EndpointLoad) {}), 128)
			if got := d.Saturation(128); got != 0.5 {
				t.Errorf("after %s of number %d: saturation %v; want half of the assumed 256", name, i, got)
			}
		}
	}
}
