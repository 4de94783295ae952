package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/process"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// mailbox bounds the orders that wait for one shard.
const mailbox = 64

// drainInterval is how often an engine that is to finish is asked how much it
// still has. It has nothing left when it says so twice in a row.
const drainInterval = time.Second

// retryInterval is the time between two attempts to end what did not end.
const retryInterval = 5 * time.Second

// shard looks after one shard through all of its generations. Its goroutine does
// one thing after the other and never waits for anything slow: that is done by
// others, which hand it what came of it.
type shard struct {
	id    engines.ShardID
	log   *slog.Logger
	tools *tools

	orders  chan order
	results chan func()
	left    chan struct{} // closed when nobody takes results any more

	mu       sync.Mutex
	status   engines.ShardStatus // guarded by mu; generation 0: nothing to report
	expected uint64              // guarded by mu; the newest generation that is on its way here
	ended    bool                // guarded by mu; nothing is left of the status's generation
	cards    []string            // guarded by mu; of the status's generation
	sleeps   bool                // guarded by mu; its engine can sleep
	pids     []int               // guarded by mu; the processes that were started for it

	// The shard's goroutine alone.
	pending *pending // a start that is not accepted yet
	old     *life    // what has to end before life begins
	life    *life    // what is here
	working int      // things that are being done for it
	leaving bool
	gone    bool // nothing is here, nor on its way
}

// tools are what the shards of an agent share.
type tools struct {
	cfg     Config
	runner  runner
	prepare func(context.Context, engines.ShardSpec) (prepared, *refusal)
	ports   *portBook
	load    func(ctx context.Context, w wish, dir string) (running, waiting *int)
	// memory waits until the memory of a shard's cards is free, and returns who
	// holds it if it does not become so.
	memory func(context.Context, wish) string
	// rested is memory for an engine that sleeps, which keeps a little; not sure: that
	// could not be looked at.
	rested   func(context.Context, wish) (held string, sure bool)
	dir      func(engines.ShardID) string
	revision func() uint64
	// changed tells that there is a new status, answer answers an order.
	changed func(engines.ShardID)
	answer  func(o order, result fleetpb.Result, reason, advice string, status *engines.ShardStatus)
	// drop takes the shard out of the list if nothing is on its way to it, and
	// reports whether it did.
	drop func(*shard) bool
}

// pending is a start of which nobody knows yet whether it can be done.
type pending struct {
	orders []order
	cancel context.CancelFunc
}

// life is one generation of a shard.
type life struct {
	wish    wish
	spec    process.Spec
	proc    attended // nil: not started, or its record is lost
	adopted bool
	// lost: processes of it may run, and its record cannot be used.
	lost     bool
	launched bool // a start was tried
	// launching: a start is being made. What comes of it has to be known before it can
	// be ended.
	launching bool
	failed    *refusal // why nothing of it was started, or it was lost

	draining bool
	stopping bool
	stopBy   time.Time // when it is asked to end at the latest
	ending   bool      // its processes are being ended
	waiting  string    // what its end waits for, in words
	retry    time.Time // when an end that failed is tried again
	ended    time.Time // when nothing of it was left; zero: something is
	held     string    // who has the memory of its cards

	sleep sleep

	running, queued *int // by its own page; nil: not known
	idle            int  // how often in a row it said that it has nothing
	asked           time.Time
	asking          bool
}

func newShard(id engines.ShardID, t *tools, log *slog.Logger) *shard {
	return &shard{
		id: id, log: log.With("shard", id.String()), tools: t,
		orders: make(chan order, mailbox), results: make(chan func()), left: make(chan struct{}),
	}
}

// give hands the shard an order; false: too many wait. It never blocks.
func (s *shard) give(o order) bool {
	select {
	case s.orders <- o:
	default:
		return false
	}
	if o.Kind == orderStart {
		s.mu.Lock()
		s.expected = max(s.expected, o.Generation)
		s.mu.Unlock()
	}
	return true
}

// presence returns what is here, a start that is on its way included.
func (s *shard) presence() presence {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.expected > s.status.Generation:
		return presence{Here: true, Generation: s.expected, Undecided: true}
	case s.status.State == engines.ShardUnset:
		return presence{}
	}
	return presence{Here: true, Generation: s.status.Generation, Ended: s.ended, Sleeps: s.sleeps}
}

// report returns the shard's status; false: there is nothing to report.
func (s *shard) report() (engines.ShardStatus, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status, s.status.State != engines.ShardUnset
}

