package feed_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/feed"
	"github.com/llmgw/llmgw/placement/catalog"
)

// A router gets everything first and then what changes.
func TestSnapshotAndDeltas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := feed.DefaultPublisherConfig()
		cfg.KeepRevoked = time.Hour
		p := publisher(t, cfg, feed.PublisherDeps{})
		a, b := entry("m", 1), entry("m", 2)
		set(t, p, []string{"n", "m"}, a)
		g := follow(t, config("r1"), feed.Deps{Sources: []feed.Source{p.Local()}})
		holds(t, g, at(1), []string{"m", "n"}, a)

		time.Sleep(time.Second)
		set(t, p, nil, a, b)
		holds(t, g, at(2), []string{"m", "n"}, a, b)

		time.Sleep(time.Second)
		b.Start, b.Address = "s2", "10.0.0.2:8001"
		set(t, p, nil, b)
		holds(t, g, at(3), []string{"m", "n"}, b)

		time.Sleep(time.Second)
		set(t, p, nil, b) // as it was
		revoked := feed.Revocation{KeyID: "k1", At: time.Now().UTC()}
		p.Revoke(revoked)
		holds(t, g, at(4), []string{"m", "n"}, b)
		if diff := cmp.Diff([]feed.Revocation{revoked}, g.state().Revoked); diff != "" {
			t.Error(diff)
		}
		// A key that was changed is told of each time, and not once it counts no more.
		changed := feed.Revocation{KeyID: "k2", Changed: true}
		for i := range 3 {
			time.Sleep(time.Second)
			if changed.At = time.Now().UTC(); i == 2 {
				changed.Changed = false
			}
			p.Revoke(changed, feed.Revocation{KeyID: "k1", At: changed.At, Changed: true})
			holds(t, g, at(5+uint64(i)), []string{"m", "n"}, b)
			if diff := cmp.Diff([]feed.Revocation{revoked, changed}, g.state().Revoked); diff != "" {
				t.Error(diff)
			}
		}
		// A revocation goes when no router can remember the key.
		time.Sleep(cfg.KeepRevoked + 2*time.Second)
		holds(t, g, at(9), []string{"m", "n"}, b)
		if got := g.state().Revoked; len(got) != 0 {
			t.Errorf("revoked: %v", got)
		}
	})
}

// Before the entries and the models are known nothing is published: a control
// plane that has just come to lead empties no pool.
func TestNothingIsPublishedBeforeAllIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := publisher(t, feed.DefaultPublisherConfig(), feed.PublisherDeps{})
		g := follow(t, config("r1"), feed.Deps{Sources: []feed.Source{p.Local()}})
		if err := p.SetEntries(nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if s := g.state(); s.Known() {
			t.Errorf("%v is known", s.Version)
		}
		if s := g.follower.Stats(); s.Connected == "" || s.HeardTerm != 1 {
			t.Errorf("%+v; it follows, and has heard of the term", s)
		}
		if err := p.SetModels(nil); err != nil {
			t.Fatal(err)
		}
		holds(t, g, at(1), nil) // a fleet without replicas is one, too
	})
}

// Changes within a short while go together, and the first is sent at once.
func TestChangesAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := publisher(t, feed.DefaultPublisherConfig(), feed.PublisherDeps{})
		g := follow(t, config("r1"), feed.Deps{Sources: []feed.Source{p.Local()}})
		set(t, p, []string{"m"}, entry("m", 1))
		holds(t, g, at(1), []string{"m"}, entry("m", 1))
		var last feed.Entry
		for i := range 90 {
			time.Sleep(time.Millisecond)
			last = entry("m", i)
			set(t, p, nil, last)
		}
		time.Sleep(time.Second)
		holds(t, g, at(3), []string{"m"}, last)
	})
}

// A replica whose model the catalog does not have is not published.
func TestReplicasOfUnknownModels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := publisher(t, feed.DefaultPublisherConfig(), feed.PublisherDeps{})
		g := follow(t, config("r1"), feed.Deps{Sources: []feed.Source{p.Local()}})
		set(t, p, []string{"m", "n"}, entry("m", 1), entry("n", 1))
		holds(t, g, at(1), []string{"m", "n"}, entry("m", 1), entry("n", 1))
		time.Sleep(time.Second)
		if err := p.SetModels(models("n")); err != nil {
			t.Fatal(err)
		}
		holds(t, g, at(2), []string{"n"}, entry("n", 1))
		time.Sleep(time.Second)
		if err := p.SetModels(models("m", "n")); err != nil {
			t.Fatal(err)
		}
		holds(t, g, at(3), []string{"m", "n"}, entry("m", 1), entry("n", 1))
	})
}

