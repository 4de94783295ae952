package endpoint_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/router/endpoint"
)

// conns stands for an instance's connection pool.
type conns struct {
	of     string
	closed int
}

func (c *conns) Close() error { c.closed++; return errors.New("was busy") }

func ids(es []*endpoint.Endpoint) []string {
	var out []string
	for _, e := range es {
		out = append(out, e.ID())
	}
	return out
}

func TestReplaceKeepsInstancesOfEqualSpecs(t *testing.T) {
	set := newSet(t, endpoint.DefaultConfig(), endpoint.Deps{
		Attach: func(e *endpoint.Endpoint) any { return &conns{of: e.ID()} },
	})
	empty := set.Snapshot()
	if empty.Version() != 0 || len(empty.All()) != 0 || len(empty.Models()) != 0 || empty.ForModel("m") != nil {
		t.Error("a new set is not empty")
	}
	if err := set.Replace([]endpoint.Spec{spec("a", "m", "n"), spec("b", "m"), spec("c", "n")}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-empty.Changed():
	default:
		t.Error("nobody was told of the change")
	}
	first := set.Snapshot()
	if diff := cmp.Diff([][]string{{"a", "b", "c"}, {"a", "b"}, {"a", "c"}, {"m", "n"}},
		[][]string{ids(first.All()), ids(first.ForModel("m")), ids(first.ForModel("n")), first.Models()}); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
	a, b, c := first.All()[0], first.All()[1], first.All()[2]
	if a.Attachment().(*conns).of != "a" {
		t.Error("an instance has another's attachment")
	}

	changed := spec("b", "m")
	changed.Weight = 2
	if err := set.Replace([]endpoint.Spec{spec("c", "n"), changed, spec("a", "m", "n")}); err != nil {
		t.Fatal(err)
	}
	second := set.Snapshot()
	if second.All()[0] != c || second.All()[2] != a || second.All()[1] == b {
		t.Error("want a and c kept, b anew")
	}
	if a.Gone() || c.Gone() || !b.Gone() {
		t.Error("want b alone gone")
	}
	if a.Attachment().(*conns).closed != 0 || b.Attachment().(*conns).closed != 1 {
		t.Error("want b's attachment alone closed")
	}
	if second.Version() != first.Version()+1 {
		t.Errorf("version %d after %d", second.Version(), first.Version())
	}
	if len(first.All()) != 3 || first.All()[1] != b {
		t.Error("the old snapshot changed")
	}

	same := spec("a", "m", "n")
	same.URL += "/"
	same.Weight = 1
	same.Models[0].Upstream = "m"
	if err := set.Replace([]endpoint.Spec{spec("c", "n"), changed, same}); err != nil {
		t.Fatal(err)
	}
	if set.Snapshot() != second {
		t.Error("specs that mean the same make a new snapshot")
	}
	if err := set.Replace([]endpoint.Spec{spec("a", "m", "n"), {}}); err == nil || set.Snapshot() != second {
		t.Errorf("a faulty list changes the set, or is no error: %v", err)
	}
	if err := set.Replace(nil); err != nil || len(set.Snapshot().All()) != 0 || !a.Gone() {
		t.Errorf("emptying the set: %v", err)
	}
}

func TestReservationIsOfTheInstance(t *testing.T) {
	set := newSet(t, endpoint.DefaultConfig(), endpoint.Deps{})
	specs := []endpoint.Spec{spec("a", "m")}
	replace := func(specs []endpoint.Spec) {
		t.Helper()
		if err := set.Replace(specs); err != nil {
			t.Fatal(err)
		}
	}
	replace(specs)
	old := set.Snapshot().All()[0]
	held := old.Reserve()
	replace(nil)
	replace(specs)
	back := set.Snapshot().All()[0]
	if back == old || back.InFlight() != 0 {
		t.Fatalf("the endpoint came back with %d in flight", back.InFlight())
	}
	other := back.Reserve()
	copied := held
	held.Release()
	held.Release()
	copied.Release()
	if old.InFlight() != 0 || back.InFlight() != 1 {
		t.Errorf("in flight %d and %d; want 0 and 1", old.InFlight(), back.InFlight())
	}
	other.Release()
	copied.Release()
	endpoint.Reservation{}.Release()
	if old.InFlight() != 0 || back.InFlight() != 0 {
		t.Errorf("in flight %d and %d; want none", old.InFlight(), back.InFlight())
	}
}

// A reservation that was released must not release the one that comes after it,
// though both may stand on the same ticket.
func TestReleasedCopyIsDead(t *testing.T) {
	e := newEndpoint(t, endpoint.DefaultConfig())
	for range 100 {
		first := e.Reserve()
		copied := first
		first.Release()
		second := e.Reserve()
		copied.Release()
		if e.InFlight() != 1 {
			t.Fatalf("in flight %d; want 1", e.InFlight())
		}
		second.Release()
	}
}

