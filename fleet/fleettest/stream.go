package fleettest

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

var (
	errCut     = errors.New("fleettest: the stream was cut")
	errStopped = errors.New("fleettest: the agent was stopped")
	errRefused = errors.New("fleettest: the control plane is another cluster's")
	errSilent  = errors.New("fleettest: the control plane answers no heartbeat")
)

const (
	maxRefusals = 100
	// patience is how many heartbeats may have no answer.
	patience = 3
)

// stream holds one stream until it ends, and reports whether it was welcomed on
// it.
func (a *Agent) stream(ctx context.Context) (welcomed bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.mu.Lock()
	a.dials++
	a.end = cancel
	hello := a.hello()
	a.mu.Unlock()
	s, err := fleetpb.NewAgentServiceClient(a.client, a.cfg.URL).Connect(ctx)
	if err == nil {
		// net/http heeds the end of ctx only when the request's body has ended, which
		// is that of a stream's.
		ended := context.AfterFunc(ctx, func() { _ = s.CloseRequest() })
		err = a.talk(ctx, s, hello)
		ended()
		_ = s.CloseRequest()
		_ = s.CloseResponse()
	}
	cancel(err)
	a.mu.Lock()
	defer a.mu.Unlock()
	welcomed = a.welcomed
	a.end, a.out, a.welcomed = nil, nil, false
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	if a.refusals = append(a.refusals, err); len(a.refusals) > maxRefusals {
		a.refusals = a.refusals[1:]
	}
	return welcomed
}

type agentStream = connect.BidiStreamForClientSimple[fleetpb.ConnectRequest, fleetpb.ConnectResponse]

// talk registers and then does what it is told.
func (a *Agent) talk(ctx context.Context, s *agentStream, hello *fleetpb.ConnectRequest) error {
	if err := s.Send(hello); err != nil {
		// What the control plane says is the reason, not that the pipe is closed.
		_, received := s.Receive()
		return errors.Join(received, err)
	}
	first, err := s.Receive()
	if err != nil {
		return err
	}
	out := newLine(func(m *fleetpb.ConnectRequest) error { return s.Send(m) })
	in := newLine(func(m *fleetpb.ConnectResponse) error { a.handle(m); return nil })
	if err := a.welcome(first.GetWelcome(), out); err != nil {
		return err
	}
	// A sender that fails, a silent control plane, a cut: all end the stream, and
	// with it the loop below.
	ctx, end := context.WithCancelCause(ctx)
	done := make(chan struct{}, 3)
	defer func() {
		end(nil)
		for range cap(done) {
			<-done
		}
	}()
	spawn := func(f func(context.Context) error) {
		go func() {
			if err := f(ctx); err != nil {
				a.mu.Lock()
				a.cut(err)
				a.mu.Unlock()
			}
			done <- struct{}{}
		}()
	}
	spawn(out.run)
	spawn(in.run)
	spawn(a.beats)
	for {
		m, err := s.Receive()
		if err != nil {
			return err
		}
		a.mu.Lock()
		dues := a.dues()
		a.mu.Unlock()
		for _, due := range dues {
			in.put(m, due)
		}
	}
}

// welcome notes whom the agent belongs to, and which ports its engines get. Its
// address is its id, on whichever interface.
func (a *Agent) welcome(w *fleetpb.Welcome, out *lineOf[*fleetpb.ConnectRequest]) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w == nil || a.cluster != "" && a.cluster != w.GetCluster() {
		return errRefused
	}
	a.cluster, a.term = w.GetCluster(), max(a.term, w.GetTerm())
	a.heartbeat = max(w.GetHeartbeat().AsDuration(), time.Millisecond)
	a.out, a.welcomed = out, true
	a.connects = append(a.connects, time.Now())
	if said := w.GetPortRange(); said != nil && !proto.Equal(said, a.ports) {
		a.ports = said
		a.send(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Reach{Reach: &fleetpb.Reach{Address: a.id, Ports: said}}})
	}
	return nil
}

// beats sends heartbeats, until one is not answered for too long.
func (a *Agent) beats(ctx context.Context) error {
	a.mu.Lock()
	every := a.heartbeat
	a.lastBeat = time.Now()
	a.mu.Unlock()
	t := time.NewTicker(every)
	defer t.Stop()
	for sequence := uint64(1); ; sequence++ {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		a.mu.Lock()
		silence := time.Since(a.lastBeat)
		a.send(a.beat(sequence))
		a.asked, a.sequence = time.Now(), sequence
		a.mu.Unlock()
		if silence > patience*every {
			return errSilent
		}
	}
}

// handle does what the control plane says.
func (a *Agent) handle(m *fleetpb.ConnectResponse) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case m.GetCommand() != nil:
		a.send(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Answer{Answer: a.command(m.GetCommand())}})
	case m.GetLook() != nil:
		a.look(m.GetLook())
	case m.GetBeat() != nil:
		a.lastBeat = time.Now()
		if a.cfg.Beat != nil && m.GetBeat().GetSequence() == a.sequence {
			a.cfg.Beat(a.id, a.lastBeat.Sub(a.asked))
		}
		for _, name := range m.GetBeat().GetResend() {
			if id, err := engines.ParseShardID(name); err == nil && a.shards[id] != nil {
				a.report(a.shards[id])
			}
		}
	}
}

// look answers what is asked about weights, as far as the node does; a.mu is held.
func (a *Agent) look(l *fleetpb.Look) {
	var found []*fleetpb.WeightsFound
	for _, wanted := range l.GetWanted() {
		if f := a.cfg.Weights(a.id, wanted); f != nil {
			f.Key = wanted.GetKey()
			found = append(found, f)
		}
	}
	a.send(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Weights{Weights: &fleetpb.Weights{Found: found}}})
}

// send hands a message to the stream, if there is one, with what faults make of it;
// a.mu is held.
func (a *Agent) send(m *fleetpb.ConnectRequest) {
	if a.out == nil {
		return
	}
	for _, due := range a.dues() {
		a.out.put(m, due)
	}
}

// dues are the times at which a message is passed on: none, once or twice; a.mu is
// held.
func (a *Agent) dues() []time.Time {
	f, now := a.faults, time.Now()
	switch {
	case a.silent:
		return nil
	case f == Faults{}:
		return []time.Time{now}
	}
	var out []time.Time
	if a.rand.Float64() >= f.Drop {
		out = append(out, now.Add(time.Duration(a.rand.Float64()*float64(f.Delay))))
	}
	if a.rand.Float64() < f.Duplicate {
		out = append(out, now.Add(time.Duration(a.rand.Float64()*float64(f.Delay))))
	}
	return out
}
