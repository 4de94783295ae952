package feed

import (
	"errors"
	"fmt"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/apipb"
)

// Errors of frames, found by errors.Is.
var (
	// ErrStale: it is of a lower term than one that was heard of: its sender led
	// once, and does not know that it leads no more.
	ErrStale = errors.New("feed: of a lower term")
	// ErrForeign: it is of another cluster.
	ErrForeign = errors.New("feed: of another cluster")
	// ErrFrame: it says what cannot be.
	ErrFrame = errors.New("feed: not a frame that can be used")
)

// Version says how new something is. Of two terms the higher one counts; within a
// term, the higher sequence. The zero Version is of nothing.
type Version struct {
	Cluster string
	Term    uint64
	Seq     uint64 // goes up by one with each change, from 1
}

// String returns cluster/term/seq, or "none".
func (v Version) String() string {
	if v == (Version{}) {
		return "none"
	}
	return fmt.Sprintf("%s/%d/%d", v.Cluster, v.Term, v.Seq)
}

// VersionError says that a frame was refused for what it is of.
type VersionError struct {
	Got, Have Version
	// Cause is ErrStale or ErrForeign.
	Cause error
}

// Error names both versions, and what to do.
func (e *VersionError) Error() string {
	if errors.Is(e.Cause, ErrForeign) {
		return fmt.Sprintf("%v: %q, and this router follows %q; remove the router's copy of the feed if it is to follow another", e.Cause, e.Got.Cluster, e.Have.Cluster)
	}
	return fmt.Sprintf("%v: %d, and %d was heard of; another control plane leads", e.Cause, e.Got.Term, e.Have.Term)
}

// Unwrap returns the cause.
func (e *VersionError) Unwrap() error { return e.Cause }

// maxTerm bounds the term that is believed: with a term a second it is reached
// after thirty thousand years, and there is no way back from one.
const maxTerm = 1 << 40

func (v Version) wire() *apipb.FeedVersion {
	return &apipb.FeedVersion{Cluster: v.Cluster, Term: v.Term, Seq: v.Seq}
}

// versionFromWire reads a version that is of something. The error wraps ErrFrame.
func versionFromWire(w *apipb.FeedVersion) (Version, error) {
	v := Version{Cluster: w.GetCluster(), Term: w.GetTerm(), Seq: w.GetSeq()}
	if err := engines.ValidID(v.Cluster); err != nil {
		return Version{}, fmt.Errorf("%w: its cluster: %w", ErrFrame, err)
	}
	if v.Term == 0 || v.Term > maxTerm {
		return Version{}, fmt.Errorf("%w: term %d; want 1 to %d", ErrFrame, v.Term, uint64(maxTerm))
	}
	return v, nil
}
