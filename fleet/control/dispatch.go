package control

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
	"github.com/llmgw/llmgw/fleet/internal/convert"
)

// Answer is what became of an order that was carried out, or is.
type Answer struct {
	// Already: it was done before, or nothing had to be done.
	Already bool
	// Status is the shard after it. Nil: the node has none.
	Status *engines.ShardStatus
	// Term and Generation are the highest that the node has heard of.
	Term, Generation uint64
}

// Stop is the order to end a shard.
type Stop struct {
	Shard engines.ShardID
	// Generation is ended, and it and those before are barred from being started.
	Generation uint64
	// Reason is for people and logs.
	Reason string
	// Drain is how long the engine may finish what it has before it is asked to
	// end. 0: it is asked at once.
	Drain time.Duration
}

// Start orders a node to start a shard. It returns when the node has begun, or
// why it has not: what becomes of the shard its statuses tell.
//
// The order is sent under the term of the moment on the node's newest stream, and
// again on each newer one and every Config.CommandRetry, until the node answers
// or ctx ends. The node does it once, however often it comes. A node without a
// stream is not waited for: nothing is sent to it.
//
// Errors wrap [ErrNotLeader], [ErrNotConnected], [ErrBusy], [ErrOrder]: nothing
// was sent; [ErrUnanswered] with the cause of ctx: it may have been done, and the
// same order again is safe; [ErrStale] ([StaleError]), [ErrRefused]
// ([RefusedError]): the node did nothing.
//
// Orders to different nodes do not wait for one another, nor do those to one.
func (p *Plane) Start(ctx context.Context, node string, spec engines.ShardSpec) (Answer, error) {
	order := convert.SpecToWire(spec)
	return p.order(ctx, &call{
		node: node, shard: spec.ID, generation: spec.Generation, kind: orderStart,
		order: func(c *fleetpb.Command) { c.Order = &fleetpb.Command_Start{Start: order} },
	})
}

// Stop orders a node to end a shard; see [Plane.Start].
func (p *Plane) Stop(ctx context.Context, node string, stop Stop) (Answer, error) {
	order := &fleetpb.StopShard{Replica: stop.Shard.Replica, Rank: convert.Rank(stop.Shard), Generation: stop.Generation, Reason: stop.Reason}
	if stop.Drain > 0 {
		order.Drain = durationpb.New(stop.Drain)
	}
	return p.order(ctx, &call{
		node: node, shard: stop.Shard, generation: stop.Generation, kind: orderStop,
		order: func(c *fleetpb.Command) { c.Order = &fleetpb.Command_Stop{Stop: order} },
	})
}

// Drain tells a node that a shard gets no more requests; see [Plane.Start].
func (p *Plane) Drain(ctx context.Context, node string, shard engines.ShardID, generation uint64) (Answer, error) {
	order := &fleetpb.DrainShard{Replica: shard.Replica, Rank: convert.Rank(shard), Generation: generation}
	return p.order(ctx, &call{
		node: node, shard: shard, generation: generation, kind: orderDrain,
		order: func(c *fleetpb.Command) { c.Order = &fleetpb.Command_Drain{Drain: order} },
	})
}

// Sleep has a shard's engine give the memory of its cards back and keep its weights
// in the node's memory, as the same process; see [Plane.Start]. What it still has to
// do is cut off. An agent of a version that knows nothing of it refuses.
func (p *Plane) Sleep(ctx context.Context, node string, shard engines.ShardID, generation uint64) (Answer, error) {
	order := &fleetpb.SleepShard{Replica: shard.Replica, Rank: convert.Rank(shard), Generation: generation}
	return p.order(ctx, &call{
		node: node, shard: shard, generation: generation, kind: orderSleep,
		order: func(c *fleetpb.Command) { c.Order = &fleetpb.Command_Sleep{Sleep: order} },
	})
}

