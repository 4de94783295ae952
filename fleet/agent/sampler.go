package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/process"
)

// Hardware reads the machine. A call may be slow, and is not made again before
// it has returned; heartbeats do not wait for it.
type Hardware interface {
	// Inventory reads everything that the machine has. The caller owns it.
	Inventory(ctx context.Context) (*engines.Inventory, error)
	// State reads what changes of it. The caller owns it.
	State(ctx context.Context) (engines.NodeState, error)
	// Changed reports whether the last State saw that the last Inventory is one no
	// more.
	Changed(ctx context.Context) (bool, error)
	// Advertise returns the address at which other nodes and routers reach the
	// machine. It is one of the preferred interface, which the control plane names,
	// where there is one and nothing on this machine says otherwise. Empty: the
	// control plane has named none yet.
	Advertise(ctx context.Context, preferred string) (Advertised, error)
}

// Advertised is where others reach a machine.
type Advertised struct {
	Address string
	// Interface is the network interface that has it.
	Interface string
	// Instead is why that is not the preferred one, for people. Empty: it is, or
	// nobody has to hear of it.
	Instead string
}

const (
	// readTimeout is after which time a reading counts as failed, be it over or not.
	readTimeout = 10 * time.Second
	// inventoryInterval is how often the whole inventory is read.
	inventoryInterval = time.Minute
	// strangersInterval is how often it is looked who else listens on ports of the
	// range.
	strangersInterval = 30 * time.Second
	// firstInterval is the time between readings until a control plane says how
	// often it wants a heartbeat.
	firstInterval = 5 * time.Second
)

// sampler keeps what is known of the node up to date.
type sampler struct {
	log       *slog.Logger
	inventory func(context.Context) (reading, error)
	state     func(context.Context) (reading, error)
	strangers func() []process.Holder
	// changed tells of an inventory that differs from the last, and moved of another
	// address.
	changed, moved func()

	known     atomic.Pointer[facts]
	foreign   atomic.Pointer[[]process.Holder]
	preferred atomic.Pointer[string] // the interface that the control plane names
	interval  atomic.Int64
	wanted    chan struct{} // has room for one; filled when a reading is wanted
	whole     atomic.Bool   // the next reading is of the inventory

	mu     sync.Mutex
	round  chan struct{} // guarded by mu; closed at the end of the next reading
	begun  uint64        // guarded by mu; readings that began
	ended  uint64        // guarded by mu; readings that ended
	warned string        // run goroutine only
}

// reading is what was read of the machine.
type reading struct {
	inventory *engines.Inventory // nil: only the state was read
	state     engines.NodeState
	changed   bool // the inventory is to be read again

	at           Advertised
	unadvertised error // why there is no address
}

// newSampler returns a sampler of a machine. An address that is written goes before
// what the hardware would advertise.
func newSampler(log *slog.Logger, hw Hardware, written string, strangers func() []process.Holder, changed, moved func()) *sampler {
	s := &sampler{
		log: log, strangers: strangers, changed: changed, moved: moved,
		wanted: make(chan struct{}, 1), round: make(chan struct{}),
	}
	s.preferred.Store(new(string))
	s.inventory = guarded("the inventory", func(ctx context.Context) (r reading, err error) {
		if r.inventory, err = hw.Inventory(ctx); err != nil {
			return r, err
		}
		r.state = r.inventory.State
		if written != "" {
			r.at = Advertised{Address: written, Interface: interfaceOf(r.inventory, written)}
		} else {
			r.at, r.unadvertised = hw.Advertise(ctx, *s.preferred.Load())
		}
		return r, nil
	})
	s.state = guarded("the hardware's state", func(ctx context.Context) (r reading, err error) {
		if r.state, err = hw.State(ctx); err == nil {
			r.changed, err = hw.Changed(ctx)
		}
		return r, err
	})
	s.known.Store(&facts{})
	s.foreign.Store(&[]process.Holder{})
	s.interval.Store(int64(firstInterval))
	return s
}

// guarded makes a call that may hang one that does not: it returns when ctx is
// done, and is not made again while it hangs.
func guarded[T any](what string, call func(context.Context) (T, error)) func(context.Context) (T, error) {
	type result struct {
		value T
		err   error
	}
	var running chan result // of a call that was not waited for to its end
	return func(ctx context.Context) (T, error) {
		var none T
		if running == nil {
			done := make(chan result, 1)
			running = done
			go func() {
				value, err := call(ctx)
				done <- result{value, err}
			}()
		}
		select {
		case r := <-running:
			running = nil
			return r.value, r.err
		case <-ctx.Done():
			return none, fmt.Errorf("%s cannot be read: %w", what, context.Cause(ctx))
		}
	}
}

var errSlow = errors.New("it does not answer")

// facts returns what is known now. Nobody may change it.
func (s *sampler) facts() *facts { return s.known.Load() }

// held returns the ports of the range that others hold.
func (s *sampler) held() []process.Holder { return *s.foreign.Load() }

