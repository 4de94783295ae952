package feed_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/feed"
)

// lines is a log that tests read.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// over is a source to a publisher, over a network that a test breaks.
func over(p *feed.Publisher, f faulty) feed.Source {
	return sourceFuncs{"the network", func(ctx context.Context, req *apipb.WatchFeedRequest) (feed.Stream, error) {
		if f.cut != nil && f.cut.Load() {
			return nil, connect.NewError(connect.CodeUnavailable, errors.New("no route"))
		}
		s, err := p.Local().Open(ctx, req)
		if err != nil {
			return nil, err
		}
		bad := f
		bad.Stream = s
		return &bad, nil
	}}
}

// A router that is cut off keeps all it knows, says so, and catches up.
func TestCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := publisher(t, feed.DefaultPublisherConfig(), feed.PublisherDeps{})
		set(t, p, []string{"m"}, entry("m", 1))
		var cut atomic.Bool
		var log lines
		reg := prometheus.NewRegistry()
		g := follow(t, config("r1"), feed.Deps{Sources: []feed.Source{over(p, faulty{cut: &cut})}, Logger: log.logger(), Registerer: reg})
		holds(t, g, at(1), []string{"m"}, entry("m", 1))
		cut.Store(true)
		time.Sleep(time.Second)
		set(t, p, nil, entry("m", 2))
		time.Sleep(10 * time.Minute)
		holds(t, g, at(1), []string{"m"}, entry("m", 1))
		if s := g.follower.Stats(); s.Connected != "" || s.Age.Or(0) < 10*time.Minute {
			t.Errorf("%+v", s)
		}
		if n := strings.Count(log.String(), "the feed is lost; this router serves by what it knows"); n != 1 {
			t.Errorf("%d lines in %s", n, log.String())
		}
		if n := strings.Count(log.String(), "the feed cannot be reached"); n < 5 || n > 12 {
			t.Errorf("%d lines a minute in %s", n, log.String())
		}
		want := `
# HELP llmgw_feed_connected 1 while the feed is followed, 0 while this router serves by what it knows.
# TYPE llmgw_feed_connected gauge
llmgw_feed_connected 0
# HELP llmgw_feed_entries Replicas that this router knows.
# TYPE llmgw_feed_entries gauge
llmgw_feed_entries 1
`
		if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "llmgw_feed_connected", "llmgw_feed_entries"); err != nil {
			t.Error(err)
		}
		cut.Store(false)
		time.Sleep(11 * time.Second) // the longest pause
		holds(t, g, at(2), []string{"m"}, entry("m", 2))
	})
}

// A source that says nothing is left for the next one, in ten seconds and with all
// that is known.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := publisher(t, feed.DefaultPublisherConfig(), feed.PublisherDeps{})
		set(t, p, []string{"m"}, entry("m", 1))
		var cut, never atomic.Bool
		opened := 0
		first, second := over(p, faulty{cut: &cut}), over(p, faulty{cut: &never})
		counted := sourceFuncs{"second", func(ctx context.Context, req *apipb.WatchFeedRequest) (feed.Stream, error) {
			opened++
			return second.Open(ctx, req)
		}}
		g := follow(t, config("r1"), feed.Deps{Sources: []feed.Source{first, counted}})
		time.Sleep(time.Minute)
		if s := g.follower.Stats(); s.Connected != "the network" || s.Age.Or(time.Hour) > feed.Ping {
			t.Errorf("%+v; pings keep a stream that has nothing to say", s)
		}
		cut.Store(true)
		time.Sleep(16*time.Second - time.Millisecond) // at most a ping's time, ten seconds, and the first pause
		synctest.Wait()
		if s := g.follower.Stats(); opened != 1 || s.Connected != "second" {
			t.Errorf("%+v, opened %d times", s, opened)
		}
	})
}