// Entries at fault are left out by name; a catalog at fault changes nothing.
func TestFaultsAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := publisher(t, feed.DefaultPublisherConfig(), feed.PublisherDeps{})
		g := follow(t, config("r1"), feed.Deps{Sources: []feed.Source{p.Local()}})
		set(t, p, []string{"m"})
		bad := entry("m", 2)
		bad.Address, bad.Secret = "nowhere", "hush\n"
		err := p.SetEntries([]feed.Entry{entry("m", 1), bad, entry("m", 3), entry("m", 1)})
		for _, want := range []string{`replica "m-2": address: "nowhere"; want host:port`, "secret: is too long or cannot stand in a header", `replica "m-1": has two entries`} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v; want %q", err, want)
			}
		}
		if strings.Contains(err.Error(), "hush") {
			t.Errorf("the secret is told: %v", err)
		}
		if err := p.SetModels(models("n", "n")); err == nil || !strings.Contains(err.Error(), "models[1].name") {
			t.Errorf("error %v", err)
		}
		time.Sleep(time.Second)
		s := g.state()
		if diff := cmp.Diff([]feed.Entry{entry("m", 1), entry("m", 3)}, s.Entries); diff != "" || len(s.Models) != 1 {
			t.Error(s.Models, diff)
		}
	})
}

// Terms only go up, and a publisher that resigned leads again from nothing.
func TestTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := publisher(t, feed.DefaultPublisherConfig(), feed.PublisherDeps{})
		g := follow(t, config("r1"), feed.Deps{Sources: []feed.Source{p.Local()}})
		set(t, p, []string{"m"}, entry("m", 1))
		holds(t, g, at(1), []string{"m"}, entry("m", 1))
		if err := p.Lead("c", 5); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		holds(t, g, feed.Version{Cluster: "c", Term: 5, Seq: 1}, []string{"m"}, entry("m", 1))
		var e *feed.VersionError
		if err := p.Lead("c", 4); !errors.Is(err, feed.ErrStale) || !errors.As(err, &e) || e.Have.Term != 5 {
			t.Errorf("error %v; want ErrStale", err)
		}
		if err := p.Lead("c", 0); !errors.Is(err, feed.ErrFrame) {
			t.Errorf("term 0: %v", err)
		}

		p.Resign()
		time.Sleep(time.Minute)
		holds(t, g, feed.Version{Cluster: "c", Term: 5, Seq: 1}, []string{"m"}, entry("m", 1))
		if s := g.follower.Stats(); s.Connected != "" {
			t.Errorf("it follows a standby: %+v", s)
		}
		if err := p.Lead("c", 6); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		holds(t, g, feed.Version{Cluster: "c", Term: 5, Seq: 1}, []string{"m"}, entry("m", 1)) // nothing is known yet
		if err := p.SetEntries([]feed.Entry{entry("m", 2)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		holds(t, g, feed.Version{Cluster: "c", Term: 6, Seq: 1}, []string{"m"}, entry("m", 2))
	})
}

