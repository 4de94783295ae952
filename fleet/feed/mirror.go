package feed

import (
	"time"

	"github.com/llmgw/llmgw/fleet/apipb"
)

// mirror is what a router knows of the feed, and how that follows from frames: it
// takes each frame whole, or refuses it and stays as it is. It does nothing else.
type mirror struct {
	content content
	state   *State // of the content
	cluster string // "": the first one that is heard of
	heard   uint64 // the highest term
}

func newMirror(cluster string) *mirror {
	return &mirror{state: &State{}, cluster: cluster}
}

// outcome is what became of a frame that was not refused.
type outcome uint8

const (
	outcomeNothing outcome = iota // it changed nothing
	outcomeOld                    // it came late, or twice
	outcomeChanged                // the state is another one
	outcomeGap                    // something before it is missing
)

// String returns the outcome as metrics name it.
func (o outcome) String() string { return [...]string{"nothing", "old", "changed", "gap"}[o] }

// at is the newest that was heard of.
func (m *mirror) at() Version {
	if m.heard > m.state.Version.Term {
		return Version{Cluster: m.cluster, Term: m.heard}
	}
	return m.state.Version
}

// take takes a frame that has come now. Errors are *VersionError, or wrap ErrFrame.
func (m *mirror) take(f *apipb.WatchFeedResponse, now time.Time) (outcome, error) {
	v, err := versionFromWire(f.GetVersion())
	if err != nil {
		return outcomeNothing, err
	}
	switch {
	case m.cluster != "" && v.Cluster != m.cluster:
		return outcomeNothing, &VersionError{Got: v, Have: Version{Cluster: m.cluster, Term: m.heard}, Cause: ErrForeign}
	case v.Term < m.heard:
		return outcomeNothing, &VersionError{Got: v, Have: Version{Cluster: m.cluster, Term: m.heard}, Cause: ErrStale}
	}
	var out outcome
	switch frame := f.GetFrame().(type) {
	case *apipb.WatchFeedResponse_Snapshot:
		out, err = m.replace(v, frame.Snapshot, now)
	case *apipb.WatchFeedResponse_Delta:
		out, err = m.change(v, frame.Delta, now)
	default: // a ping, a welcome, or what a newer version has besides
		out = m.compare(v)
	}
	if err == nil {
		m.cluster, m.heard = v.Cluster, v.Term
	}
	return out, err
}

// compare finds out whether the other side is further, or knows what a copy does not
// have.
func (m *mirror) compare(v Version) outcome {
	have := m.state.Version
	if v.Seq > 0 && (m.state.Unverified || v.Term > have.Term || v.Seq > have.Seq) {
		return outcomeGap
	}
	return outcomeNothing
}

func (m *mirror) replace(v Version, s *apipb.FeedSnapshot, now time.Time) (outcome, error) {
	if have := m.state.Version; v.Term == have.Term && v.Seq < have.Seq {
		return outcomeOld, nil
	}
	c, err := contentFromWire(s, now)
	if err != nil {
		return outcomeNothing, err
	}
	m.content, m.state = c, c.state(v, false, m.state)
	return outcomeChanged, nil
}

func (m *mirror) change(v Version, d *apipb.FeedDelta, now time.Time) (outcome, error) {
	have := m.state.Version
	switch {
	case v.Term == have.Term && v.Seq <= have.Seq:
		return outcomeOld, nil
	case m.state.Unverified || v.Term != have.Term || d.GetBase() != have.Seq || v.Seq != have.Seq+1:
		return outcomeGap, nil
	}
	news, err := contentFromWire(d, now)
	if err != nil {
		return outcomeNothing, err
	}
	was := m.content
	m.content = content{
		entries:  merged(was.entries, news.entries, d.GetRemovedReplicas(), entryKey),
		models:   merged(was.models, news.models, d.GetRemovedModels(), modelKey),
		revoked:  merged(was.revoked, news.revoked, d.GetRemovedRevocations(), revokedKey),
		statuses: merged(was.statuses, news.statuses, d.GetRemovedStatuses(), statusKey),
	}
	m.state = m.content.state(v, false, m.state)
	return outcomeChanged, nil
}