// Wake undoes Sleep, and Drain; see [Plane.Start].
func (p *Plane) Wake(ctx context.Context, node string, shard engines.ShardID, generation uint64) (Answer, error) {
	order := &fleetpb.WakeShard{Replica: shard.Replica, Rank: convert.Rank(shard), Generation: generation}
	return p.order(ctx, &call{
		node: node, shard: shard, generation: generation, kind: orderWake,
		order: func(c *fleetpb.Command) { c.Order = &fleetpb.Command_Wake{Wake: order} },
	})
}

// orderKind is what is ordered, as metrics name it.
type orderKind uint8

const (
	_ orderKind = iota // unset
	orderStart
	orderStop
	orderDrain
	orderSleep
	orderWake

	orderKinds = int(orderWake) + 1
)

// String returns the value of the label.
func (k orderKind) String() string {
	return [...]string{"unset", "start", "stop", "drain", "sleep", "wake"}[k]
}

// call is an order that waits for its answer.
type call struct {
	node       string
	shard      engines.ShardID
	generation uint64
	kind       orderKind
	order      func(c *fleetpb.Command)

	id     uint64
	term   uint64 // of the last sending; caller's goroutine only
	answer chan *fleetpb.Answer
	newer  chan struct{} // has one element when the node has a newer stream
}

// firstCall is where the ids of commands begin: at random, so that an agent takes
// no command of this run of the control plane for one of an earlier run.
func firstCall() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:]) >> 2
}

func (p *Plane) order(ctx context.Context, c *call) (Answer, error) {
	begun := time.Now()
	answer, err := p.ask(ctx, c)
	p.metrics.ordered(c.kind, resultOf(answer, err), time.Since(begun))
	if err != nil {
		p.log.Debug("order was not carried out", "order", c.kind.String(), "node", c.node, "replica", c.shard.Replica, "rank", c.shard.Rank, "generation", c.generation, "err", err)
	}
	return answer, err
}

func (p *Plane) ask(ctx context.Context, c *call) (Answer, error) {
	if err := c.check(p.cfg); err != nil {
		return Answer{}, err
	}
	if err := p.enlist(c); err != nil {
		return Answer{}, err
	}
	defer p.discharge(c)
	if err := p.send(c); err != nil {
		return Answer{}, err
	}
	retry := time.NewTicker(p.cfg.CommandRetry)
	defer retry.Stop()
	for {
		select {
		case a := <-c.answer:
			return p.outcome(c, a)
		case <-ctx.Done():
			return Answer{}, fmt.Errorf("%w: node %s, shard %v: %w", ErrUnanswered, c.node, c.shard, context.Cause(ctx))
		case <-p.ended:
			return Answer{}, fmt.Errorf("%w: node %s, shard %v: %w", ErrUnanswered, c.node, c.shard, errEnding)
		case <-c.newer:
		case <-retry.C:
		}
		// Whether it was sent before is not undone by an error now: a later try, or
		// the end of ctx, tells.
		_ = p.send(c)
	}
}

// check refuses what no node could do.
func (c *call) check(cfg Config) error {
	if err := engines.ValidID(c.shard.Replica); err != nil {
		return fmt.Errorf("%w: shard %v: %w", ErrOrder, c.shard, err)
	}
	if c.shard.Rank < 0 || c.shard.Rank > 65535 {
		return fmt.Errorf("%w: shard %v: rank %d; want 0 to 65535", ErrOrder, c.shard, c.shard.Rank)
	}
	if c.generation == 0 {
		return fmt.Errorf("%w: shard %v: generation 0; want 1 or more", ErrOrder, c.shard)
	}
	m := new(fleetpb.Command)
	c.order(m)
	if n := proto.Size(m); n > cfg.MaxMessageBytes {
		return fmt.Errorf("%w: shard %v: %d bytes; want at most %d (max_message_bytes)", ErrOrder, c.shard, n, cfg.MaxMessageBytes)
	}
	return nil
}