// run looks after the shard until ctx is done, and then lets its processes run
// on, or until nothing of it is left to remember.
func (s *shard) run(ctx context.Context) {
	defer s.leave()
	for !s.gone {
		s.advance(ctx)
		s.publish()
		var changed <-chan struct{}
		if s.life != nil && s.life.proc != nil {
			_, changed = s.life.proc.Changed()
		}
		wake := time.NewTimer(time.Until(s.next()))
		select {
		case <-ctx.Done():
			wake.Stop()
			return
		case o := <-s.orders:
			s.take(ctx, o)
		case f := <-s.results:
			f()
		case <-changed:
		case <-wake.C:
		}
		wake.Stop()
	}
}

// leaveTimeout bounds how long an agent that ends waits for what is being done for
// a shard: a dead disk or driver must not keep it, and keeps nothing of an engine.
const leaveTimeout = time.Second

// leave waits for what is being done and lets the processes go.
func (s *shard) leave() {
	defer close(s.left)
	s.leaving = true
	if s.pending != nil {
		s.pending.cancel()
	}
	patience := time.NewTimer(leaveTimeout)
	defer patience.Stop()
	for s.working > 0 {
		select {
		case f := <-s.results:
			f()
		case <-patience.C:
			s.log.Warn("what is being done for the shard does not end; the agent does")
			return
		}
	}
	for _, l := range []*life{s.old, s.life} {
		if l != nil && l.proc != nil {
			started(l.proc, patience.C)
			l.proc.Detach()
		}
	}
}

// started waits until a start that was begun has come as far as its engine, which
// the next agent can take up; before that it could only call it interrupted.
func started(proc attended, patience <-chan time.Time) {
	for {
		status, changed := proc.Changed()
		if status.State != process.StateStarting {
			return
		}
		select {
		case <-changed:
		case <-patience:
			return
		}
	}
}

// do has work done elsewhere; what it returns is then done by the shard's own
// goroutine.
func (s *shard) do(work func() func()) {
	s.working++
	go func() {
		f := work()
		s.post(func() { s.working--; f() })
	}()
}

// post has something done by the shard's own goroutine, if that still runs.
func (s *shard) post(f func()) {
	select {
	case s.results <- f:
	case <-s.left:
	}
}

// take begins to do an order that was decided to be done.
func (s *shard) take(ctx context.Context, o order) {
	switch o.Kind {
	case orderStart:
		s.takeStart(ctx, o)
	case orderStop:
		s.takeStop(o)
	case orderDrain:
		s.takeDrain(o)
	case orderSleep, orderWake:
		s.takeTurn(o)
	}
}

func (s *shard) takeStart(ctx context.Context, o order) {
	switch {
	case s.life != nil && s.life.wish.Generation == o.Generation:
		s.reply(o, fleetpb.Result_RESULT_ALREADY, "", "")
		return
	case s.life != nil && s.life.wish.Generation > o.Generation:
		s.reply(o, fleetpb.Result_RESULT_STALE, fmt.Sprintf("generation %d is here", s.life.wish.Generation), "")
		return
	case s.pending != nil && s.pending.orders[0].Generation == o.Generation:
		s.pending.orders = append(s.pending.orders, o)
		return
	}
	s.giveUp(fmt.Sprintf("generation %d was ordered since", o.Generation))
	asking, cancel := context.WithCancel(ctx)
	p := &pending{orders: []order{o}, cancel: cancel}
	s.pending = p
	s.do(func() func() {
		ready, why := s.tools.prepare(asking, o.Spec)
		return func() {
			cancel()
			s.prepared(p, ready, why)
		}
	})
}

// prepared ends the wait for a start to be decided.
func (s *shard) prepared(p *pending, ready prepared, why *refusal) {
	o := p.orders[0]
	if s.pending != p || s.leaving { // another order came meanwhile
		if why == nil {
			s.tools.ports.giveUp(owner{s.id, o.Generation}, ready.wish.Ports)
		}
		return
	}
	s.pending = nil
	if why != nil {
		s.log.Warn("a start was refused", "generation", o.Generation, "reason", why.reason, "advice", why.advice)
		s.unexpect(o.Generation)
		for _, o := range p.orders {
			s.reply(o, why.result, why.reason, why.advice)
		}
		s.gone = s.life == nil && s.tools.drop(s)
		return
	}
	switch {
	case s.life == nil || !s.life.ended.IsZero():
	case s.old != nil: // what was to follow it was never started, and is not any more
		s.tools.ports.giveUp(owner{s.id, s.life.wish.Generation}, s.life.wish.Ports)
	default:
		s.old = s.life
		s.old.stop(time.Now())
	}
	s.life = &life{wish: ready.wish, spec: ready.spec, failed: ready.missing}
	s.publish()
	for _, o := range p.orders {
		s.reply(o, fleetpb.Result_RESULT_BEGUN, "", "")
	}
}

