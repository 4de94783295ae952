package feed

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/llmgw/llmgw/fleet/apipb"
)

func frameOf(term, seq uint64, frame any) *apipb.WatchFeedResponse {
	f := &apipb.WatchFeedResponse{Version: Version{Cluster: "c", Term: term, Seq: seq}.wire()}
	switch frame := frame.(type) {
	case *apipb.FeedSnapshot:
		f.Frame = &apipb.WatchFeedResponse_Snapshot{Snapshot: frame}
	case *apipb.FeedDelta:
		f.Frame = &apipb.WatchFeedResponse_Delta{Delta: frame}
	case *apipb.FeedPing:
		f.Frame = &apipb.WatchFeedResponse_Ping{Ping: frame}
	}
	return f
}

func replicas(names ...string) []*apipb.FeedEntry {
	var out []*apipb.FeedEntry
	for _, n := range names {
		out = append(out, &apipb.FeedEntry{Model: "m", Replica: n, Start: "s", Address: "10.0.0.1:80"})
	}
	return out
}

// Each frame changes what it says from what it follows, or nothing.
func TestMirror(t *testing.T) {
	snapshot := func(names ...string) *apipb.FeedSnapshot { return &apipb.FeedSnapshot{Entries: replicas(names...)} }
	delta := func(base uint64, removed string, names ...string) *apipb.FeedDelta {
		d := &apipb.FeedDelta{Base: base, Entries: replicas(names...)}
		if removed != "" {
			d.RemovedReplicas = []string{removed}
		}
		return d
	}
	ping := &apipb.FeedPing{}
	m := newMirror("")
	for i, s := range []struct {
		frame *apipb.WatchFeedResponse
		want  outcome
		err   error
		holds string
	}{
		{frameOf(2, 0, ping), outcomeNothing, nil, ""},
		{frameOf(2, 4, delta(3, "", "a")), outcomeGap, nil, ""},
		{frameOf(2, 4, ping), outcomeGap, nil, ""},
		{frameOf(2, 4, snapshot("a", "b")), outcomeChanged, nil, "a b"},
		{frameOf(2, 5, delta(4, "a", "c")), outcomeChanged, nil, "b c"},
		{frameOf(2, 5, delta(4, "a", "c")), outcomeOld, nil, "b c"},     // twice
		{frameOf(2, 4, snapshot("a", "b")), outcomeOld, nil, "b c"},     // late
		{frameOf(2, 7, delta(6, "b")), outcomeGap, nil, "b c"},          // 6 is missing
		{frameOf(2, 6, delta(4, "b")), outcomeGap, nil, "b c"},          // it does not follow
		{frameOf(2, 3, ping), outcomeNothing, nil, "b c"},               // late
		{frameOf(2, 5, ping), outcomeNothing, nil, "b c"},               // as it is
		{frameOf(2, 6, ping), outcomeGap, nil, "b c"},                   // the last delta was lost
		{frameOf(2, 5, snapshot("b", "c")), outcomeChanged, nil, "b c"}, // told again
		{frameOf(1, 9, snapshot("x")), outcomeNothing, ErrStale, "b c"},
		{frameOf(1, 6, delta(5, "b")), outcomeNothing, ErrStale, "b c"},
		{frameOf(3, 6, delta(5, "b")), outcomeGap, nil, "b c"}, // of another term
		{frameOf(2, 6, delta(5, "b")), outcomeNothing, ErrStale, "b c"},
		{frameOf(3, 0, ping), outcomeNothing, nil, "b c"}, // nothing was published in it
		{frameOf(3, 1, snapshot()), outcomeChanged, nil, ""},
		{&apipb.WatchFeedResponse{Version: &apipb.FeedVersion{Cluster: "d", Term: 9}}, outcomeNothing, ErrForeign, ""},
		{&apipb.WatchFeedResponse{Version: &apipb.FeedVersion{Cluster: "c", Term: maxTerm + 1}}, outcomeNothing, ErrFrame, ""},
		{&apipb.WatchFeedResponse{}, outcomeNothing, ErrFrame, ""},
		{frameOf(3, 2, delta(1, "", "a", "a")), outcomeNothing, ErrFrame, ""},
	} {
		was := m.state
		got, err := m.take(s.frame, time.Unix(1e9, 0))
		var names []string
		for _, e := range m.state.Entries {
			names = append(names, e.Replica)
		}
		if got != s.want || !errors.Is(err, s.err) || strings.Join(names, " ") != s.holds {
			t.Fatalf("frame %d: %v, %v, holds %v; want %v, %v, %q", i, got, err, names, s.want, s.err, s.holds)
		}
		if (was != m.state) != (got == outcomeChanged) {
			t.Fatalf("frame %d: %v, and the state is another one: %t", i, got, was != m.state)
		}
	}
	if m.at() != (Version{Cluster: "c", Term: 3, Seq: 1}) {
		t.Error(m.at())
	}
}

