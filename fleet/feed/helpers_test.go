package feed_test

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/feed"
	"github.com/llmgw/llmgw/placement/catalog"
)

func models(names ...string) []catalog.Model {
	var out []catalog.Model
	for _, name := range names {
		out = append(out, catalog.Model{Name: name})
	}
	return out
}

// entry is the replica m-N of a model.
func entry(model string, n int) feed.Entry {
	return feed.Entry{
		Model: model, Instance: feed.Instance{Replica: fmt.Sprintf("%s-%d", model, n), Generation: 1, Start: "s1"},
		Address: fmt.Sprintf("10.0.%d.%d:8000", n/250, n%250), Secret: "secret", Engine: engines.VLLM,
	}
}

// publisher runs a publisher that leads term 1 of cluster c, until the test ends.
func publisher(t testing.TB, cfg feed.PublisherConfig, deps feed.PublisherDeps) *feed.Publisher {
	t.Helper()
	p, err := feed.NewPublisher(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Lead("c", 1); err != nil {
		t.Fatal(err)
	}
	runs(t, p.Run)
	return p
}

// runs runs something until the test ends, or what it returns is called.
func runs(t testing.TB, run func(context.Context) error) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := run(ctx); err != nil {
			t.Error(err)
		}
	})
	end = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	t.Cleanup(end)
	return end
}

// set says entries, and models where some are named.
func set(t testing.TB, p *feed.Publisher, names []string, entries ...feed.Entry) {
	t.Helper()
	if names != nil {
		if err := p.SetModels(models(names...)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.SetEntries(entries); err != nil {
		t.Fatal(err)
	}
}

// gateway is a router that does what the feed says, and as much as a test says.
type gateway struct {
	follower *feed.Follower
	end      func()

	mu       sync.Mutex
	manual   bool                        // it applies nothing by itself
	inFlight map[feed.Instance]int       // what is not there has none
	worked   map[feed.Instance]time.Time // last byte
	has      map[feed.Instance]struct{}  // by the version that was applied
	states   []*feed.State               // that were applied
	demand   map[string]feed.Demand
	asked    map[string]time.Time
}

// Reports implements [feed.Reporter].
func (g *gateway) Reports() []feed.Report {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := map[feed.Instance]struct{}{}
	for id := range g.has {
		all[id] = struct{}{}
	}
	for id := range g.inFlight {
		all[id] = struct{}{}
	}
	var out []feed.Report
	for id := range all {
		r := feed.Report{Instance: id, InFlight: g.inFlight[id]}
		if at, known := g.worked[id]; known {
			r.LastByte = engines.Known(time.Since(at))
		}
		out = append(out, r)
	}
	return out
}

// works notes a byte of an instance, and how many requests are there.
func (g *gateway) works(e feed.Entry, inFlight int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.worked[e.Instance] = time.Now()
	g.inFlight[e.Instance] = inFlight
	if inFlight == 0 {
		delete(g.inFlight, e.Instance)
	}
}

// apply goes by what the follower knows.
func (g *gateway) apply() {
	s, _ := g.follower.State()
	if !s.Known() {
		return
	}
	g.mu.Lock()
	g.has = map[feed.Instance]struct{}{}
	for _, e := range s.Entries {
		g.has[e.Instance] = struct{}{}
	}
	g.states = append(g.states, s)
	g.mu.Unlock()
	g.follower.Applied(s.Version)
}

// uses reports whether it may send requests to an instance.
func (g *gateway) uses(id feed.Instance) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, has := g.has[id]
	return has
}

func (g *gateway) state() *feed.State {
	s, _ := g.follower.State()
	return s
}

// run is the loop of a gateway.
func (g *gateway) run(ctx context.Context) error {
	for {
		_, changed := g.follower.State()
		g.mu.Lock()
		manual := g.manual
		g.mu.Unlock()
		if !manual {
			g.apply()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

func config(router string) feed.Config {
	cfg := feed.DefaultConfig()
	cfg.Router = router
	return cfg
}

// follow runs a router until the test ends.
func follow(t testing.TB, cfg feed.Config, deps feed.Deps) *gateway {
	t.Helper()
	g := &gateway{inFlight: map[feed.Instance]int{}, worked: map[feed.Instance]time.Time{}}
	deps.Reporter = g
	f, err := feed.New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	g.follower = f
	f.Load()
	endRun, endLoop := runs(t, f.Run), runs(t, g.run)
	g.end = func() {
		endRun()
		endLoop()
	}
	return g
}

// holds checks what a router knows.
func holds(t testing.TB, g *gateway, v feed.Version, names []string, entries ...feed.Entry) {
	t.Helper()
	synctest.Wait()
	s := g.state()
	if s.Version != v {
		t.Errorf("version %v, want %v", s.Version, v)
	}
	if diff := cmp.Diff(entries, s.Entries, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(models(names...), s.Models, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
}

func at(seq uint64) feed.Version { return feed.Version{Cluster: "c", Term: 1, Seq: seq} }

// sourceFuncs is a source that a test makes something else of.
type sourceFuncs struct {
	name string
	open func(ctx context.Context, req *apipb.WatchFeedRequest) (feed.Stream, error)
}

func (s sourceFuncs) Name() string { return s.name }

func (s sourceFuncs) Open(ctx context.Context, req *apipb.WatchFeedRequest) (feed.Stream, error) {
	return s.open(ctx, req)
}

// request is the opening of a stream.
type request struct {
	ProtocolLeast, ProtocolMost uint32
	Router, Run, Cluster        string
	Term                        uint64
}

func (r request) wire() *apipb.WatchFeedRequest {
	return &apipb.WatchFeedRequest{ProtocolLeast: r.ProtocolLeast, ProtocolMost: r.ProtocolMost, Router: r.Router, Run: r.Run, Cluster: r.Cluster, Term: r.Term}
}

func empty() cmp.Option { return cmpopts.EquateEmpty() }

// everyFieldIsSet keeps a test of all fields from missing one that is new.
func everyFieldIsSet(t *testing.T, values ...any) {
	t.Helper()
	for _, v := range values {
		for f, value := range reflect.ValueOf(v).Fields() {
			if value.IsZero() {
				t.Errorf("%T.%s is not set by this test", v, f.Name)
			}
		}
	}
}

// reportOf is a report of one request at each entry.
func reportOf(entries []feed.Entry) *apipb.ReportUseRequest {
	r := &apipb.ReportUseRequest{}
	for _, e := range entries {
		r.Uses = append(r.Uses, &apipb.FeedUse{Replica: e.Replica, Generation: e.Generation, Start: e.Start, InFlight: 1})
	}
	return r
}