// giveUp drops a start that was not decided yet.
func (s *shard) giveUp(why string) {
	p := s.pending
	if p == nil {
		return
	}
	s.pending = nil
	p.cancel()
	s.unexpect(p.orders[0].Generation)
	for _, o := range p.orders {
		s.reply(o, fleetpb.Result_RESULT_STALE, why, "")
	}
}

func (s *shard) unexpect(generation uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expected == generation {
		s.expected = 0
	}
}

func (s *shard) takeStop(o order) {
	if s.pending != nil && s.pending.orders[0].Generation <= o.Generation {
		s.giveUp(fmt.Sprintf("generation %d was ordered to stop since", o.Generation))
	}
	l := s.life
	switch {
	case l == nil:
		s.reply(o, fleetpb.Result_RESULT_ALREADY, "", "")
		s.gone = s.pending == nil && s.tools.drop(s)
		return
	case l.wish.Generation > o.Generation || !l.ended.IsZero():
		s.reply(o, fleetpb.Result_RESULT_ALREADY, "", "")
		return
	}
	by := time.Now().Add(o.Drain)
	if l.stopping && !by.Before(l.stopBy) {
		s.reply(o, fleetpb.Result_RESULT_ALREADY, "", "")
		return
	}
	l.stop(by)
	s.publish()
	s.reply(o, fleetpb.Result_RESULT_BEGUN, "", "")
}

// stop makes a life end, by the given time at the latest.
func (l *life) stop(by time.Time) {
	if !l.stopping {
		l.idle = 0
	}
	l.stopping, l.stopBy = true, by
}

func (s *shard) takeDrain(o order) {
	l := s.life
	switch {
	case l == nil || l.wish.Generation != o.Generation:
		s.reply(o, fleetpb.Result_RESULT_REFUSED, fmt.Sprintf("there is no generation %d of the shard here", o.Generation), "start it first")
	case l.draining || l.stopping || !l.ended.IsZero():
		s.reply(o, fleetpb.Result_RESULT_ALREADY, "", "")
	default:
		l.draining = true
		s.publish()
		s.reply(o, fleetpb.Result_RESULT_BEGUN, "", "")
	}
}

// reply answers an order with the shard as it is.
func (s *shard) reply(o order, result fleetpb.Result, reason, advice string) {
	if status, ok := s.report(); ok {
		s.tools.answer(o, result, reason, advice, &status)
		return
	}
	s.tools.answer(o, result, reason, advice, nil)
}

// advance begins what can be done now.
func (s *shard) advance(ctx context.Context) {
	if s.leaving {
		return
	}
	now := time.Now()
	for _, l := range []*life{s.old, s.life} {
		if l != nil && l.stopping && l.ended.IsZero() && !l.ending && !l.launching && !now.Before(l.retry) && (l == s.old || s.old == nil) && l.mayEnd(now) {
			s.end(ctx, l)
		}
	}
	if s.old != nil && !s.old.ended.IsZero() {
		s.old = nil
	}
	l := s.life
	if l == nil || s.old != nil {
		return
	}
	if l.proc == nil && !l.launched && !l.lost && !l.stopping && l.failed == nil {
		s.launch(ctx, l)
	}
	s.turn(ctx, l)
	if l.asks(now) && !l.asking && now.Sub(l.asked) >= s.askEvery(l) {
		s.ask(ctx, l)
	}
	if !l.ended.IsZero() && now.Sub(l.ended) > s.tools.cfg.Keep && s.pending == nil && s.working == 0 && s.tools.drop(s) {
		s.gone = true
		s.log.Info("what was left of the shard is removed", "generation", l.wish.Generation)
		if err := os.RemoveAll(s.tools.dir(s.id)); err != nil {
			s.log.Warn("the shard's directory could not be removed", "err", err)
		}
	}
}

// next is when something has to be done at the latest though nothing happens.
func (s *shard) next() time.Time {
	next := time.Now().Add(time.Hour)
	sooner := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	for _, l := range []*life{s.old, s.life} {
		switch {
		case l == nil || l.launching:
		case !l.ended.IsZero():
			sooner(l.ended.Add(s.tools.cfg.Keep + time.Second))
		case l.stopping && !l.ending && l.retry.IsZero():
			sooner(l.stopBy)
		case l.stopping && !l.ending:
			sooner(l.retry)
		}
		if l != nil && l.asks(time.Now()) && !l.asking {
			sooner(l.asked.Add(s.askEvery(l)))
		}
		if l != nil && l.sleep.asks(time.Now()) && !l.sleep.turning && l.ready() && !l.stopping && l.sleep.broken == nil {
			sooner(l.sleep.askAgain)
		}
	}
	return next
}

// mayEnd reports whether a life that is to stop is to be ended now: its time is
// up, it has nothing left to do, or it is not in a state to do anything.
func (l *life) mayEnd(now time.Time) bool {
	if !now.Before(l.stopBy) || l.proc == nil || l.idle >= 2 || l.sleep.asleep || l.sleep.broken != nil {
		return true
	}
	return !l.ready()
}

