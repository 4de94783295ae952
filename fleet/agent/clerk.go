package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// pendingOrders bounds the orders that wait for the disk; more are answered that
// the node cannot.
const pendingOrders = 1024

// errStateSlow says that the disk did not keep an order in time.
var errStateSlow = errors.New("the disk does not answer")

// clerk takes orders, one after the other: it decides, makes sure that what it
// decided is not forgotten, and hands the order on. It alone changes the memory.
// A disk that is full, slow or dead stops it, and nothing else of the agent.
type clerk struct {
	log     *slog.Logger
	save    func(memory) error
	timeout time.Duration // bounds one save
	keep    time.Duration

	// has says what is here of a shard. hand gives the order to the shard; the
	// shard answers. answer answers an order that goes no further. heed is told of
	// other defaults when they are kept, and does not block.
	has    func(engines.ShardID) presence
	hand   func(order)
	answer func(order, fleetpb.Result, string, string)
	heed   func(defaults)

	orders   chan order
	welcomes chan welcome

	memory memory     // Run goroutine only
	saving chan error // Run goroutine only; nil: nothing is being saved
	next   memory     // Run goroutine only; what is being saved
	said   atomic.Pointer[memory]
	// trouble is why nothing can be kept; empty: it can.
	trouble atomic.Pointer[string]
}

// welcome is what a control plane said of itself.
type welcome struct {
	cluster string
	term    uint64
	said    defaults
	reply   chan error // with room for one
}

func newClerk(m memory, log *slog.Logger, save func(memory) error, timeout, keep time.Duration) *clerk {
	c := &clerk{
		log: log, save: save, timeout: timeout, keep: keep, memory: m,
		orders: make(chan order, pendingOrders), welcomes: make(chan welcome),
	}
	c.said.Store(&m)
	c.trouble.Store(new(string))
	return c
}

// knows returns the memory as it is kept. Nobody may change it.
func (c *clerk) knows() memory { return *c.said.Load() }

// unable returns why nothing can be kept now; empty: it can.
func (c *clerk) unable() string { return *c.trouble.Load() }

// take gives the clerk an order. It never blocks.
func (c *clerk) take(o order) {
	select {
	case c.orders <- o:
	default:
		c.answer(o, fleetpb.Result_RESULT_UNAVAILABLE, "too many orders wait for the agent's disk", "see whether the disk of its state directory answers")
	}
}

// join tells the clerk of a control plane that welcomed the node. The error says
// why it is not the node's.
func (c *clerk) join(ctx context.Context, cluster string, term uint64, said defaults) error {
	w := welcome{cluster: cluster, term: term, said: said, reply: make(chan error, 1)}
	select {
	case c.welcomes <- w:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-w.reply:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run works until ctx is done.
func (c *clerk) run(ctx context.Context) {
	forget := time.NewTicker(10 * time.Minute)
	defer forget.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-c.orders:
			c.decide(ctx, o)
		case w := <-c.welcomes:
			w.reply <- c.welcomed(ctx, w)
		case err := <-c.saving:
			_ = c.saved(err) // which has noted it
		case <-forget.C:
			c.settle()
			kept := c.memory.forget(time.Now(), c.keep, func(id engines.ShardID) bool { return c.has(id).Here })
			if err := c.persist(ctx, kept); err != nil {
				c.log.Warn("what is over could not be forgotten on the disk", "err", err)
			}
		}
	}
}

func (c *clerk) decide(ctx context.Context, o order) {
	c.settle()
	next, d := apply(c.memory, o, c.has(o.Shard), time.Now())
	if err := c.persist(ctx, next); err != nil {
		c.answer(o, fleetpb.Result_RESULT_UNAVAILABLE, fmt.Sprintf("the order could not be kept, and so is not done: %v", err),
			"make room on, or mend, the disk of the agent's state directory; its engines run on")
		return
	}
	c.log.Info("order", "order", o.Kind.String(), "shard", o.Shard.String(), "generation", o.Generation, "term", o.Term,
		"verdict", d.Verdict.String(), "why", d.Reason, "reason", o.Reason)
	switch d.Verdict {
	case verdictAct:
		c.hand(o)
	case verdictAlready:
		c.answer(o, fleetpb.Result_RESULT_ALREADY, d.Reason, d.Advice)
	case verdictStale:
		c.answer(o, fleetpb.Result_RESULT_STALE, d.Reason, d.Advice)
	case verdictLater:
		c.answer(o, fleetpb.Result_RESULT_UNAVAILABLE, d.Reason, d.Advice)
	case verdictRefuse:
		c.answer(o, fleetpb.Result_RESULT_REFUSED, d.Reason, d.Advice)
	}
}

// welcomed joins a cluster. One that cannot be kept is joined for the time being:
// no order is done before it can.
func (c *clerk) welcomed(ctx context.Context, w welcome) error {
	c.settle()
	next, err := c.memory.join(w.cluster, w.term, w.said)
	if err != nil {
		return err
	}
	if err := c.persist(ctx, next); err != nil {
		c.log.Warn("what the control plane says of itself could not be kept; orders are answered that the node cannot until it can", "err", err)
	}
	return nil
}

// persist makes next the memory once it is kept. While a save is under way that
// took too long, it fails at once.
func (c *clerk) persist(ctx context.Context, next memory) error {
	if c.memory.equal(next) {
		return nil
	}
	if c.saving != nil {
		return c.troubled(errStateSlow)
	}
	c.saving, c.next = make(chan error, 1), next
	go func(result chan<- error) { result <- c.save(next) }(c.saving)
	timer := time.NewTimer(c.timeout)
	defer timer.Stop()
	select {
	case err := <-c.saving:
		return c.saved(err)
	case <-timer.C:
		return c.troubled(fmt.Errorf("%w for %v", errStateSlow, c.timeout))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// settle ends a save that took too long, if it has ended.
func (c *clerk) settle() {
	select {
	case err := <-c.saving:
		_ = c.saved(err) // which has noted it
	default:
	}
}

// saved ends a save.
func (c *clerk) saved(err error) error {
	c.saving = nil
	if err != nil {
		return c.troubled(err)
	}
	if c.unable() != "" {
		c.log.Info("orders can be kept again")
		c.trouble.Store(new(string))
	}
	before := c.memory.Defaults
	c.memory = c.next
	c.said.Store(new(c.next))
	if c.memory.Defaults != before {
		c.heed(c.memory.Defaults)
	}
	return nil
}

// troubled notes why nothing can be kept, and returns it.
func (c *clerk) troubled(err error) error {
	if why := err.Error(); c.unable() != why {
		c.log.Error("orders cannot be kept and are not done; running engines are not touched", "err", err)
		c.trouble.Store(&why)
	}
	return err
}
