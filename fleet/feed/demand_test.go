package feed_test

import (
	"context"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/feed"
	"github.com/llmgw/llmgw/placement/catalog"
)

// asks sets what a router knows of the demand for a model.
func (g *gateway) asks(d feed.Demand) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.demand == nil {
		g.demand, g.asked = map[string]feed.Demand{}, map[string]time.Time{}
	}
	g.demand[d.Model] = d
	if age, ever := d.Asked.Get(); ever {
		g.asked[d.Model] = time.Now().Add(-age)
	}
}

// Demand implements [feed.DemandReporter].
func (g *gateway) Demand() []feed.Demand {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []feed.Demand
	for model, d := range g.demand {
		if at, ever := g.asked[model]; ever {
			d.Asked = engines.Known(time.Since(at))
		}
		out = append(out, d)
	}
	return out
}

func wantDemand(t *testing.T, what string, p *feed.Publisher, want ...feed.Demand) {
	t.Helper()
	synctest.Wait()
	got, _ := p.Demand(0)
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b engines.Opt[time.Duration]) bool { return a == b }), cmp.Comparer(func(a, b engines.Opt[float64]) bool { return a == b }), empty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// told reports whether somebody is woken.
func told(p *feed.Publisher) bool {
	select {
	case <-p.C():
		return true
	default:
		return false
	}
}

var unasked engines.Opt[time.Duration]

// What waits is summed over the routers that say so, and goes with them; when a
// model was last asked for is remembered.
func TestDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := settled(t)
		set(t, p, []string{"m", "n"})
		wantDemand(t, "without routers", p)
		r1 := follow(t, config("r1"), feed.Deps{Sources: []feed.Source{p.Local()}})
		r2 := follow(t, config("r2"), feed.Deps{Sources: []feed.Source{p.Local()}})
		wantDemand(t, "nothing was asked for", p)
		told(p)

		r1.asks(feed.Demand{Model: "m", Waiting: 2, Asked: engines.Known(time.Duration(0))})
		_, revision := p.Demand(0)
		r1.follower.Hurry()
		wantDemand(t, "at once", p, feed.Demand{Model: "m", Waiting: 2, Asked: engines.Known(time.Duration(0))})
		if !told(p) {
			t.Error("nobody is woken")
		}
		if d, _ := p.Demand(revision); d == nil {
			t.Error("nothing has changed")
		}
		_, revision = p.Demand(0)
		if d, now := p.Demand(revision); d != nil || now != revision {
			t.Errorf("%v; nothing was said since", d)
		}
		r2.asks(feed.Demand{Model: "m", Waiting: 1, Queued: 3, Asked: engines.Known(time.Second), Saturation: engines.Known(1.5)})
		r2.asks(feed.Demand{Model: "n", Queued: 1, Saturation: engines.Known(0.25)})
		r1.asks(feed.Demand{Model: "n", Saturation: engines.Known(0.75)})
		time.Sleep(5 * time.Second)
		wantDemand(t, "both", p,
			feed.Demand{Model: "m", Waiting: 3, Queued: 3, Asked: engines.Known(5 * time.Second), Saturation: engines.Known(1.5)},
			feed.Demand{Model: "n", Queued: 1, Asked: unasked, Saturation: engines.Known(0.5)})

		r2.asks(feed.Demand{Model: "m", Asked: engines.Known(time.Duration(0))})
		r2.end()
		wantDemand(t, "one has ended", p,
			feed.Demand{Model: "m", Waiting: 2, Asked: engines.Known(time.Duration(0))},
			feed.Demand{Model: "n", Saturation: engines.Known(0.75)})
		again := follow(t, config("r2"), feed.Deps{Sources: []feed.Source{p.Local()}})
		time.Sleep(time.Minute)
		wantDemand(t, "the next run knows of no request, and it is remembered", p,
			feed.Demand{Model: "m", Waiting: 2, Asked: engines.Known(time.Minute)},
			feed.Demand{Model: "n", Saturation: engines.Known(0.75)})
		again.end()

		// One that has not said for a while, or is gone, has nothing that waits.
		if err := p.SetModels(models("m")); err != nil {
			t.Fatal(err)
		}
		r1.end()
		time.Sleep(time.Minute)
		wantDemand(t, "nobody is there", p, feed.Demand{Model: "m", Asked: engines.Known(2 * time.Minute)})
		if err := p.SetModels(nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		wantDemand(t, "there is no such model any more", p)
	})
}

