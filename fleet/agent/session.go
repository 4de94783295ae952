package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
	"github.com/llmgw/llmgw/fleet/internal/convert"
)

// goodbyeTimeout bounds how long an agent that ends may take to say so.
const goodbyeTimeout = 500 * time.Millisecond

// The heartbeat that a control plane may ask for.
const (
	leastHeartbeat = 50 * time.Millisecond
	mostHeartbeat  = time.Minute
)

// session is one stream, from the dial to its end.
type session struct {
	log    *slog.Logger
	number uint64
	outbox *outbox

	// What the agent tells and does.
	hello     func(context.Context) *fleetpb.Hello
	beat      func(sequence uint64) *fleetpb.Heartbeat
	inventory func() *fleetpb.Inventory
	status    func(engines.ShardID) (engines.ShardStatus, bool)
	reach     func() *fleetpb.Reach
	join      func(ctx context.Context, cluster string, term uint64, said defaults) error
	order     func(order)
	look      func(session uint64, wanted []*fleetpb.WeightsWanted)
	answer    func(order, fleetpb.Result, string, string)
	paced     func(heartbeat time.Duration)

	welcomed chan time.Duration // the heartbeat that is wanted; has room for one
	silence  *time.Timer        // ends the session; hold makes it
	patience atomic.Int64       // of silence; 0 until the node is welcome
	worked   atomic.Bool        // a heartbeat was answered
}

// end makes sure that nothing of the session counts any more.
func (s *session) end() { s.outbox.open(0) }

// hold speaks over one stream until it ends. The error is never nil, but for an
// agent that ends.
func (s *session) hold(ctx context.Context, client fleetpb.AgentServiceClient, timeout time.Duration) error {
	// The stream outlives ctx by the time that a goodbye takes.
	streaming, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(errOver)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(goodbyeTimeout, func() { cancel(errEnding) }) })
	defer stop()
	unwelcome := time.AfterFunc(timeout, func() { cancel(errUnwelcome) })
	defer unwelcome.Stop()
	s.silence = time.AfterFunc(time.Duration(1<<63-1), func() {
		cancel(fmt.Errorf("%w for %v", errSilent, time.Duration(s.patience.Load())))
	})
	defer s.silence.Stop()

	stream, err := client.Connect(streaming)
	if err != nil {
		return s.cause(streaming, err)
	}
	received := make(chan struct{})
	sent := make(chan error, 1)
	hello := s.hello(ctx)
	go func() {
		defer close(received)
		err := s.receive(streaming, stream)
		cancel(err)
	}()
	go func() { sent <- s.send(ctx, streaming, stream, hello, unwelcome) }()
	err = <-sent
	if ctx.Err() != nil {
		// The control plane has heard of it when it ends its side.
		select {
		case <-received:
		case <-streaming.Done():
		}
	}
	cancel(describe(err))
	_ = stream.CloseRequest()
	_ = stream.CloseResponse()
	<-received
	return s.cause(streaming, err)
}

// cause is why a stream ended: what the control plane said of it, or this side.
func (s *session) cause(streaming context.Context, err error) error {
	if why := context.Cause(streaming); why != nil && !errors.Is(why, errOver) {
		return why
	}
	return describe(err)
}

// send is all that is written to the stream, by one goroutine.
func (s *session) send(ctx, streaming context.Context, stream *connect.BidiStreamForClientSimple[fleetpb.ConnectRequest, fleetpb.ConnectResponse],
	hello *fleetpb.Hello, unwelcome *time.Timer,
) error {
	if err := stream.Send(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Hello{Hello: hello}}); err != nil {
		return s.failed(streaming, err)
	}
	var heartbeat time.Duration
	select {
	case heartbeat = <-s.welcomed:
	case <-streaming.Done():
		return context.Cause(streaming)
	case <-ctx.Done():
		return nil
	}
	unwelcome.Stop()
	s.patience.Store(int64(silentBeats * heartbeat))
	s.silence.Reset(silentBeats * heartbeat)
	s.paced(heartbeat)
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for sequence := uint64(1); ; {
		var messages []*fleetpb.ConnectRequest
		select {
		case <-ticker.C:
			messages = append(messages, &fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Heartbeat{Heartbeat: s.beat(sequence)}})
			sequence++
		case <-s.outbox.wake:
			messages = s.news()
		case <-streaming.Done():
			return context.Cause(streaming)
		case <-ctx.Done():
			bye := &fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Goodbye{Goodbye: &fleetpb.Goodbye{Reason: "the agent ends; its engines run on"}}}
			return errors.Join(stream.Send(bye), stream.CloseRequest())
		}
		for _, m := range messages {
			if err := stream.Send(m); err != nil {
				return s.failed(streaming, err)
			}
		}
	}
}