// A control plane that does not lead, or ends, is left for the next one.
func TestStandby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		standby, err := feed.NewPublisher(feed.DefaultPublisherConfig(), feed.PublisherDeps{})
		if err != nil {
			t.Fatal(err)
		}
		leader, err := feed.NewPublisher(feed.DefaultPublisherConfig(), feed.PublisherDeps{})
		if err != nil {
			t.Fatal(err)
		}
		if err := leader.Lead("c", 1); err != nil {
			t.Fatal(err)
		}
		runs(t, standby.Run)
		end := runs(t, leader.Run)
		set(t, leader, []string{"m"}, entry("m", 1))
		g := follow(t, config("r1"), feed.Deps{Sources: []feed.Source{standby.Local(), leader.Local()}})
		time.Sleep(2 * time.Second)
		holds(t, g, at(1), []string{"m"}, entry("m", 1))
		end()
		if err := standby.Lead("c", 2); err != nil {
			t.Fatal(err)
		}
		set(t, standby, []string{"m"}, entry("m", 2))
		time.Sleep(5 * time.Second)
		holds(t, g, feed.Version{Cluster: "c", Term: 2, Seq: 1}, []string{"m"}, entry("m", 2))
	})
}

// What a paused former leader says, from before its pause or after it, changes
// nothing: its frames are of a lower term.
func TestFormerLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		former := publisher(t, feed.DefaultPublisherConfig(), feed.PublisherDeps{})
		set(t, former, []string{"m"}, entry("m", 1))
		var replay []*apipb.WatchFeedResponse
		keep := faulty{fate: func(f *apipb.WatchFeedResponse) fate {
			replay = append(replay, f)
			return arrives
		}}
		to, log := &switched{}, &lines{}
		to.set(over(former, keep))
		reg := prometheus.NewRegistry()
		g := follow(t, config("r1"), feed.Deps{Sources: []feed.Source{to}, Logger: log.logger(), Registerer: reg})
		time.Sleep(time.Second)
		set(t, former, nil, entry("m", 1), entry("m", 2))
		time.Sleep(7 * time.Second)
		holds(t, g, at(2), []string{"m"}, entry("m", 1), entry("m", 2))

		leader, err := feed.NewPublisher(feed.DefaultPublisherConfig(), feed.PublisherDeps{})
		if err != nil {
			t.Fatal(err)
		}
		if err := leader.Lead("c", 2); err != nil {
			t.Fatal(err)
		}
		runs(t, leader.Run)
		set(t, leader, []string{"m"}, entry("m", 3))
		to.set(leader.Local())
		former.Resign()
		time.Sleep(15 * time.Second)
		now := feed.Version{Cluster: "c", Term: 2, Seq: 1}
		holds(t, g, now, []string{"m"}, entry("m", 3))

		// The former leader wakes up, believes that it leads, and takes the router.
		outranked := make(chan uint64, 100)
		woken := publisher(t, feed.DefaultPublisherConfig(), feed.PublisherDeps{Outranked: func(_ string, term uint64) { outranked <- term }})
		set(t, woken, []string{"m"})
		to.set(woken.Local())
		leader.Resign()
		time.Sleep(30 * time.Second)
		holds(t, g, now, []string{"m"}, entry("m", 3))
		if term := <-outranked; term != 2 {
			t.Errorf("it is told of term %d", term)
		}

		// Every frame of before, once more.
		if len(replay) < 3 {
			t.Fatalf("%d frames", len(replay))
		}
		for _, f := range replay {
			to.set(&recording{welcomed: 1, frames: []*apipb.WatchFeedResponse{f}})
			time.Sleep(11 * time.Second)
			to.set(&recording{welcomed: 2, frames: []*apipb.WatchFeedResponse{f}})
			time.Sleep(11 * time.Second)
			holds(t, g, now, []string{"m"}, entry("m", 3))
		}
		if n := counted(t, reg, `llmgw_feed_refused_frames_total`, "stale"); n < float64(len(replay)) {
			t.Errorf("%v frames were refused", n)
		}
		if !strings.Contains(log.String(), "feed: of a lower term: 1, and 2 was heard of; another control plane leads") {
			t.Error(log.String())
		}
	})
}

