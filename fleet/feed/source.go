package feed

import (
	"context"

	"github.com/llmgw/llmgw/fleet/apipb"
)

// Source is where a router gets the feed from: [Publisher.Local] in one process,
// [NewRemote] from another. A carrier of another kind is one, too.
type Source interface {
	// Name says for people where it is.
	Name() string
	// Open opens a stream, which ends with ctx at the latest. Its error, and those of
	// the stream, have a code of connect's where the publisher gave one.
	Open(ctx context.Context, req *apipb.WatchFeedRequest) (Stream, error)
}

// Stream is a router's stream. Report may be called at the same time as Receive;
// neither with itself.
type Stream interface {
	// Receive waits for the next frame, which nobody changes any more.
	Receive() (*apipb.WatchFeedResponse, error)
	// Report tells the publisher what the router does.
	Report(ctx context.Context, req *apipb.ReportUseRequest) error
	// Close ends the stream. It is called once, after the last Receive.
	Close()
}
