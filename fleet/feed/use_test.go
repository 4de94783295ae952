package feed_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/feed"
)

// settled is a publisher that knows of every router that may live.
func settled(t *testing.T) *feed.Publisher {
	t.Helper()
	p := publisher(t, feed.DefaultPublisherConfig(), feed.PublisherDeps{})
	time.Sleep(feed.Lease + time.Second)
	return p
}

func useOf(t *testing.T, p *feed.Publisher, e feed.Entry) feed.Use {
	t.Helper()
	synctest.Wait()
	listed, _ := p.Use(0)
	for _, u := range listed {
		if one := p.UseOf(e.Instance); u.Instance == e.Instance && u != one {
			t.Errorf("UseOf says %+v, and Use %+v", one, u)
		}
	}
	return p.UseOf(e.Instance)
}

func wantUse(t *testing.T, what string, p *feed.Publisher, e feed.Entry, inFlight engines.Opt[int], released bool) {
	t.Helper()
	if u := useOf(t, p, e); u.InFlight != inFlight || u.Released != released {
		t.Errorf("%s: in flight %v, released %t; want %v, %t", what, u.InFlight, u.Released, inFlight, released)
	}
}

var unknown engines.Opt[int]

// What routers have at an instance is summed, and once it has left the feed it is
// released when all of them go by that.
func TestUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := settled(t)
		a, b := entry("m", 1), entry("m", 2)
		set(t, p, []string{"m"}, a, b)
		wantUse(t, "without routers", p, a, engines.Known(0), false)
		r1 := follow(t, config("r1"), feed.Deps{Sources: []feed.Source{p.Local()}})
		r2 := follow(t, config("r2"), feed.Deps{Sources: []feed.Source{p.Local()}})
		synctest.Wait()
		if u := useOf(t, p, a); u.Worked.String() != "unknown" || !u.InFlight.Is(0) || !u.Published {
			t.Errorf("%+v; nobody has seen it work", u)
		}
		r1.works(a, 2)
		r2.works(a, 1)
		time.Sleep(5 * time.Second)
		wantUse(t, "both said", p, a, engines.Known(3), false)
		time.Sleep(3 * time.Second)
		if u := useOf(t, p, a); !u.Worked.Is(8 * time.Second) {
			t.Errorf("worked %v ago, want 8s", u.Worked)
		}

		_, revision := p.Use(0)
		r2.mu.Lock()
		r2.manual = true
		r2.mu.Unlock()
		set(t, p, nil, b)
		wantUse(t, "r2 has not applied it", p, a, engines.Known(3), false)
		if v := p.Routers(); len(v) != 2 || v[0].Name != "r1" || v[0].Applied.Seq != 2 || v[1].Applied.Seq != 1 {
			t.Errorf("%+v", v)
		}
		r2.apply()
		wantUse(t, "both let it go", p, a, engines.Known(3), true)
		if _, now := p.Use(revision); now == revision {
			t.Error("nothing has changed")
		}
		select {
		case <-p.C():
		default:
			t.Error("nobody is woken")
		}
		r1.works(a, 0)
		r2.works(a, 0)
		r1.follower.Applied(at(2)) // reports at once
		r2.follower.Applied(at(2))
		wantUse(t, "both are done", p, a, engines.Known(0), true)
		wantUse(t, "the other", p, b, engines.Known(0), false)
		// It comes back, and is not released any more.
		time.Sleep(time.Second)
		set(t, p, nil, a, b)
		wantUse(t, "one has not said", p, a, unknown, false)
		r2.apply()
		wantUse(t, "again", p, a, engines.Known(0), false)
	})
}

// Another start of a replica's engine is another instance.
func TestEachStartIsAnInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := settled(t)
		a := entry("m", 1)
		set(t, p, []string{"m"}, a)
		r := follow(t, config("r1"), feed.Deps{Sources: []feed.Source{p.Local()}})
		synctest.Wait()
		r.works(a, 1)
		again := a
		again.Start = "s2"
		time.Sleep(time.Second)
		set(t, p, nil, again)
		wantUse(t, "the first", p, a, engines.Known(1), true)
		wantUse(t, "the second", p, again, engines.Known(0), false)
		uses, _ := p.Use(0)
		joined := feed.ByReplica(uses)
		if len(uses) != 2 || len(joined) != 1 || joined[0].Released || !joined[0].InFlight.Is(1) || joined[0].Start != "s2" || !joined[0].Worked.Is(time.Second) {
			t.Errorf("%+v of %+v", joined, uses)
		}
	})
}