// switched is a source that a test changes.
type switched struct {
	mu sync.Mutex
	to feed.Source
}

func (s *switched) set(to feed.Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to = to
}

func (*switched) Name() string { return "the leader" }

func (s *switched) Open(ctx context.Context, req *apipb.WatchFeedRequest) (feed.Stream, error) {
	s.mu.Lock()
	to := s.to
	s.mu.Unlock()
	return to.Open(ctx, req)
}

// recording is a source that says what it was given, after a welcome in a term if
// one is given.
type recording struct {
	welcomed uint64
	cluster  string
	frames   []*apipb.WatchFeedResponse
}

func (*recording) Name() string { return "a recording" }

func (r *recording) Open(ctx context.Context, _ *apipb.WatchFeedRequest) (feed.Stream, error) {
	s := &playing{ctx: ctx, frames: r.frames}
	if r.welcomed > 0 {
		cluster := r.cluster
		if cluster == "" {
			cluster = "c"
		}
		welcome := &apipb.WatchFeedResponse{
			Version: &apipb.FeedVersion{Cluster: cluster, Term: r.welcomed},
			Frame:   &apipb.WatchFeedResponse_Welcome{Welcome: &apipb.FeedWelcome{Protocol: 1, Session: "s"}},
		}
		s.frames = append([]*apipb.WatchFeedResponse{welcome}, s.frames...)
	}
	return s, nil
}

type playing struct {
	ctx    context.Context //nolint:containedctx // as a stream's
	frames []*apipb.WatchFeedResponse
}

func (p *playing) Receive() (*apipb.WatchFeedResponse, error) {
	if len(p.frames) == 0 {
		<-p.ctx.Done()
		return nil, io.EOF
	}
	f := p.frames[0]
	p.frames = p.frames[1:]
	return f, nil
}

func (*playing) Report(context.Context, *apipb.ReportUseRequest) error { return nil }
func (*playing) Close()                                                {}

// counted is the value of a counter with a label of that value.
func counted(t *testing.T, reg prometheus.Gatherer, name, label string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && len(m.GetLabel()) == 1 && m.GetLabel()[0].GetValue() == label {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no %s{%s}", name, label)
	return 0
}

// A control plane of another cluster is not followed, also not by a router that
// was told which one is its own.
func TestAnotherCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := publisher(t, feed.DefaultPublisherConfig(), feed.PublisherDeps{})
		set(t, p, []string{"m"}, entry("m", 1))
		var log lines
		cfg := config("r1")
		cfg.Cluster = "own"
		g := follow(t, cfg, feed.Deps{Sources: []feed.Source{p.Local()}, Logger: log.logger()})
		time.Sleep(time.Minute)
		if g.state().Known() {
			t.Error(g.state().Version)
		}
		want := `level=ERROR msg="the feed is refused; this router serves by what it knows" source="this process" router=r1 code=failed_precondition`
		if n := strings.Count(log.String(), want); n != 1 {
			t.Errorf("%d lines in a minute: %s", n, log.String())
		}
		// One that would have the router is refused by the router.
		g = follow(t, cfg, feed.Deps{Sources: []feed.Source{&recording{welcomed: 3, cluster: "other"}}, Logger: log.logger()})
		time.Sleep(time.Second)
		if s := g.follower.Stats(); s.HeardTerm != 0 || !strings.Contains(log.String(), `feed: of another cluster: \"other\", and this router follows \"own\"`) {
			t.Errorf("%+v, %s", s, log.String())
		}
	})
}

// A refused router asks less and less often, up to once a minute.
func TestRefusedRoutersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries []time.Time
		refusing := sourceFuncs{"it", func(context.Context, *apipb.WatchFeedRequest) (feed.Stream, error) {
			tries = append(tries, time.Now())
			return nil, connect.NewError(connect.CodePermissionDenied, errors.New("not this certificate"))
		}}
		g := follow(t, config("r1"), feed.Deps{Sources: []feed.Source{refusing}})
		time.Sleep(time.Hour)
		g.end()
		if n := len(tries); n < 60 || n > 140 {
			t.Errorf("%d tries in an hour", n)
		}
		for i, at := range tries[20:] {
			if pause := at.Sub(tries[i+19]); pause < 30*time.Second || pause > time.Minute {
				t.Errorf("pause %v", pause)
			}
		}
	})
}

