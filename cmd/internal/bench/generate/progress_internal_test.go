package generate

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines/sim/workload"
)

// A run is as far as its requests are or, where it goes by time, its time is.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Generator{trace: &workload.Trace{Requests: make([]workload.Request, 100)}}
		g.cfg.Concurrency = 2
		if diff := cmp.Diff(Progress{Planned: 100}, g.Progress()); diff != "" {
			t.Errorf("before it runs:\n%s", diff)
		}
		rec := newRecorder(false, SLO{}, time.Now())
		g.state.Store(&running{rec, time.Now()})
		for range 12 {
			rec.begin()
		}
		for range 10 {
			rec.add(&sample{sent: time.Now(), failure: &RequestError{Kind: KindDial}}, time.Time{}, false)
		}
		time.Sleep(4 * time.Second)
		want := Progress{Planned: 100, Sent: 12, InFlight: 2, Failed: 10, Elapsed: 4 * time.Second, Share: .1}
		if diff := cmp.Diff(want, g.Progress()); diff != "" {
			t.Errorf("by number:\n%s", diff)
		}
		g.cfg.Duration = 8 * time.Second
		want.Planned, want.Share = 0, .5
		if diff := cmp.Diff(want, g.Progress()); diff != "" {
			t.Errorf("by time:\n%s", diff)
		}
		time.Sleep(time.Minute)
		if p := g.Progress(); p.Share != 1 {
			t.Errorf("after its time: %v", p.Share)
		}
	})
}