// A router that vanished is unknown until its lease is over, and one that says
// goodbye is not waited for.
func TestLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := settled(t)
		a := entry("m", 1)
		set(t, p, []string{"m"}, a)
		var cut atomic.Bool
		broken := sourceFuncs{"broken", func(ctx context.Context, req *apipb.WatchFeedRequest) (feed.Stream, error) {
			if cut.Load() {
				return nil, errors.New("no route")
			}
			s, err := p.Local().Open(ctx, req)
			return &faulty{Stream: s, cut: &cut}, err
		}}
		vanishes := follow(t, config("vanishes"), feed.Deps{Sources: []feed.Source{broken}})
		stays := follow(t, config("stays"), feed.Deps{Sources: []feed.Source{p.Local()}})
		synctest.Wait()
		vanishes.works(a, 1)
		time.Sleep(5 * time.Second)
		wantUse(t, "both", p, a, engines.Known(1), false)
		cut.Store(true)
		time.Sleep(16 * time.Second)
		set(t, p, nil)
		wantUse(t, "one is silent", p, a, unknown, false)
		time.Sleep(12 * time.Second)
		wantUse(t, "its lease lives", p, a, unknown, false)
		time.Sleep(5 * time.Second)
		wantUse(t, "its lease is over", p, a, engines.Known(0), true)

		// It comes back, from what it has: then it is waited for again.
		cut.Store(false)
		vanishes.mu.Lock()
		vanishes.manual = true
		vanishes.mu.Unlock()
		time.Sleep(20 * time.Second)
		wantUse(t, "it is back", p, a, engines.Known(1), false)
		vanishes.apply()
		vanishes.works(a, 0)
		vanishes.follower.Applied(at(2))
		wantUse(t, "it has let go", p, a, engines.Known(0), true)

		set(t, p, nil, a)
		synctest.Wait()
		stays.end()
		vanishes.end()
		wantUse(t, "nobody is left", p, a, engines.Known(0), false)
		if r := p.Routers(); len(r) != 0 {
			t.Errorf("%+v", r)
		}
	})
}

// A router that ends with requests under way says so, and counts until its lease
// is over.
func TestGoodbyeWithRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := settled(t)
		a := entry("m", 1)
		set(t, p, []string{"m"}, a)
		r := follow(t, config("r1"), feed.Deps{Sources: []feed.Source{p.Local()}})
		synctest.Wait()
		r.works(a, 1)
		r.end()
		wantUse(t, "it ends", p, a, unknown, false)
		time.Sleep(feed.Lease + 2*time.Second)
		wantUse(t, "later", p, a, engines.Known(0), false)
	})
}

// For a lease after it came to lead, and again after another led, a publisher
// knows nothing of routers that have not come.
func TestANewPublisherKnowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := publisher(t, feed.DefaultPublisherConfig(), feed.PublisherDeps{})
		a, old := entry("m", 1), entry("m", 9)
		set(t, p, []string{"m"}, a)
		r := follow(t, config("r1"), feed.Deps{Sources: []feed.Source{p.Local()}})
		wantUse(t, "at first", p, a, unknown, false)
		wantUse(t, "what was never in the feed", p, old, unknown, false)
		time.Sleep(feed.Lease - time.Second)
		wantUse(t, "still", p, old, unknown, false)
		time.Sleep(2 * time.Second)
		wantUse(t, "settled", p, a, engines.Known(0), false)
		wantUse(t, "what was never in the feed", p, old, engines.Known(0), true)
		p.Resign()
		synctest.Wait()
		if err := p.Lead("c", 2); err != nil {
			t.Fatal(err)
		}
		set(t, p, nil, a)
		wantUse(t, "it leads again", p, old, unknown, false)
		time.Sleep(feed.Lease + 10*time.Second)
		wantUse(t, "settled again", p, old, engines.Known(0), true)
		if r.state().Version.Term != 2 {
			t.Error(r.state().Version)
		}
	})
}

// A router that was restarted is another one. The run before it counts until its
// lease is over: a restart makes no model look idle.
func TestARestartIsAnotherRouter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := settled(t)
		a := entry("m", 1)
		set(t, p, []string{"m"}, a)
		r := follow(t, config("r1"), feed.Deps{Sources: []feed.Source{p.Local()}})
		synctest.Wait()
		r.works(a, 3)
		time.Sleep(5 * time.Second)
		wantUse(t, "before", p, a, engines.Known(3), false)
		r.end() // it says what it has, and is killed
		follow(t, config("r1"), feed.Deps{Sources: []feed.Source{p.Local()}})
		wantUse(t, "after", p, a, unknown, false)
		time.Sleep(10 * time.Second)
		if u := useOf(t, p, a); !u.Worked.Is(15 * time.Second) {
			t.Errorf("%+v; what was seen to work has worked", u)
		}
		time.Sleep(feed.Lease)
		wantUse(t, "much later", p, a, engines.Known(0), false)
	})
}

