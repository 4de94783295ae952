package endpoint_test

import (
	"math"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/router/endpoint"
)

// What a record does not know stays unknown, and a zero stays one.
func TestNewLoadState(t *testing.T) {
	at := time.Unix(7, 0)
	got := *endpoint.NewLoadState(at, 3, 0, math.NaN(), 0.5)
	want := endpoint.LoadState{
		InFlight: 3, At: at,
		Load: engines.Load{Running: engines.Read(0), KVUsedRatio: engines.Read(0.5)},
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A page that says something else shows that an engine works; one that says the
// same does not, nor does the first.
func TestMoved(t *testing.T) {
	set, err := endpoint.NewSet(endpoint.Config{FailureThreshold: 2, Cooldown: time.Second}, endpoint.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Replace([]endpoint.Spec{{ID: "e", URL: "http://h", Models: []endpoint.Model{{Name: "m"}}}}); err != nil {
		t.Fatal(err)
	}
	e := set.Snapshot().All()[0]
	for i, running := range []float64{2, 2, 2} {
		e.SetLoad(endpoint.NewLoadState(time.Unix(int64(i), 0), 0, running, 0, 0.5))
	}
	if at, ever := e.Moved(); ever {
		t.Errorf("it moved at %v", at)
	}
	e.SetLoad(endpoint.NewLoadState(time.Unix(10, 0), 0, 3, 0, 0.5))
	e.SetLoad(endpoint.NewLoadState(time.Unix(11, 0), 0, 3, 0, 0.5))
	e.SetLoad(nil)
	if at, ever := e.Moved(); !ever || !at.Equal(time.Unix(10, 0)) {
		t.Errorf("it moved at %v, %t; want at 10", at, ever)
	}
}