func TestBeginAtRefusesWhenOthersWereFaster(t *testing.T) {
	e := newEndpoint(t, endpoint.DefaultConfig())
	first, err := e.BeginAt(start(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.BeginAt(start(), 0); !errors.Is(err, endpoint.ErrBusier) || e.InFlight() != 1 {
		t.Errorf("error %v with %d in flight; want ErrBusier and 1", err, e.InFlight())
	}
	first.Release()
	if held, err := e.BeginAt(start(), 5); err != nil {
		t.Errorf("fewer than were seen: %v", err)
	} else {
		held.Release()
	}
}

func TestEndpointAccessors(t *testing.T) {
	set := newSet(t, endpoint.DefaultConfig(), endpoint.Deps{})
	s := spec("a", "m", "n")
	s.URL = "https://h:1/base/"
	s.Models[1].Upstream = "org/n-fp8"
	if err := set.Replace([]endpoint.Spec{s, spec("b", "m")}); err != nil {
		t.Fatal(err)
	}
	e := set.Snapshot().All()[0]
	if e.UpstreamModel("m") != "m" || e.UpstreamModel("n") != "org/n-fp8" || e.UpstreamModel("x") != "x" {
		t.Error("models are renamed wrongly")
	}
	if e.URL().String() != "https://h:1/base" || e.Weight() != 1 || e.Attachment() != nil || e.Load() != nil {
		t.Errorf("url %s, weight %v, attachment %v, load %v", e.URL(), e.Weight(), e.Attachment(), e.Load())
	}
	if e.Hash() == set.Snapshot().All()[1].Hash() {
		t.Error("two endpoints share a hash")
	}
	if _, ok := e.LastUsed(); ok {
		t.Error("a new endpoint was used")
	}
	e.Touch(start())
	e.Touch(start().Add(-time.Hour))
	if at, ok := e.LastUsed(); !ok || !at.Equal(start()) {
		t.Errorf("last used %v, %t", at, ok)
	}
	if allocs := testing.AllocsPerRun(100, func() { e.Touch(start().Add(time.Hour)) }); allocs != 0 {
		t.Errorf("Touch allocates %v times", allocs)
	}
}

func TestModelReadsAsItsName(t *testing.T) {
	var m endpoint.Model
	if err := m.UnmarshalText([]byte("qwen-32b")); err != nil || m != (endpoint.Model{Name: "qwen-32b"}) {
		t.Errorf("got %+v, %v", m, err)
	}
}

func TestCollectorShowsWhatIsKnown(t *testing.T) {
	reg := prometheus.NewRegistry()
	set := newSet(t, endpoint.Config{FailureThreshold: 1, Cooldown: 10 * time.Second}, endpoint.Deps{Registerer: reg, Now: start})
	if err := set.Replace([]endpoint.Spec{spec("a", "m"), spec("b", "m")}); err != nil {
		t.Fatal(err)
	}
	a := set.Snapshot().All()[0]
	a.SetLoad(&endpoint.LoadState{Load: engines.Load{Waiting: engines.Read(0)}, At: start()})
	a.Failed(start())
	defer a.Reserve().Release()
	want := `
# HELP llmgw_endpoint_breaker_openings_total Times that the breaker opened.
# TYPE llmgw_endpoint_breaker_openings_total counter
llmgw_endpoint_breaker_openings_total{endpoint="a",pool=""} 1
llmgw_endpoint_breaker_openings_total{endpoint="b",pool=""} 0
# HELP llmgw_endpoint_engine_waiting_requests Requests that the engine holds back, as it said.
# TYPE llmgw_endpoint_engine_waiting_requests gauge
llmgw_endpoint_engine_waiting_requests{endpoint="a",pool=""} 0
# HELP llmgw_endpoint_inflight_requests Requests of this router that are in flight.
# TYPE llmgw_endpoint_inflight_requests gauge
llmgw_endpoint_inflight_requests{endpoint="a",pool=""} 1
llmgw_endpoint_inflight_requests{endpoint="b",pool=""} 0
# HELP llmgw_endpoint_state 1 for the state that the endpoint's breaker is in.
# TYPE llmgw_endpoint_state gauge
llmgw_endpoint_state{endpoint="a",pool="",state="open"} 1
llmgw_endpoint_state{endpoint="b",pool="",state="closed"} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want),
		"llmgw_endpoint_breaker_openings_total", "llmgw_endpoint_engine_waiting_requests", "llmgw_endpoint_engine_running_requests",
		"llmgw_endpoint_inflight_requests", "llmgw_endpoint_state", "llmgw_endpoint_last_used_timestamp_seconds"); err != nil {
		t.Error(err)
	}
	if err := set.Replace([]endpoint.Spec{spec("b", "m")}); err != nil {
		t.Fatal(err)
	}
	if n := testutil.CollectAndCount(reg, "llmgw_endpoint_inflight_requests"); n != 1 {
		t.Errorf("%d endpoints; want the series of the one that is gone to go too", n)
	}
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}
