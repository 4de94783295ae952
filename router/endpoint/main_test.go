package endpoint_test

import (
	"testing"
	"time"

	"github.com/llmgw/llmgw/router/endpoint"
)

// start is where the tests' clocks begin.
func start() time.Time { return time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC) }

func newSet(tb testing.TB, cfg endpoint.Config, deps endpoint.Deps) *endpoint.Set {
	tb.Helper()
	set, err := endpoint.NewSet(cfg, deps)
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

func spec(id string, models ...string) endpoint.Spec {
	s := endpoint.Spec{ID: id, URL: "http://" + id + ":8000"}
	for _, m := range models {
		s.Models = append(s.Models, endpoint.Model{Name: m})
	}
	return s
}

// newEndpoint returns the only instance of a set with the given breaker.
func newEndpoint(tb testing.TB, cfg endpoint.Config) *endpoint.Endpoint {
	tb.Helper()
	set := newSet(tb, cfg, endpoint.Deps{})
	if err := set.Replace([]endpoint.Spec{spec("a", "m")}); err != nil {
		tb.Fatal(err)
	}
	return set.Snapshot().All()[0]
}