// Reports that come late or twice count for nothing, and one of a session that is
// over is told so.
func TestReportsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := settled(t)
		a := entry("m", 1)
		set(t, p, []string{"m"}, a)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s, err := p.Local().Open(ctx, request{ProtocolLeast: 1, ProtocolMost: 1, Router: "r1", Run: "run"}.wire())
		if err != nil {
			t.Fatal(err)
		}
		frame, err := s.Receive()
		if err != nil {
			t.Fatal(err)
		}
		session := frame.GetWelcome().GetSession()
		report := func(number uint64, inFlight uint32) error {
			return s.Report(t.Context(), &apipb.ReportUseRequest{Session: session, Number: number, Uses: []*apipb.FeedUse{
				{Replica: a.Replica, Generation: a.Generation, Start: a.Start, InFlight: inFlight}, {Replica: "no such name"},
			}})
		}
		for _, r := range []struct {
			number   uint64
			inFlight uint32
		}{{1, 1}, {3, 3}, {2, 2}, {3, 9}} {
			if err := report(r.number, r.inFlight); err != nil {
				t.Error(err)
			}
		}
		wantUse(t, "the third", p, a, engines.Known(3), false)
		s.Close()
		if err := report(4, 4); connect.CodeOf(err) != connect.CodeNotFound {
			t.Errorf("error %v; want not_found", err)
		}
	})
}

// What left the feed is remembered for an hour, and what is asked of later is
// judged by what is known to have left by then.
func TestInstancesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := settled(t)
		a, b := entry("m", 1), entry("m", 2)
		set(t, p, []string{"m"}, a, b)
		r := follow(t, config("r1"), feed.Deps{Sources: []feed.Source{p.Local()}})
		synctest.Wait()
		time.Sleep(time.Second)
		set(t, p, nil, b)
		synctest.Wait()
		if uses, _ := p.Use(0); len(uses) != 2 {
			t.Errorf("%+v", uses)
		}
		time.Sleep(time.Hour + 2*time.Second)
		if uses, _ := p.Use(0); len(uses) != 1 {
			t.Errorf("%+v", uses)
		}
		wantUse(t, "forgotten", p, a, engines.Known(0), true)
		r.mu.Lock()
		r.manual = true
		r.mu.Unlock()
		r.follower.Applied(at(1)) // which has it
		wantUse(t, "in use by one that is behind", p, a, unknown, false)
	})
}

// What a router goes by counts in its own term only: a sequence of another
// leader's says nothing of this one's.
func TestAnAcknowledgementIsOfATerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := publisher(t, feed.DefaultPublisherConfig(), feed.PublisherDeps{})
		a := entry("m", 1)
		set(t, before, []string{"m"})
		to := &switched{}
		to.set(before.Local())
		r := follow(t, config("r1"), feed.Deps{Sources: []feed.Source{to}})
		time.Sleep(time.Second)
		set(t, before, nil, a)
		synctest.Wait()
		r.works(a, 1)
		r.mu.Lock()
		r.manual = true
		r.mu.Unlock()

		next := publisher(t, feed.DefaultPublisherConfig(), feed.PublisherDeps{})
		if err := next.Lead("c", 2); err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			set(t, next, []string{"m"}, entry("m", 10+i))
			time.Sleep(time.Second)
		}
		to.set(next.Local())
		before.Resign()
		time.Sleep(2 * feed.Lease)
		wantUse(t, "it goes by what another one said", next, a, engines.Known(1), false)
		r.apply()
		wantUse(t, "it goes by what this one says", next, a, engines.Known(1), true)
	})
}

// Routers report as often as the publisher is set to ask, so that what it is told of
// a byte is never older.
func TestReportInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, every := range []time.Duration{time.Second, 5 * time.Second} {
			cfg := feed.DefaultPublisherConfig()
			cfg.Report = every
			p := publisher(t, cfg, feed.PublisherDeps{})
			e := entry("m", 1)
			set(t, p, []string{"m"}, e)
			g := follow(t, config("r1"), feed.Deps{Sources: []feed.Source{p.Local()}})
			oldest := time.Duration(0)
			for range 3000 {
				time.Sleep(10 * time.Millisecond)
				g.works(e, 1)
				if worked, known := p.UseOf(e.Instance).Worked.Get(); known {
					oldest = max(oldest, worked)
				}
			}
			if oldest < every-100*time.Millisecond || oldest > every+100*time.Millisecond {
				t.Errorf("reports each %v: a byte was said to be %v old; want %v at the most", every, oldest, every)
			}
			g.end()
		}
	})
}
