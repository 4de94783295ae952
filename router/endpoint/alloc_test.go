//go:build !race

// The race detector makes pools forget; these tests run without it.

package endpoint_test

import (
	"testing"

	"github.com/llmgw/llmgw/router/endpoint"
)

func TestHotPathAllocatesNothing(t *testing.T) {
	e := newEndpoint(t, endpoint.DefaultConfig())
	now := start()
	allocs := testing.AllocsPerRun(1000, func() {
		if !e.Admissible(now) {
			t.Fatal("not admissible")
		}
		held, err := e.BeginAt(now, 0)
		if err != nil {
			t.Fatal(err)
		}
		e.Touch(now)
		e.Succeeded(now)
		held.Release()
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
