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