// What comes of the disk is not all that there is: whatever follows it, everything is
// asked for.
func TestMirrorOfACopy(t *testing.T) {
	m := newMirror("")
	m.cluster, m.heard = "c", 2
	m.content = content{}
	m.state = m.content.state(Version{Cluster: "c", Term: 2, Seq: 4}, true, &State{})
	now := time.Unix(1e9, 0)
	for i, s := range []struct {
		frame *apipb.WatchFeedResponse
		want  outcome
	}{
		{frameOf(2, 0, &apipb.FeedPing{}), outcomeNothing}, // nothing was published yet
		{frameOf(2, 4, &apipb.FeedPing{}), outcomeGap},
		{frameOf(2, 5, &apipb.FeedDelta{Base: 4}), outcomeGap},
		{frameOf(2, 4, &apipb.FeedSnapshot{Statuses: []*apipb.FeedModelStatus{{Model: "m"}}}), outcomeChanged},
		{frameOf(2, 4, &apipb.FeedPing{}), outcomeNothing},
		{frameOf(2, 5, &apipb.FeedDelta{Base: 4}), outcomeChanged},
	} {
		if got, err := m.take(s.frame, now); got != s.want || err != nil {
			t.Fatalf("frame %d: %v, %v; want %v", i, got, err, s.want)
		}
	}
	if m.state.Unverified || len(m.state.Statuses) != 1 {
		t.Errorf("%+v", m.state)
	}
}

