package feed_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/feed"
)

// step is something that happens in a history.
type step struct {
	What    string
	Router  int
	Entries []int // replica*2 + start
	Models  int   // bits of m and n, or of what statuses say
	After   time.Duration
}

const historyRouters = 3

func steps() *rapid.Generator[[]step] {
	one := rapid.Custom(func(t *rapid.T) step {
		return step{
			What:    rapid.SampledFrom([]string{"entries", "entries", "entries", "models", "statuses", "demand", "cut", "heal", "restart", "term", "begin", "finish", "wait"}).Draw(t, "what"),
			Router:  rapid.IntRange(0, historyRouters-1).Draw(t, "router"),
			Entries: rapid.SliceOfNDistinct(rapid.IntRange(0, 9), 0, 5, func(n int) int { return n / 2 }).Draw(t, "entries"),
			Models:  rapid.IntRange(0, 3).Draw(t, "models"),
			After:   time.Duration(rapid.SampledFrom([]int{0, 1, 40, 300, 2000, 9000, 40000}).Draw(t, "after")) * time.Millisecond,
		}
	})
	return rapid.SliceOfN(one, 1, 25)
}

// history is a publisher and routers over bad networks, and what is wrong with
// them.
type history struct {
	t      *testing.T
	p      *feed.Publisher
	rng    *rand.Rand // of the test's goroutine
	dir    string
	sees   *gateway // over a good network
	seen   map[feed.Version]*feed.State
	all    map[feed.Instance]bool // that were ever given
	cut    [historyRouters]*atomic.Bool
	router [historyRouters]*gateway
	runs   int
	faults []string
}

func (h *history) fault(format string, args ...any) {
	if len(h.faults) < 10 {
		h.faults = append(h.faults, fmt.Sprintf(format, args...))
	}
}

// start starts router n, over a network that loses, doubles, overtakes and delays
// frames, and loses reports.
func (h *history) start(n int) {
	h.runs++
	frames, reports := rand.New(rand.NewPCG(h.rng.Uint64(), 1)), rand.New(rand.NewPCG(h.rng.Uint64(), 2))
	cfg := config(fmt.Sprintf("r%d", n))
	if n == 0 { // a disk takes its time
		cfg.File = filepath.Join(h.dir, cfg.Router)
	}
	network := over(h.p, faulty{
		cut: h.cut[n],
		fate: func(*apipb.WatchFeedResponse) fate {
			if frames.IntN(2) == 0 {
				return arrives
			}
			return fate(frames.IntN(5))
		},
		lose: func() bool { return reports.IntN(4) == 0 },
	})
	h.router[n] = follow(h.t, cfg, feed.Deps{Sources: []feed.Source{network}})
}

// live plays a history.
func live(t *testing.T, seed uint64, plan []step) []string {
	cfg := feed.DefaultPublisherConfig()
	cfg.MaxQueue = 3
	h := &history{
		t: t, rng: rand.New(rand.NewPCG(seed, 0)), dir: t.TempDir(),
		seen: map[feed.Version]*feed.State{}, all: map[feed.Instance]bool{},
	}
	h.p = publisher(t, cfg, feed.PublisherDeps{})
	h.sees = follow(t, config("observer"), feed.Deps{Sources: []feed.Source{h.p.Local()}})
	for n := range h.router {
		h.cut[n] = new(atomic.Bool)
		h.start(n)
	}
	set(t, h.p, []string{"m", "n"})
	term := uint64(1)
	for _, s := range plan {
		switch s.What {
		case "entries":
			var entries []feed.Entry
			for _, e := range s.Entries {
				entries = append(entries, h.entry(e))
			}
			set(t, h.p, nil, entries...)
		case "models":
			names := []string{}
			for i, name := range []string{"m", "n"} {
				if s.Models&(1<<i) != 0 {
					names = append(names, name)
				}
			}
			if err := h.p.SetModels(models(names...)); err != nil {
				t.Fatal(err)
			}
		case "statuses":
			all := []feed.ModelStatus{{Model: "m", State: feed.ModelAsleep + feed.ModelState(s.Models&1)}, {Model: "n", State: feed.ModelServing + feed.ModelState(s.Models>>1)}}
			setStatuses(t, h.p, all[:len(s.Entries)%3]...)
		case "demand":
			h.router[s.Router].asks(feed.Demand{Model: "m", Waiting: s.Models})
			h.router[s.Router].follower.Hurry()
		case "cut":
			h.cut[s.Router].Store(true)
		case "heal":
			h.cut[s.Router].Store(false)
		case "restart":
			h.router[s.Router].end()
			h.start(s.Router)
		case "term":
			term++
			if err := h.p.Lead("c", term); err != nil {
				t.Fatal(err)
			}
		case "begin", "finish":
			h.work(h.router[s.Router], s.What == "begin")
		}
		h.pass(s.After)
	}
	for n := range h.cut {
		h.cut[n].Store(false)
	}
	h.pass(2 * feed.Lease)
	waiting, heard := h.demand()
	for range 60 { // a stream may have been lost just now, and what its router said with it
		if waiting == heard {
			break
		}
		h.pass(time.Second)
		waiting, heard = h.demand()
	}
	if heard != waiting {
		h.fault("%d requests wait, and the publisher knows of %d", waiting, heard)
	}
	last := h.sees.state()
	for n, r := range h.router {
		if got := r.state(); got.Version != last.Version {
			h.fault("router %d ends at %v, and the publisher is at %v", n, got.Version, last.Version)
		}
	}
	return h.faults
}