// pace sets the time between readings.
func (s *sampler) pace(d time.Duration) { s.interval.Store(int64(d)) }

// prefer names the interface whose address is told others, where nothing on this
// machine says otherwise. The next reading goes by it, and is soon.
func (s *sampler) prefer(netInterface string) {
	if *s.preferred.Swap(&netInterface) != netInterface {
		s.want(true)
	}
}

// want has the machine read soon.
func (s *sampler) want(inventory bool) {
	if inventory {
		s.whole.Store(true)
	}
	select {
	case s.wanted <- struct{}{}:
	default: // a reading is wanted already
	}
}

// fresh returns what a reading that begins now finds, or what is known when ctx
// is done.
func (s *sampler) fresh(ctx context.Context, inventory bool) *facts {
	s.mu.Lock()
	want := s.begun + 1 // one that is under way began before now
	s.mu.Unlock()
	for {
		s.mu.Lock()
		round, begun, ended := s.round, s.begun, s.ended
		s.mu.Unlock()
		if ended >= want {
			return s.facts()
		}
		if begun < want {
			s.want(inventory)
		}
		select {
		case <-round:
		case <-ctx.Done():
			return s.facts()
		}
	}
}

// run reads until ctx is done.
func (s *sampler) run(ctx context.Context) {
	var inventoryAt, strangersAt time.Time
	for {
		now := time.Now()
		if now.Sub(strangersAt) >= strangersInterval {
			strangersAt = now
			s.foreign.Store(new(s.strangers()))
		}
		whole := s.whole.Swap(false) || inventoryAt.IsZero() || now.Sub(inventoryAt) >= inventoryInterval
		if whole {
			inventoryAt = now
		}
		s.mu.Lock()
		s.begun++
		s.mu.Unlock()
		if s.read(ctx, whole) {
			inventoryAt = time.Time{}
		}
		s.mu.Lock()
		close(s.round)
		s.round, s.ended = make(chan struct{}), s.begun
		s.mu.Unlock()
		timer := time.NewTimer(time.Duration(s.interval.Load()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-s.wanted:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// read makes new facts. What cannot be read stays as it was.
func (s *sampler) read(ctx context.Context, whole bool) (again bool) {
	ctx, cancel := context.WithTimeoutCause(ctx, readTimeout, errSlow)
	defer cancel()
	read := s.state
	if whole {
		read = s.inventory
	}
	r, err := read(ctx)
	if ctx.Err() != nil && context.Cause(ctx) != errSlow { //nolint:errorlint // it is that very error
		return false // the agent ends
	}
	last := s.facts()
	next := *last
	next.problem = ""
	switch {
	case err != nil:
		next.problem = err.Error()
	case r.inventory != nil:
		next.inventory, next.state, next.readAt = *r.inventory, r.state, time.Now()
		next.noAddress = ""
		if r.unadvertised != nil {
			next.noAddress = r.unadvertised.Error()
		} else {
			next.address, next.netInterface, next.instead = r.at.Address, r.at.Interface, r.at.Instead
		}
		s.tellAddress(last, &next)
	default:
		next.state, next.readAt = r.state, time.Now()
	}
	s.tell(next.problem)
	s.known.Store(&next)
	if r.inventory != nil && last.read() && !last.inventory.SameHardware(&next.inventory) {
		s.log.Info("the node's hardware changed", "gpus", len(next.inventory.GPUs))
		s.changed()
	}
	if next.address != last.address {
		s.moved()
	}
	return r.changed
}

// tell logs a problem once, and its end.
func (s *sampler) tell(problem string) {
	if problem == s.warned {
		return
	}
	s.warned = problem
	if problem == "" {
		s.log.Info("hardware is read again")
		return
	}
	s.log.Warn("hardware was not read well; what was known of it is told", "problem", problem)
}

// tellAddress logs what became of the address that others are told.
func (s *sampler) tellAddress(was, is *facts) {
	switch {
	case is.noAddress == was.noAddress:
	case is.noAddress == "":
		s.log.Info("there is an address to tell others again")
	default:
		s.log.Warn("there is no address at which others reach this node's engines; set address, or mgmt_interface", "problem", is.noAddress)
	}
	if is.instead != was.instead && is.instead != "" {
		s.log.Warn("the address that others are told is not one of the interface that the control plane names; set mgmt_interface",
			"address", is.address, "interface", is.netInterface, "problem", is.instead)
	}
	if is.address != was.address && was.address != "" {
		s.log.Info("others are told another address; engines that run keep theirs", "address", is.address, "was", was.address)
	}
}

// read reports whether the machine was ever read.
func (f *facts) read() bool { return !f.readAt.IsZero() }

// interfaceOf returns the interface that has the address.
func interfaceOf(inv *engines.Inventory, address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	for _, n := range inv.Interfaces {
		for _, a := range n.Addresses {
			if a.Prefix.Addr() == ip {
				return n.Name
			}
		}
	}
	return ""
}
