package feed

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/apipb"
)

// session is a router's stream at the publisher's end.
type session struct {
	publisher *Publisher
	id        string // random: whoever has it has the stream
	router    *router
	remote    string
	wake      chan struct{} // has an element when there is something for next
	over      chan struct{} // closed when it is to end

	welcomed bool                       // guarded by publisher.mu
	owed     bool                       // a snapshot, which has all that was queued; guarded by publisher.mu
	queue    []*apipb.WatchFeedResponse // deltas, bounded by PublisherConfig.MaxQueue; guarded by publisher.mu
	weight   int                        // entries, models and statuses of the queue; guarded by publisher.mu
	sent     *apipb.FeedVersion         // of the frame before; guarded by publisher.mu
	number   uint64                     // of the last report; guarded by publisher.mu
	cause    error                      // why it ends; guarded by publisher.mu
}

// attach lets a router in, or says why not.
func (p *Publisher) attach(req *apipb.WatchFeedRequest, remote string) (*session, error) {
	p.mu.Lock()
	s, err := p.admit(req, remote)
	term := p.term
	p.mu.Unlock()
	if r, ok := errors.AsType[*refusal](err); ok && r.reason == reasonOutranked && p.deps.Outranked != nil {
		p.deps.Outranked(req.GetRouter(), req.GetTerm())
	}
	if err != nil {
		return nil, p.refused(printable(req.GetRouter()), remote, err)
	}
	p.log.Info("router follows", "router", s.router.key.name, "run", s.router.key.run, "remote", remote, "software", s.router.software, "heard_term", req.GetTerm(), "term", term)
	return s, nil
}

// admit needs p.mu.
func (p *Publisher) admit(req *apipb.WatchFeedRequest, remote string) (*session, error) {
	key := routerKey{name: req.GetRouter(), run: req.GetRun()}
	if err := engines.ValidID(key.name); err != nil {
		return nil, refuse(reasonInvalid, fmt.Errorf("feed: router: %w", err))
	}
	if key.run == "" || len(key.run) > 64 || !plain(key.run) || len(req.GetSoftware()) > MaxTextBytes || !plain(req.GetSoftware()) || req.GetTerm() > maxTerm {
		return nil, refuse(reasonInvalid, errors.New("feed: its run, software or term is missing or cannot be"))
	}
	switch {
	case req.GetProtocolLeast() > protocol || req.GetProtocolMost() < protocol:
		return nil, refuse(reasonProtocol, fmt.Errorf("feed: the router speaks versions %d to %d of the protocol, this control plane %d; upgrade the older one",
			req.GetProtocolLeast(), req.GetProtocolMost(), protocol))
	case !p.leads:
		return nil, refuse(reasonStandby, errStandby)
	case req.GetCluster() != "" && req.GetCluster() != p.cluster:
		return nil, refuse(reasonCluster, fmt.Errorf("feed: the router follows cluster %.80q, and this is %q; remove its copy of the feed if it is to follow this one", req.GetCluster(), p.cluster))
	case req.GetTerm() > p.term:
		return nil, refuse(reasonOutranked, fmt.Errorf("feed: the router has heard of term %d, and this is %d; it is taken when this control plane leads in a higher one", req.GetTerm(), p.term))
	}
	r := p.routers[key]
	if r == nil {
		if len(p.routers) >= p.cfg.MaxRouters {
			return nil, refuse(reasonFull, fmt.Errorf("feed: %d routers live, which max_routers allows", len(p.routers)))
		}
		r = &router{key: key, heard: p.clock.at(p.now()), since: time.Now()}
		p.routers[key] = r
	}
	if r.session != nil {
		r.session.stop(refuse(reasonReplaced, errReplaced))
	}
	s := &session{publisher: p, id: rand.Text(), router: r, remote: remote, wake: make(chan struct{}, 1), over: make(chan struct{}), owed: true}
	r.session, r.remote, r.software = s, remote, req.GetSoftware()
	p.sessions[s.id] = s
	p.changed()
	return s, nil
}

// detach ends a session whose stream is over. The router is not forgotten: it may
// serve on, until its lease is over.
func (p *Publisher) detach(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.stop(refuse(reasonSession, errSession))
	delete(p.sessions, s.id)
	if s.router.session == s {
		s.router.session = nil
		p.changed()
	}
}

// stop ends the session with an error for the router; the first counts. p.mu is
// held.
func (s *session) stop(cause error) {
	if s.cause == nil {
		s.cause = cause
		s.queue = nil
		close(s.over)
	}
}

// push queues a delta. If what waits has come to be more than everything is, then
// that is sent in its place. p.mu is held.
func (s *session) push(frame *apipb.WatchFeedResponse) {
	if s.cause != nil || s.owed { // what is owed will have it
		s.ring()
		return
	}
	p := s.publisher
	s.queue, s.weight = append(s.queue, frame), s.weight+weight(frame)
	if len(s.queue) > p.cfg.MaxQueue || len(s.queue) > 1 && s.weight > len(p.table.entries)+len(p.table.models)+len(p.table.statuses) {
		p.metrics.overflows.Inc()
		s.owe()
	}
	s.ring()
}

// weight is how much a delta brings.
func weight(frame *apipb.WatchFeedResponse) int {
	return len(frame.GetDelta().GetEntries()) + len(frame.GetDelta().GetModels()) + len(frame.GetDelta().GetStatuses())
}

// owe has everything sent, in place of what is queued. p.mu is held.
func (s *session) owe() {
	s.owed, s.queue, s.weight = true, nil, 0
	s.ring()
}

func (s *session) ring() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// next waits for the next frame to send: what is new, or a ping.
func (s *session) next(ctx context.Context) (*apipb.WatchFeedResponse, error) {
	ping := time.NewTimer(Ping)
	defer ping.Stop()
	for idle := false; ; {
		frame, err := s.take(idle)
		if frame != nil || err != nil {
			return frame, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-s.over:
		case <-s.wake:
		case <-ping.C:
			idle = true
		}
	}
}

// take returns the next frame, or nil if there is nothing to say; of an idle
// session a ping is.
func (s *session) take(idle bool) (*apipb.WatchFeedResponse, error) {
	p := s.publisher
	p.mu.Lock()
	defer p.mu.Unlock()
	var frame *apipb.WatchFeedResponse
	switch {
	case s.cause != nil:
		return nil, s.cause
	case !s.welcomed:
		s.welcomed = true
		frame = p.welcome(s)
	case s.owed && p.seq > 0:
		s.owed = false
		frame = p.whole()
		p.metrics.snapshots.Inc()
	case len(s.queue) > 0:
		frame = s.queue[0]
		s.weight -= weight(frame)
		if s.queue = s.queue[1:]; len(s.queue) == 0 {
			s.queue = nil
		}
	case idle:
		frame = &apipb.WatchFeedResponse{Version: s.sent, Frame: &apipb.WatchFeedResponse_Ping{Ping: &apipb.FeedPing{}}}
		if s.owed { // nothing was published in this term yet
			frame.Version = p.version().wire()
		}
	default:
		return nil, nil //nolint:nilnil // there is nothing to say
	}
	s.sent = frame.GetVersion()
	return frame, nil
}

// printable is a name as it may stand in a log.
func printable(name string) string {
	if len(name) > MaxTextBytes || !plain(name) {
		return "(not printable)"
	}
	return name
}