// enlist gives the call its id, if there is room for it.
func (p *Plane) enlist(c *call) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.callsOf[c.node]) >= p.cfg.MaxCommandsPerNode {
		return fmt.Errorf("%w: node %s: %d", ErrBusy, c.node, len(p.callsOf[c.node]))
	}
	p.lastCall++
	c.id, c.answer, c.newer = p.lastCall, make(chan *fleetpb.Answer, 1), make(chan struct{}, 1)
	p.calls[c.id] = c
	if p.callsOf[c.node] == nil {
		p.callsOf[c.node] = map[*call]struct{}{}
	}
	p.callsOf[c.node][c] = struct{}{}
	return nil
}

func (p *Plane) discharge(c *call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.calls, c.id)
	delete(p.callsOf[c.node], c)
	if len(p.callsOf[c.node]) == 0 {
		delete(p.callsOf, c.node)
	}
}

// send puts the command into the queue of the node's newest stream.
func (p *Plane) send(c *call) error {
	m := p.deps.Authority.Mandate()
	if m.Level != Leader {
		return fmt.Errorf("%w: it is %v", ErrNotLeader, m.Level)
	}
	p.mu.Lock()
	n, found := p.fleet.nodes[c.node]
	var st *stream
	if found {
		st = n.stream
	}
	p.mu.Unlock()
	switch {
	case !found:
		return fmt.Errorf("%w: node %s is not known", ErrNotConnected, c.node)
	case st == nil:
		return fmt.Errorf("%w: node %s", ErrNotConnected, c.node)
	}
	command := &fleetpb.Command{Id: c.id, Cluster: m.Cluster, Term: m.Term}
	c.order(command)
	if !st.order(command) {
		return fmt.Errorf("%w: node %s does not read", ErrBusy, c.node)
	}
	c.term = m.Term
	return nil
}

// wakeCalls has the node's commands sent on its newer stream. p.mu is held.
func (p *Plane) wakeCalls(node string) {
	for c := range p.callsOf[node] {
		select {
		case c.newer <- struct{}{}:
		default:
		}
	}
}

// answered takes an answer of the stream's node.
func (p *Plane) answered(st *stream, m *fleetpb.Answer, now time.Time) error {
	if m.GetStatus() != nil {
		if err := p.status(st, m.GetStatus(), now); err != nil {
			return err
		}
	}
	var id string
	p.enter(st, now, func(n *node) {
		id = n.id
		c, waits := p.calls[m.GetCommand()]
		if !waits || c.node != id {
			return // one that was given up
		}
		select {
		case c.answer <- m:
		default: // it has one
		}
	})
	if mandate := p.deps.Authority.Mandate(); id != "" && m.GetTerm() > mandate.Term {
		p.deps.Authority.Outranked(id, m.GetTerm())
	}
	return nil
}

// outcome says what an answer means.
func (p *Plane) outcome(c *call, m *fleetpb.Answer) (Answer, error) {
	switch m.GetResult() {
	case fleetpb.Result_RESULT_BEGUN, fleetpb.Result_RESULT_ALREADY:
		answer := Answer{Already: m.GetResult() == fleetpb.Result_RESULT_ALREADY, Term: m.GetTerm(), Generation: m.GetGeneration()}
		if m.GetStatus() != nil {
			s, err := statusOf(m.GetStatus())
			if err != nil {
				return Answer{}, err
			}
			answer.Status = &s
		}
		return answer, nil
	case fleetpb.Result_RESULT_STALE:
		return Answer{}, &StaleError{Node: c.node, Shard: c.shard, SentTerm: c.term, Term: m.GetTerm(), SentGeneration: c.generation, Generation: m.GetGeneration()}
	case fleetpb.Result_RESULT_REFUSED, fleetpb.Result_RESULT_UNAVAILABLE:
		return Answer{}, &RefusedError{
			Node: c.node, Shard: c.shard, Again: m.GetResult() == fleetpb.Result_RESULT_UNAVAILABLE,
			Reason: cut(m.GetReason()), Advice: cut(m.GetAdvice()),
		}
	}
	return Answer{}, &RefusedError{
		Node: c.node, Shard: c.shard, Again: true,
		Reason: fmt.Sprintf("its answer %d says nothing that this version knows", m.GetResult()), Advice: "upgrade the control plane",
	}
}
