package kvevents

// tracker decides what the sequence numbers of a rank mean. It is pure; times
// and connections are the follower's.
//
// On one connection a publisher's numbers only grow: one that does not has
// started anew (behind a forwarder, which keeps the connection). Replay may run
// ahead of the connection; what it brought comes again and is skipped.
type tracker struct {
	last int64 // the last that was applied; -1: nothing is known
	live int64 // the last on this connection; -1: none yet
}

func newTracker() tracker { return tracker{last: -1, live: -1} }

// verdict says what to do about a message.
type verdict uint8

const (
	verdictApply   verdict = iota + 1 // it is next, or the first of all
	verdictSkip                       // replay has brought it
	verdictGap                        // others are missing before it
	verdictRestart                    // its engine counts from the beginning
)

// see judges the number of a message that came on the connection.
func (t *tracker) see(seq int64) verdict {
	if seq <= t.live {
		t.live = seq
		return verdictRestart
	}
	t.live = seq
	switch {
	case seq == t.last+1:
		return verdictApply
	case seq <= t.last:
		return verdictSkip
	default:
		return verdictGap
	}
}

// connected begins a connection.
func (t *tracker) connected() { t.live = -1 }

// forget says that nothing is known.
func (t *tracker) forget() { t.last = -1 }

// known reports whether anything was applied that still holds.
func (t *tracker) known() bool { return t.last >= 0 }
