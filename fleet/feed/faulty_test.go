package feed_test

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/feed"
)

// faulty is a stream over a bad network.
type faulty struct {
	feed.Stream

	cut *atomic.Bool // nothing passes, either way
	// fate says what becomes of a frame; nil: it arrives.
	fate func(*apipb.WatchFeedResponse) fate
	// lose says that a report is lost.
	lose func() bool

	late []*apipb.WatchFeedResponse
}

type fate uint8

const (
	arrives fate = iota
	isLost
	comesTwice
	comesAfterNext // it is overtaken
	isSlow
)

// Receive implements [feed.Stream].
func (f *faulty) Receive() (*apipb.WatchFeedResponse, error) {
	for {
		if len(f.late) > 0 && f.late[0] != nil {
			frame := f.late[0]
			f.late = f.late[1:]
			return frame, nil
		}
		frame, err := f.Stream.Receive()
		if err != nil {
			return nil, err
		}
		if f.cut != nil && f.cut.Load() {
			continue
		}
		what := arrives
		if f.fate != nil && frame.GetWelcome() == nil {
			what = f.fate(frame)
		}
		var overtaken []*apipb.WatchFeedResponse
		if len(f.late) > 0 { // nil, and what was overtaken by this one
			overtaken, f.late = f.late[1:], nil
		}
		switch what {
		case isLost:
			f.late = overtaken
			continue
		case comesTwice:
			f.late = append(overtaken, frame)
		case comesAfterNext:
			f.late = append([]*apipb.WatchFeedResponse{nil}, append(overtaken, frame)...)
			continue
		case isSlow:
			time.Sleep(700 * time.Millisecond)
			f.late = overtaken
		case arrives:
			f.late = overtaken
		}
		return frame, nil
	}
}

// Report implements [feed.Stream].
func (f *faulty) Report(ctx context.Context, req *apipb.ReportUseRequest) error {
	if f.cut != nil && f.cut.Load() || f.lose != nil && f.lose() {
		return connect.NewError(connect.CodeUnavailable, errors.New("no route"))
	}
	return f.Stream.Report(ctx, req)
}