// Everything that an entry and a model can say arrives.
func TestAllOfItArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := publisher(t, feed.DefaultPublisherConfig(), feed.PublisherDeps{})
		g := follow(t, config("r1"), feed.Deps{Sources: []feed.Source{p.Local()}})
		metric := func(name string) engines.Metric {
			return engines.Metric{Names: []string{"x:" + name, "x:old"}, Also: []string{"x:also"}, Labels: map[string]string{"a": "b"}, Factors: []string{"f"}, Aggregate: engines.AggregateMax}
		}
		facts := &feed.Facts{
			Capabilities: engines.Capabilities{
				StreamUsage: true, ContinuousUsage: true, PriorityField: "priority", PriorityOrder: engines.PriorityHighFirst,
				ChecksModel: true, AbortsOnDisconnect: true, TokenizePath: "/tokenize", KeepAlive: 5 * time.Second, Sleeps: true,
			},
			Metrics: &engines.MetricContract{
				Engine: "own", Path: "/metrics", Prefix: "x:", NeedsKey: true, UsuallyRuns: 8,
				Running: metric("running"), Waiting: metric("waiting"), MaxRunning: metric("max"), KVUsed: metric("kv"),
				PrefixQueryTokens: metric("asked"), PrefixHitTokens: metric("hit"), Preemptions: metric("preempted"), KVCapacityTokens: metric("room"),
			},
			ChecksSecret: true,
		}
		everyFieldIsSet(t, *facts, *facts.Metrics, facts.Metrics.Running)
		e := feed.Entry{
			Model: "m", Instance: feed.Instance{Replica: "r", Generation: 1 << 40, Start: "s"}, Address: "[fd00::1]:8000", Secret: "hush",
			Engine: "own", Served: "upstream", MaxRunning: 17, PriorityScheduling: true, Facts: facts,
			Node: "n1", Fabric: "ib", Labels: map[string]string{"rack": "r1"},
		}
		everyFieldIsSet(t, e)
		plain := entry("m", 2)
		price, free := catalog.Money(150_000_000), catalog.Money(0)
		m := catalog.Model{
			Name: "m", Aliases: []string{"a"}, Fallbacks: []string{"n"}, RoutingProfile: "chat", MaxOutputTokens: 10, ContextTokens: 20,
			Prices: []catalog.Price{{Output: &free}, {From: catalog.Instant(1772323200), Input: 1, CachedInput: &price, Output: &price}},
			Source: "/models/m",
			Profile: &engines.Profile{
				Engine: engines.VLLM, Executable: "/opt/vllm", Mode: "tp", Model: "/models/m", Revision: "main", ServedNames: []string{"m"}, Task: engines.TaskGenerate,
				Ranks: 2, TensorParallel: 2, PipelineParallel: 2, DataParallel: 1, ExpertParallel: true, ContextTokens: 1000, MaxRunning: 7, MemoryRatio: 0.9,
				DType: "bfloat16", KVCacheDType: "fp8", Quantization: "awq", PriorityScheduling: true, KVEvents: true,
				Options: map[string]string{"a": "1"}, ExtraArgs: []string{"--x", "y: z"}, Env: map[string]string{"A": "yes"}, LoadTimeout: 90 * time.Minute, StopGrace: 1500 * time.Millisecond,
			},
			Scaling: &catalog.Scaling{
				Min: 1, Max: 3, IdleTimeout: time.Minute, TargetLoad: 0.5,
				Prewarm: []catalog.Prewarm{{Cron: "0 8 * * 1-5", Timezone: "Europe/Berlin", For: 10 * time.Hour, Min: 2}},
			},
			Placement: &catalog.Placement{Nodes: []string{"n1"}, Labels: map[string]string{"a": "true"}, Classes: []string{"H100"}, Spread: "rack", Apart: []string{"n"}, CardMemoryBytes: 80 << 30, HostMemoryBytes: 1},
		}
		everyFieldIsSet(t, m, *m.Scaling, m.Scaling.Prewarm[0], *m.Placement)
		if err := p.SetModels([]catalog.Model{m, {Name: "n"}}); err != nil {
			t.Fatal(err)
		}
		if err := p.SetEntries([]feed.Entry{plain, e}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s := g.state()
		if diff := cmp.Diff([]feed.Entry{plain, e}, s.Entries); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]catalog.Model{m, {Name: "n"}}, s.Models, empty()); diff != "" {
			t.Error(diff)
		}
		if got, found := s.Entry("r"); !found || got.Secret.Reveal() != "hush" {
			t.Errorf("%v, %v", got, found)
		}
		if _, found := s.Entry("q"); found {
			t.Error("a replica that is not there is found")
		}
	})
}

// Whatever differs between two entries is a change.
func TestEveryDifferenceCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := publisher(t, feed.DefaultPublisherConfig(), feed.PublisherDeps{})
		e := entry("m", 1)
		set(t, p, []string{"m", "n"}, e)
		for i, change := range []func(){
			func() { e.Model = "n" }, func() { e.Generation++ }, func() { e.Start = "s2" }, func() { e.Address = "10.1.1.1:1" },
			func() { e.Secret = "other" }, func() { e.Engine = engines.SGLang }, func() { e.Served = "x" }, func() { e.MaxRunning = 3 },
			func() { e.PriorityScheduling = true }, func() { e.Facts = &feed.Facts{} }, func() { e.Node = "n" }, func() { e.Fabric = "f" },
			func() { e.Labels = map[string]string{"a": "b"} },
			func() { e.Facts = &feed.Facts{Capabilities: engines.Capabilities{ChecksModel: true}} },
		} {
			time.Sleep(time.Second)
			change()
			set(t, p, nil, e)
			synctest.Wait()
			if v, _ := p.Version(); v != at(uint64(i+2)) {
				t.Errorf("after change %d: %v", i, v)
			}
		}
	})
}