// A router that is cut off counts for as long as its word is fresh.
func TestDemandOfSilentRouters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := settled(t)
		set(t, p, []string{"m"})
		silent := false
		var mu sync.Mutex
		g := follow(t, config("r1"), feed.Deps{Sources: []feed.Source{over(p, faulty{lose: func() bool {
			mu.Lock()
			defer mu.Unlock()
			return silent
		}})}})
		g.asks(feed.Demand{Model: "m", Waiting: 1, Asked: engines.Known(time.Duration(0))})
		g.follower.Hurry()
		synctest.Wait()
		mu.Lock()
		silent = true
		mu.Unlock()
		time.Sleep(5 * time.Second)
		wantDemand(t, "it said so lately", p, feed.Demand{Model: "m", Waiting: 1, Asked: engines.Known(5 * time.Second)})
		time.Sleep(20 * time.Second)
		wantDemand(t, "it did not", p, feed.Demand{Model: "m", Asked: engines.Known(25 * time.Second)})
	})
}

// Whoever hurries all the time is heard ten times a second.
func TestHurriesAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := settled(t)
		set(t, p, []string{"m"})
		reports := 0
		var mu sync.Mutex
		source := sourceFuncs{"counted", func(ctx context.Context, req *apipb.WatchFeedRequest) (feed.Stream, error) {
			s, err := p.Local().Open(ctx, req)
			return counting{s, func() {
				mu.Lock()
				reports++
				mu.Unlock()
			}}, err
		}}
		g := follow(t, config("r1"), feed.Deps{Sources: []feed.Source{source}})
		synctest.Wait()
		reports = 0
		for range 1000 {
			g.follower.Hurry()
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		if reports < 9 || reports > 11 {
			t.Errorf("%d reports in a second", reports)
		}
	})
}

type counting struct {
	feed.Stream

	count func()
}

func (c counting) Report(ctx context.Context, req *apipb.ReportUseRequest) error {
	c.count()
	return c.Stream.Report(ctx, req)
}

// Whatever a router says of demand, it does no harm.
func TestDemandThatCannotBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := settled(t)
		set(t, p, []string{"m"})
		g := follow(t, config("r1"), feed.Deps{Sources: []feed.Source{p.Local()}})
		for _, d := range []feed.Demand{
			{Model: "", Waiting: 1},
			{Model: strings.Repeat("x", catalog.MaxNameBytes+1), Waiting: 1},
			{Model: "m", Waiting: -1, Queued: -7, Asked: engines.Known(-time.Hour), Saturation: engines.Known(math.NaN())},
		} {
			g.asks(d)
		}
		g.follower.Hurry()
		wantDemand(t, "what is left", p, feed.Demand{Model: "m", Asked: engines.Known(time.Hour * 0)})

		s, err := p.Local().Open(t.Context(), request{ProtocolLeast: 1, ProtocolMost: 1, Router: "r2", Run: "x"}.wire())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		frame, err := s.Receive()
		if err != nil {
			t.Fatal(err)
		}
		inf := math.Inf(1)
		report := &apipb.ReportUseRequest{Session: frame.GetWelcome().GetSession(), Number: 1, Demands: []*apipb.FeedDemand{
			{Model: "\xff", Waiting: 1}, {Model: "m", Waiting: 1<<32 - 1, Saturation: &inf}, {Model: "no-such", Waiting: 1},
		}}
		if err := s.Report(t.Context(), report); err != nil {
			t.Fatal(err)
		}
		wantDemand(t, "as much as there is", p,
			feed.Demand{Model: "m", Waiting: 1<<32 - 1, Asked: engines.Known(time.Hour * 0)}, feed.Demand{Model: "no-such", Waiting: 1})
		report.Number, report.Demands = 2, make([]*apipb.FeedDemand, catalog.MaxModels+1)
		if err := s.Report(t.Context(), report); err == nil || !strings.Contains(err.Error(), "a report of the demand for 10001 models; want at most 10000") {
			t.Errorf("error %v", err)
		}
	})
}
