package feed

import (
	"context"

	"connectrpc.com/connect"

	"github.com/llmgw/llmgw/fleet/apipb"
)

// Local returns the publisher as the source of a router in the same process. What
// goes through it is what would go through a socket, and a report counts as one.
func (p *Publisher) Local() Source { return local{p} }

type local struct{ publisher *Publisher }

// Name implements [Source].
func (local) Name() string { return "this process" }

// Open implements [Source].
func (l local) Open(ctx context.Context, req *apipb.WatchFeedRequest) (Stream, error) {
	s, err := l.publisher.attach(req, "this process")
	if err != nil {
		return nil, err
	}
	return &localStream{ctx: ctx, session: s}, nil
}

type localStream struct {
	ctx     context.Context //nolint:containedctx // the stream ends with it
	session *session
}

// Receive implements [Stream].
func (s *localStream) Receive() (*apipb.WatchFeedResponse, error) {
	frame, err := s.session.next(s.ctx)
	return frame, bare(err)
}

// Report implements [Stream].
func (s *localStream) Report(ctx context.Context, req *apipb.ReportUseRequest) error {
	if err := ctx.Err(); err != nil {
		return connect.NewError(connect.CodeDeadlineExceeded, err)
	}
	return s.session.publisher.report(req, "this process", func(string) error { return nil })
}

// Close implements [Stream].
func (s *localStream) Close() { s.session.publisher.detach(s.session) }