// demand is how many requests wait for m, and how many the publisher knows of.
func (h *history) demand() (waiting, heard int) {
	for _, r := range h.router {
		r.mu.Lock()
		waiting += r.demand["m"].Waiting
		r.mu.Unlock()
	}
	if all, _ := h.p.Demand(0); len(all) > 0 {
		heard = all[0].Waiting
	}
	return waiting, heard
}

// entry is one of ten instances, of five replicas of two models.
func (h *history) entry(n int) feed.Entry {
	e := entry([]string{"m", "n"}[n/2%2], n/2)
	e.Start = fmt.Sprintf("s%d", n%2)
	h.all[e.Instance] = true
	return e
}

// work has a router begin a request at something that it may use, or finish one.
func (h *history) work(g *gateway, begin bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := maps.Keys(g.inFlight)
	if begin {
		at = maps.Keys(g.has)
	}
	ids := slices.SortedFunc(at, func(a, b feed.Instance) int { return strings.Compare(a.String(), b.String()) })
	switch {
	case len(ids) == 0:
	case begin:
		g.inFlight[ids[0]]++
	default:
		if g.inFlight[ids[0]]--; g.inFlight[ids[0]] == 0 {
			delete(g.inFlight, ids[0])
		}
	}
}

// pass lets time pass, and looks now and then.
func (h *history) pass(d time.Duration) {
	for h.look(); d > 0; h.look() {
		some := min(d, time.Second)
		time.Sleep(some)
		d -= some
	}
}

// look compares what everybody believes.
func (h *history) look() {
	synctest.Wait()
	h.sees.mu.Lock()
	for _, s := range h.sees.states {
		h.seen[s.Version] = s
	}
	h.sees.states = nil
	h.sees.mu.Unlock()
	for n, r := range h.router {
		r.mu.Lock()
		for _, s := range r.states {
			if was := h.seen[s.Version]; was != nil && !cmp.Equal(was.Entries, s.Entries, empty()) {
				h.fault("router %d shows at %v what was never published: %s", n, s.Version, cmp.Diff(was.Entries, s.Entries))
			}
			if was := h.seen[s.Version]; was != nil && !s.Unverified && !slices.EqualFunc(was.Statuses, s.Statuses, func(a, b feed.ModelStatus) bool { return a.Model == b.Model && a.State == b.State }) {
				h.fault("router %d shows at %v statuses that were never published: %v, not %v", n, s.Version, s.Statuses, was.Statuses)
			}
			for _, e := range s.Entries {
				if !h.all[e.Instance] {
					h.fault("router %d shows %v, which was never given", n, e.Instance)
				}
			}
		}
		r.states = nil
		r.mu.Unlock()
	}
	alive := map[string]bool{}
	for _, r := range h.p.Routers() {
		alive[r.Name] = true
	}
	for id := range h.all {
		u := h.p.UseOf(id)
		for n, r := range h.router {
			if !alive[fmt.Sprintf("r%d", n)] {
				continue
			}
			if u.Released && r.uses(id) && h.connected(n) {
				h.fault("%v is released, and router %d may use it", id, n)
			}
			r.mu.Lock()
			if u.Released && u.InFlight.Is(0) && r.inFlight[id] > 0 && h.connected(n) {
				h.fault("%v is said to have nothing in flight, and router %d has %d there", id, n, r.inFlight[id])
			}
			r.mu.Unlock()
		}
	}
}

// connected reports whether the run of router n that is now is one of those that
// live: a new one that has not come yet is not known to anybody.
func (h *history) connected(n int) bool {
	f := h.router[n].follower
	return slices.ContainsFunc(h.p.Routers(), func(r feed.RouterInfo) bool { return r.Run == f.RunName() })
}

// Whatever is lost, doubled, overtaken or late, a router shows nothing that was
// not published at that version, ends at what the publisher ends at, and nothing
// is released that a router that lives may use.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed, plan := rapid.Uint64().Draw(rt, "seed"), steps().Draw(rt, "history")
		var faults []string
		synctest.Test(t, func(t *testing.T) { faults = live(t, seed, plan) })
		for _, f := range faults {
			rt.Error(f)
		}
	})
}