// Routers are refused with what to do, and the refusals are counted.
func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		var outranked []uint64
		cfg := feed.DefaultPublisherConfig()
		cfg.MaxRouters = 1
		p := publisher(t, cfg, feed.PublisherDeps{Registerer: reg, Outranked: func(router string, term uint64) { outranked = append(outranked, term) }})
		open := func(change func(*request)) error {
			req := request{ProtocolLeast: 1, ProtocolMost: 3, Router: "r1", Run: "run"}
			change(&req)
			s, err := p.Local().Open(t.Context(), req.wire())
			if err == nil {
				defer s.Close()
				_, err = s.Receive()
			}
			return err
		}
		for _, tt := range []struct {
			change func(*request)
			want   string
		}{
			{func(r *request) { r.Router = "no such name" }, "invalid_argument: feed: router: "},
			{func(r *request) { r.Run = "" }, "invalid_argument: feed: its run"},
			{func(r *request) { r.ProtocolLeast = 2 }, "failed_precondition: feed: the router speaks versions 2 to 3"},
			{func(r *request) { r.Cluster = "other" }, `failed_precondition: feed: the router follows cluster "other", and this is "c"`},
			{func(r *request) { r.Term = 9 }, "unavailable: feed: the router has heard of term 9, and this is 1"},
			{func(*request) {}, ""},
			{func(r *request) { r.Router = "r2" }, "resource_exhausted: feed: 1 routers live"},
		} {
			err := open(tt.change)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
				t.Errorf("error %v; want %q", err, tt.want)
			}
		}
		if diff := cmp.Diff([]uint64{9}, outranked); diff != "" {
			t.Error(diff)
		}
		want := `
# HELP llmgw_feed_publisher_refused_total Streams and reports of routers that were refused, by reason.
# TYPE llmgw_feed_publisher_refused_total counter
llmgw_feed_publisher_refused_total{reason="cluster"} 1
llmgw_feed_publisher_refused_total{reason="full"} 1
llmgw_feed_publisher_refused_total{reason="identity"} 0
llmgw_feed_publisher_refused_total{reason="invalid"} 2
llmgw_feed_publisher_refused_total{reason="outranked"} 1
llmgw_feed_publisher_refused_total{reason="protocol"} 1
llmgw_feed_publisher_refused_total{reason="replaced"} 0
llmgw_feed_publisher_refused_total{reason="session"} 0
llmgw_feed_publisher_refused_total{reason="standby"} 0
llmgw_feed_publisher_refused_total{reason="unauthenticated"} 0
`
		if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "llmgw_feed_publisher_refused_total"); err != nil {
			t.Error(err)
		}
	})
}

func TestConfigs(t *testing.T) {
	if err := feed.DefaultPublisherConfig().Validate(); err != nil {
		t.Error(err)
	}
	if err := config("r1").Validate(); err != nil {
		t.Error(err)
	}
	errs := []error{
		(feed.PublisherConfig{Gather: -1}).Validate(),
		(feed.Config{Router: "a b", Cluster: "c d"}).Validate(),
	}
	for i, keys := range [][]string{
		{"gather", "max_routers", "max_queue", "write_timeout", "keep_revoked"},
		{"router", "cluster", "save_interval", "silence", "reconnect.delay"},
	} {
		for _, key := range keys {
			if errs[i] == nil || !strings.Contains("\n"+errs[i].Error(), "\n"+key+": ") {
				t.Errorf("%v does not name %s", errs[i], key)
			}
		}
	}
	if _, err := feed.New(config("r1"), feed.Deps{}); err == nil || !strings.Contains(err.Error(), "Deps.Sources") || !strings.Contains(err.Error(), "Deps.Reporter") {
		t.Errorf("error %v", err)
	}
}
