package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/cmd/internal/bench/load"
)

func TestSumMetrics(t *testing.T) {
	const page = `# HELP llmgw_router_inflight_requests Requests under way.
# TYPE llmgw_router_inflight_requests gauge
llmgw_router_inflight_requests{endpoint="a b",model="x"} 2
llmgw_router_inflight_requests{endpoint="b"} 3 1700000000
llmgw_endpoint_in_flight 1e1
llmgw_router_requests_total 700
promhttp_metric_handler_requests_in_flight 1
`
	tests := []struct {
		name, pattern string
		want          float64
		ok            bool
	}{
		{"both spellings, ours only", `^llmgw_.*in_?flight`, 15, true},
		{"none", `^llmgw_nothing`, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := sumMetrics(page, regexp.MustCompile(tt.pattern))
			if got != tt.want || (err == nil) != tt.ok {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	for _, bad := range []string{"llmgw_inflight", "llmgw_inflight{a=\"b\"} much"} {
		if v, err := sumMetrics(bad, regexp.MustCompile("inflight")); err == nil {
			t.Errorf("%q is %v", bad, v)
		}
	}
}

func TestNumberAfter(t *testing.T) {
	got, err := numberAfter("x\n# HeapAlloc = 1234\ny", "# HeapAlloc = ")
	if err != nil || *got != 1234 {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := numberAfter("x", "total "); err == nil {
		t.Error("no mark, no error")
	}
	if _, err := numberAfter("total x", "total "); err == nil {
		t.Error("no number, no error")
	}
}

func TestUnrest(t *testing.T) {
	opts := options{slack: 10, heapSlack: 1 << 20}
	before := reading{OpenFiles: 20, Goroutines: new(int64(30)), HeapBytes: new(int64(1 << 20)), InFlight: new(float64(0))}
	tests := []struct {
		name string
		now  reading
		want []string
	}{
		{"as before", before, nil},
		{"within the slack", reading{OpenFiles: 30, Goroutines: new(int64(40)), HeapBytes: new(int64(2 << 20)), InFlight: new(float64(0))}, nil},
		{"all of it", reading{OpenFiles: 31, Goroutines: new(int64(41)), HeapBytes: new(int64(5 << 20)), InFlight: new(float64(2)), EngineRuns: 1}, []string{
			"31 open files, 20 at the start", "41 goroutines, 30 at the start", "live heap of 5 MiB, 1 MiB at the start",
			"2 requests in flight by the metrics", "1 answers under way at the engines, which nobody reads",
		}},
		{"a proxy that tells nothing", reading{OpenFiles: 20}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.now.unrest(before, opts)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOutcomeLine(t *testing.T) {
	s := &soak{opts: options{slack: 1}}
	o := &outcome{Target: "llmgw", Seconds: 60, Streams: 1000, Concurrent: 950, Whole: 5000}
	s.judge(o)
	if line := o.String(); !strings.HasPrefix(line, "ok: llmgw for 60s, 1000 streams at a time (950 seen): 5000 whole, 0 cut, 0 altered") || strings.Contains(line, "\n") {
		t.Errorf("line %q", line)
	}
	o.Failed = map[load.Failure]int64{load.Cut: 2, load.Timeout: 1}
	o.Concurrent = 500
	s.judge(o)
	if line := o.String(); len(o.Problems) != 3 || !strings.HasPrefix(line, "FAILED") || !strings.Contains(line, "2 cut") || !strings.Contains(line, "1 errors") {
		t.Errorf("%d problems, line %q", len(o.Problems), line)
	}
}

func TestMixIsValid(t *testing.T) {
	cfg := load.Config{Addrs: []string{"127.0.0.1:1"}, Mix: mix(time.Millisecond), Callers: 1, Window: time.Second, Timeout: time.Second}
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
}