// ready reports whether the engine was ready, and runs.
func (l *life) ready() bool {
	if l.proc == nil {
		return false
	}
	status, _ := l.proc.Changed()
	return status.State == process.StateReady
}

// asks reports whether the engine can be asked how much it has to do.
func (l *life) asks(time.Time) bool {
	if l.proc == nil || l.wish.Metrics == nil || l.wish.Address == "" || l.ending || !l.ended.IsZero() {
		return false
	}
	return l.ready()
}

func (s *shard) askEvery(l *life) time.Duration {
	if l.draining || l.stopping {
		return drainInterval
	}
	return s.tools.cfg.LoadInterval
}

// ask reads how much the engine has to do, from its own page.
func (s *shard) ask(ctx context.Context, l *life) {
	l.asking = true
	w, dir := l.wish, runDir(s.tools.dir(s.id))
	began := time.Now()
	s.do(func() func() {
		running, queued := s.tools.load(ctx, w, dir)
		return func() {
			l.asking, l.asked = false, began
			l.running, l.queued = running, queued
			if running != nil && queued != nil && *running+*queued == 0 {
				l.idle++
			} else {
				l.idle = 0
			}
		}
	})
}

// launch starts the processes of a life.
func (s *shard) launch(ctx context.Context, l *life) {
	l.launched, l.launching = true, true
	s.tools.ports.claim(owner{s.id, l.wish.Generation}, l.wish.Ports)
	dir := s.tools.dir(s.id)
	s.do(func() func() {
		proc, err := s.begin(ctx, l, dir)
		return func() {
			l.launching = false
			if err != nil {
				l.failed = startRefusal(err)
				s.log.Error("shard was not started", "generation", l.wish.Generation, "err", err)
				return
			}
			l.proc = proc
		}
	})
}

func (s *shard) begin(ctx context.Context, l *life, dir string) (attended, error) {
	if err := l.wish.write(dir); err != nil {
		return nil, err
	}
	proc, err := s.tools.runner.Start(ctx, l.spec)
	if errors.Is(err, process.ErrRunning) {
		// Of a generation whose record is lost: what is newer was ordered, so it ends.
		killed, swept := s.tools.runner.Sweep(ctx, l.spec.ID)
		s.log.Warn("what ran of an earlier generation was ended", "processes", fmt.Sprint(killed), "err", swept)
		if swept == nil {
			proc, err = s.tools.runner.Start(ctx, l.spec)
		}
	}
	return proc, err
}

// startRefusal says why a shard was not started.
func startRefusal(err error) *refusal {
	advice := "see the reason, and order it again with another generation"
	if errors.Is(err, process.ErrPorts) {
		advice = "end who holds the ports, or let the node choose others"
	}
	return refused(advice, "%v", err)
}

// end ends everything of a life, and sees its ports and its memory free.
func (s *shard) end(ctx context.Context, l *life) {
	l.ending, l.running, l.queued = true, nil, nil
	s.do(func() func() {
		err := s.endProcesses(ctx, l)
		if err == nil && l.launchedOrTaken() && len(l.wish.Cards) > 0 {
			s.post(func() { l.waiting = "the memory of its cards is not free yet" })
			held := s.tools.memory(ctx, l.wish)
			s.post(func() { l.held = held })
		}
		return func() {
			l.ending = false
			switch {
			case ctx.Err() != nil:
			case err != nil:
				s.log.Error("shard could not be ended; it is tried again", "generation", l.wish.Generation, "err", err)
				l.waiting, l.retry = err.Error(), time.Now().Add(retryInterval)
			default:
				l.waiting, l.ended, l.lost = "", time.Now(), false
				s.tools.ports.free(owner{s.id, l.wish.Generation}, l.wish.Ports)
			}
		}
	})
}

func (l *life) launchedOrTaken() bool { return l.launched || l.adopted || l.lost }

func (s *shard) endProcesses(ctx context.Context, l *life) error {
	switch {
	case l.proc != nil:
		return l.proc.Stop(ctx)
	case l.lost:
		killed, err := s.tools.runner.Sweep(ctx, l.wish.Process)
		s.log.Warn("what carried the shard's name was ended, for its record is lost", "processes", fmt.Sprint(killed), "err", err)
		return err
	}
	return nil // it was never started
}

// uses reports whether the shard has a card, or may still have memory of it. One
// that sleeps has what little was in use on it when others came.
func (s *shard) uses(card string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ended && s.status.State != engines.ShardSleeping && slices.Contains(s.cards, card)
}

// owns reports whether a process is one of the shard's own.
func (s *shard) owns(pid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.pids, pid)
}