// news are the messages of what the outbox has.
func (s *session) news() []*fleetpb.ConnectRequest {
	news := s.outbox.take()
	var out []*fleetpb.ConnectRequest
	if news.reach {
		out = append(out, &fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Reach{Reach: s.reach()}})
	}
	if news.inventory {
		out = append(out, &fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Inventory{Inventory: s.inventory()}})
	}
	for _, id := range news.shards {
		if status, ok := s.status(id); ok {
			out = append(out, &fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Status{Status: statusOf(status, statusLineBytes)}})
		}
	}
	out = append(out, weightsOf(news.weights)...)
	for _, a := range news.answers {
		out = append(out, &fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Answer{Answer: a}})
	}
	return out
}

// failed waits for the reason of a stream that takes nothing any more, which
// only receiving tells.
func (s *session) failed(streaming context.Context, err error) error {
	if errors.Is(err, io.EOF) {
		<-streaming.Done()
		return context.Cause(streaming)
	}
	return err
}

// accept takes a welcome at its word, or says why the control plane is not this
// node's.
func (s *session) accept(ctx context.Context, w *fleetpb.Welcome) (heartbeat time.Duration, err error) {
	heartbeat, err = convert.DurationFromWire("heartbeat", w.GetHeartbeat())
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w: %w", errForeign, err)
	case w.GetProtocol() < protocolLeast || w.GetProtocol() > protocolMost:
		return 0, fmt.Errorf("%w: it speaks version %d of the protocol, this agent %d to %d", errForeign, w.GetProtocol(), protocolLeast, protocolMost)
	case heartbeat < leastHeartbeat || heartbeat > mostHeartbeat:
		return 0, fmt.Errorf("%w: it asks for a heartbeat each %v; want %v to %v", errForeign, heartbeat, leastHeartbeat, mostHeartbeat)
	}
	if err := engines.ValidID(w.GetCluster()); err != nil {
		return 0, fmt.Errorf("%w: its cluster: %w", errForeign, err)
	}
	said, err := defaultsOf(w)
	if err != nil {
		s.log.Warn("the control plane says of this node what cannot be, which is left out", "err", err)
	}
	if err := s.join(ctx, w.GetCluster(), w.GetTerm(), said); err != nil {
		return 0, fmt.Errorf("%w: %w", errForeign, err)
	}
	s.log.Info("the control plane welcomes this node", "cluster", w.GetCluster(), "term", w.GetTerm(), "heartbeat", heartbeat.String())
	return heartbeat, nil
}

// receive reads the stream until it ends.
func (s *session) receive(ctx context.Context, stream *connect.BidiStreamForClientSimple[fleetpb.ConnectRequest, fleetpb.ConnectResponse]) error {
	welcome := false
	for {
		m, err := stream.Receive()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errOver
			}
			return err
		}
		switch message := m.GetMessage().(type) {
		case *fleetpb.ConnectResponse_Welcome:
			if welcome {
				return fmt.Errorf("%w: it welcomes the node twice", errForeign)
			}
			welcome = true
			// No order counts before the cluster and the term do.
			heartbeat, err := s.accept(ctx, message.Welcome)
			if err != nil {
				return err
			}
			s.welcomed <- heartbeat
		case *fleetpb.ConnectResponse_Command:
			if welcome {
				s.command(message.Command)
			}
		case *fleetpb.ConnectResponse_Beat:
			s.beaten(message.Beat)
		case *fleetpb.ConnectResponse_Look:
			if welcome {
				s.look(s.number, message.Look.GetWanted())
			}
		default: // of a version that knows more
		}
	}
}

// command gives an order to who decides about it.
func (s *session) command(c *fleetpb.Command) {
	o, err := orderOf(s.number, c)
	if err != nil {
		s.log.Error("a command says what cannot be", "command", c.GetId(), "err", err)
		s.answer(o, fleetpb.Result_RESULT_REFUSED, err.Error(), "the control plane and the agent may be of different versions")
		return
	}
	s.order(o)
}

// beaten notes that the control plane lives.
func (s *session) beaten(b *fleetpb.Beat) {
	patience := time.Duration(s.patience.Load())
	if patience == 0 {
		return // it answers what was not said
	}
	if s.worked.CompareAndSwap(false, true) {
		s.log.Info("the link to the control plane works")
	}
	s.silence.Reset(patience)
	for _, name := range b.GetResend() {
		if id, err := engines.ParseShardID(name); err == nil {
			s.outbox.changed(id)
		}
	}
}