// Whatever a frame says, it is taken whole or not at all.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{}, []byte{1, 2})
	for _, s := range []any{&apipb.FeedSnapshot{Entries: replicas("a")}, &apipb.FeedDelta{Base: 1, Entries: replicas("b"), RemovedReplicas: []string{"a"}}} {
		data, err := proto.Marshal(frameOf(1, 2, s))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, data)
	}
	statuses, err := proto.Marshal(frameOf(1, 2, &apipb.FeedSnapshot{Statuses: []*apipb.FeedModelStatus{
		{Model: "n", State: apipb.FeedModelState_FEED_MODEL_STATE_FAILING, Reason: "why\n", Retry: durationpb.New(time.Second)}, {Model: "m", State: 99, Ready: durationpb.New(-1)},
	}}))
	if err != nil {
		f.Fatal(err)
	}
	change, err := proto.Marshal(frameOf(1, 3, &apipb.FeedDelta{Base: 2, Statuses: []*apipb.FeedModelStatus{{Model: "n"}}, RemovedStatuses: []string{"m"}}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(statuses, change)
	f.Fuzz(func(t *testing.T, first, second []byte) {
		m := newMirror("")
		for _, data := range [][]byte{first, second} {
			var frame apipb.WatchFeedResponse
			if proto.Unmarshal(data, &frame) != nil {
				continue
			}
			was := m.state
			got, err := m.take(&frame, time.Unix(1e9, 0))
			switch {
			case err != nil && !errors.Is(err, ErrFrame) && !errors.Is(err, ErrStale) && !errors.Is(err, ErrForeign):
				t.Fatalf("error %v of no class", err)
			case (err != nil || got != outcomeChanged) && m.state != was:
				t.Fatalf("%v, %v, and the state is another one", got, err)
			case got != outcomeChanged:
				continue
			}
			for _, e := range m.state.Entries {
				if err := e.Validate(); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.IsSortedFunc(m.state.Entries, func(a, b Entry) int { return strings.Compare(a.Replica, b.Replica) }) {
				t.Fatal("entries are not by replica")
			}
			if !slices.IsSortedFunc(m.state.Statuses, func(a, b ModelStatus) int { return strings.Compare(a.Model, b.Model) }) {
				t.Fatal("statuses are not by model")
			}
			for _, s := range m.state.Statuses {
				ready, retry := s.ReadyIn(s.At.Add(time.Second)), s.RetryIn(s.At)
				if !validModel(s.Model) || int(s.State) >= modelStates || s.Reason != shown(s.Reason) || ready.Or(0) < 0 || retry.Or(0) < 0 {
					t.Fatalf("%+v", s)
				}
			}
			// What is known can be kept, and read again.
			data, err := encodeCopy(m.state, m.heard, time.Unix(1e9, 0))
			if err != nil {
				continue // text that is not UTF-8
			}
			copied, err := decodeCopy(data)
			if err != nil || copied.version != m.state.Version || len(copied.content.entries) != len(m.state.Entries) || len(copied.content.models) != len(m.content.models) || len(copied.content.statuses) != 0 {
				t.Fatalf("%v: %+v", err, copied)
			}
		}
	})
}

// Whatever a report says of demand, what is known of it can be.
func FuzzDemand(f *testing.F) {
	half := 0.5
	for _, d := range []*apipb.FeedDemand{{Model: "m", Waiting: 1, Asked: durationpb.New(time.Second), Saturation: &half}, {Waiting: 1}, {Model: "m", Asked: durationpb.New(-1 << 62)}} {
		data, err := proto.Marshal(&apipb.ReportUseRequest{Demands: []*apipb.FeedDemand{d, d}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var req apipb.ReportUseRequest
		if proto.Unmarshal(data, &req) != nil {
			return
		}
		p, err := NewPublisher(DefaultPublisherConfig(), PublisherDeps{})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Lead("c", 1); err != nil {
			t.Fatal(err)
		}
		s, err := p.attach(&apipb.WatchFeedRequest{ProtocolLeast: 1, ProtocolMost: 1, Router: "r", Run: "x"}, "here")
		if err != nil {
			t.Fatal(err)
		}
		req.Number, req.Goodbye = 1, false
		if p.take(s, &req) != nil {
			return
		}
		all, _ := p.Demand(0)
		for i, d := range all {
			v := d.Saturation.Or(0)
			if !validModel(d.Model) || d.Waiting < 0 || d.Queued < 0 || d.Asked.Or(0) < 0 || !(v >= 0) || i > 0 && all[i-1].Model >= d.Model {
				t.Fatalf("%+v", all)
			}
		}
	})
}

// Whatever a file has in it, it is a copy or an error.
func FuzzCopies(f *testing.F) {
	m := newMirror("")
	if _, err := m.take(frameOf(1, 2, &apipb.FeedSnapshot{Entries: replicas("a"), Models: []*apipb.FeedModel{{Name: "m", Definition: []byte("name: m")}}}), time.Unix(1e9, 0)); err != nil {
		f.Fatal(err)
	}
	good, err := encodeCopy(m.state, 3, time.Unix(1e9, 0))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:20])
	f.Add([]byte("llmgw-feed 1 0 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := decodeCopy(data)
		if err != nil {
			if !errors.Is(err, ErrCopy) {
				t.Fatalf("error %v of no class", err)
			}
			return
		}
		if s.version.Term == 0 || s.heard < s.version.Term {
			t.Fatalf("%+v", s)
		}
	})
}