// Frames that cannot be are refused whole, and what is known stays.
func TestFramesThatCannotBe(t *testing.T) {
	good := func() *apipb.FeedEntry {
		return &apipb.FeedEntry{Model: "m", Replica: "m-1", Start: "s", Address: "10.0.0.1:1"}
	}
	snapshot := func(change func(*apipb.FeedSnapshot)) *apipb.WatchFeedResponse {
		s := &apipb.FeedSnapshot{Entries: []*apipb.FeedEntry{good()}}
		change(s)
		return &apipb.WatchFeedResponse{Version: &apipb.FeedVersion{Cluster: "c", Term: 2, Seq: 2}, Frame: &apipb.WatchFeedResponse_Snapshot{Snapshot: s}}
	}
	synctest.Test(t, func(t *testing.T) {
		p := publisher(t, feed.DefaultPublisherConfig(), feed.PublisherDeps{})
		set(t, p, []string{"m"}, entry("m", 7))
		to, log := &switched{}, &lines{}
		to.set(p.Local())
		g := follow(t, config("r1"), feed.Deps{Sources: []feed.Source{to}, Logger: log.logger()})
		holds(t, g, at(1), []string{"m"}, entry("m", 7))
		for _, tt := range []struct {
			change func(*apipb.FeedSnapshot)
			want   string
		}{
			{func(s *apipb.FeedSnapshot) { s.Entries[0].Address = "" }, "address"},
			{func(s *apipb.FeedSnapshot) { s.Entries = append(s.Entries, good()) }, "two entries"},
			{func(s *apipb.FeedSnapshot) { s.Entries[0].Facts = "f" }, "is not among them"},
			{func(s *apipb.FeedSnapshot) { s.Entries[0].Secret = "a\nb" }, "secret"},
			{func(s *apipb.FeedSnapshot) { s.Models = []*apipb.FeedModel{{}} }, "model"},
			{func(s *apipb.FeedSnapshot) { s.Revoked = []*apipb.FeedRevocation{{KeyId: "k"}} }, "revocation"},
			{func(s *apipb.FeedSnapshot) { s.Entries = make([]*apipb.FeedEntry, feed.MaxEntries+1) }, "entries; want at most"},
		} {
			to.set(&recording{welcomed: 1, frames: []*apipb.WatchFeedResponse{snapshot(tt.change)}})
			p.Resign()
			time.Sleep(2 * time.Minute)
			holds(t, g, at(1), []string{"m"}, entry("m", 7))
			if !strings.Contains(log.String(), "not a frame that can be used") || !strings.Contains(log.String(), tt.want) {
				t.Errorf("%q is not in %s", tt.want, log.String())
			}
		}
		to.set(&recording{welcomed: 1, frames: []*apipb.WatchFeedResponse{{Version: &apipb.FeedVersion{Cluster: "c", Term: 1 << 50}}}})
		time.Sleep(2 * time.Minute)
		if s := g.follower.Stats(); s.HeardTerm != 1 {
			t.Errorf("%+v: a term that cannot be is believed", s)
		}
	})
}

// A router whose reports do not get through looks for another way.
func TestReportsThatDoNotGetThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := publisher(t, feed.DefaultPublisherConfig(), feed.PublisherDeps{})
		set(t, p, []string{"m"}, entry("m", 1))
		first := over(p, faulty{lose: func() bool { return true }})
		g := follow(t, config("r1"), feed.Deps{Sources: []feed.Source{first, p.Local()}})
		time.Sleep(time.Second)
		holds(t, g, at(1), []string{"m"}, entry("m", 1))
		time.Sleep(15 * time.Second)
		if s := g.follower.Stats(); s.Connected != "this process" {
			t.Errorf("%+v", s)
		}
	})
}
