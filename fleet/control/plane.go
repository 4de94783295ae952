package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/llmgw/llmgw/fleet/fleetpb"
	"github.com/llmgw/llmgw/fleet/internal/convert"
)

// Plane holds the streams of a fleet's agents. Its methods may be called at the
// same time.
type Plane struct {
	cfg     Config
	deps    Deps
	log     *slog.Logger
	metrics *metrics
	path    string
	handler http.Handler
	base    time.Time // when Run began; set before any stream is let in
	alike   convert.Alike

	mu           sync.Mutex           // before a stream's
	fleet        *fleet               // guarded by mu
	level        Level                // what the last tick found; guarded by mu
	ending       bool                 // no stream is let in; guarded by mu
	streams      map[*stream]struct{} // guarded by mu
	unregistered int                  // of streams; guarded by mu
	idle         chan struct{}        // closed when ending and no stream is left; guarded by mu
	watchers     map[*Watcher]struct{}
	calls        map[uint64]*call              // by the command's id; guarded by mu
	callsOf      map[string]map[*call]struct{} // by node; guarded by mu
	lastCall     uint64                        // guarded by mu
	loaded       bool                          // the journal was read since the accession; guarded by mu
	unsaved      map[string]struct{}           // nodes; guarded by mu
	looked       *looked                       // which weights agents look for; nil: none; guarded by mu
	journal      chan struct{}                 // has one element when the journal is to be read now
	ended        chan struct{}                 // closed when Run's context is done
}

// New returns a plane. The errors of cfg are joined. It starts nothing: until
// [Plane.Run] runs, agents are sent away.
func New(cfg Config, deps Deps) (*Plane, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	if deps.Authority == nil {
		return nil, errors.New("control: Deps.Authority is required")
	}
	p := &Plane{
		cfg: cfg, deps: deps, log: deps.Logger,
		fleet:    newFleet(cfg, time.Time{}, time.Time{}),
		streams:  map[*stream]struct{}{},
		idle:     make(chan struct{}),
		watchers: map[*Watcher]struct{}{},
		calls:    map[uint64]*call{},
		callsOf:  map[string]map[*call]struct{}{},
		lastCall: firstCall(),
		unsaved:  map[string]struct{}{},
		journal:  make(chan struct{}, 1),
		ended:    make(chan struct{}),
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if p.metrics, err = newMetrics(deps.Registerer, p); err != nil {
		return nil, fmt.Errorf("control: metrics: %w", err)
	}
	// Without gzip: statuses are small and many, and a message is bounded before
	// it is unpacked.
	path, handler := fleetpb.NewAgentServiceHandler(service{p}, connect.WithReadMaxBytes(cfg.MaxMessageBytes), connect.WithCompression("gzip", nil, nil), connect.WithCodec(codec{}))
	p.path, p.handler = path, withWire(handler)
	return p, nil
}

// Handler returns the agents' service and the path to mount it at. It needs
// HTTP/2, and a ResponseWriter that can set deadlines; see [Configure].
func (p *Plane) Handler() (path string, handler http.Handler) { return p.path, p.handler }

// Configure sets up a server for the handler where it is not set up yet: HTTP/2
// with TLS and without, small buffers for streams that are mostly idle, and
// connections that end when their peer takes nothing.
func Configure(s *http.Server) {
	if s.Protocols == nil {
		s.Protocols = new(http.Protocols)
		s.Protocols.SetHTTP1(true) // a wrong client gets an answer that it can read
		s.Protocols.SetHTTP2(true)
		s.Protocols.SetUnencryptedHTTP2(true)
	}
	if s.HTTP2 == nil {
		s.HTTP2 = &http.HTTP2Config{
			MaxConcurrentStreams:          32,
			MaxReceiveBufferPerConnection: 256 << 10,
			MaxReceiveBufferPerStream:     128 << 10,
			WriteByteTimeout:              10 * time.Second,
		}
	}
	if s.ReadHeaderTimeout == 0 {
		s.ReadHeaderTimeout = handshakeTimeout
	}
	if s.IdleTimeout == 0 {
		s.IdleTimeout = 2 * time.Minute
	}
	if s.MaxHeaderBytes == 0 {
		s.MaxHeaderBytes = 32 << 10
	}
}

// Run judges silence and keeps the journal until ctx is done; then it ends all
// streams, so that agents look for another control plane, and returns nil within
// two seconds. Call it once.
func (p *Plane) Run(ctx context.Context) error {
	p.base = time.Now()
	p.mu.Lock()
	p.fleet = newFleet(p.cfg, p.base, p.base) // the time before is no stall
	p.mu.Unlock()
	p.tick(p.base)
	var wg sync.WaitGroup
	wg.Go(func() { p.keepJournal(ctx) })
	ticker := time.NewTicker(p.cfg.Tick)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-ticker.C:
			p.tick(time.Now())
		}
	}
	p.end()
	wg.Wait()
	return nil
}

// tick follows the mandate and judges silence.
func (p *Plane) tick(now time.Time) {
	mandate := p.deps.Authority.Mandate()
	p.mu.Lock()
	p.follow(mandate, now)
	changed, stalled := p.fleet.step(now)
	var silent, stuck []*stream
	for _, t := range changed {
		if t.to == Lost && t.node.stream != nil {
			silent = append(silent, t.node.stream)
		}
		if t.to == Lost {
			p.unsaved[t.node.id] = struct{}{} // when it was last heard
		}
	}
	if stalled == 0 { // else it may be we who did not write
		for st := range p.streams {
			if st.stuck(now) {
				stuck = append(stuck, st)
			}
		}
	}
	p.publish()
	p.mu.Unlock()

	if stalled > 0 {
		p.metrics.stalls.Add(stalled.Seconds())
		p.log.Warn("this process stood still; no node's silence counts for that time", "for", stalled)
	}
	for _, t := range changed {
		p.logTransition(t.node.id, t.from, t.to, t.silence)
	}
	for _, st := range silent {
		st.stop(connect.NewError(connect.CodeUnavailable, fmt.Errorf("nothing was heard on this stream for %v; open another", p.cfg.LostAfter)))
	}
	for _, st := range stuck {
		st.stop(connect.NewError(connect.CodeUnavailable, errStuck))
		st.reset()
	}
}

var errStuck = errors.New("the agent does not read its stream")

// follow begins anew when a standby becomes more, and sends the agents away when
// it becomes one. p.mu is held.
func (p *Plane) follow(m Mandate, now time.Time) {
	was := p.level
	p.level = m.Level
	if (was == Standby) == (m.Level == Standby) {
		return
	}
	for _, n := range p.fleet.order {
		n.stream = nil
	}
	p.fleet = newFleet(p.cfg, p.base, now)
	p.loaded = false
	clear(p.unsaved)
	for w := range p.watchers {
		w.everything()
	}
	if m.Level == Standby {
		for st := range p.streams {
			st.stop(connect.NewError(connect.CodeUnavailable, errStandby))
		}
		return
	}
	select {
	case p.journal <- struct{}{}:
	default:
	}
}

// end sends every agent away, and waits until they have gone: a second for those
// that read, half of one more for the others.
func (p *Plane) end() {
	close(p.ended)
	p.mu.Lock()
	p.ending = true
	if len(p.streams) == 0 {
		close(p.idle)
	}
	for st := range p.streams {
		st.stop(connect.NewError(connect.CodeUnavailable, errEnding))
	}
	p.mu.Unlock()
	select {
	case <-p.idle:
		return
	case <-time.After(time.Second):
	}
	p.mu.Lock()
	left := slices.Collect(maps.Keys(p.streams))
	p.mu.Unlock()
	for _, st := range left {
		st.reset()
	}
	select {
	case <-p.idle:
	case <-time.After(time.Second / 2):
		p.log.Warn("streams of agents that take nothing are left to the server")
	}
}

// open lets a stream in that has not registered.
func (p *Plane) open(st *stream) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ending:
		return refuse(reasonEnding, errEnding)
	case p.level == Standby:
		return refuse(reasonStandby, errStandby)
	case p.unregistered >= p.cfg.MaxUnregistered:
		return refuse(reasonBusy, fmt.Errorf("%d agents register already, which max_unregistered allows; try again", p.unregistered))
	}
	p.streams[st] = struct{}{}
	p.unregistered++
	return nil
}

// close takes a stream out.
func (p *Plane) close(st *stream) {
	st.finish()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.streams, st)
	if st.node == nil {
		p.unregistered--
	} else {
		p.fleet.ended(st.node, st)
		p.publish()
	}
	if p.ending && len(p.streams) == 0 {
		close(p.idle)
	}
}

// Nodes returns all nodes that are known, by id. The caller owns the slice; what
// the nodes refer to is shared and must not be changed.
func (p *Plane) Nodes() []Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	out := make([]Node, len(p.fleet.order))
	for i, n := range p.fleet.order {
		out[i] = p.fleet.snapshot(n, now)
	}
	return out
}

// Node returns the node with that id.
func (p *Plane) Node(id string) (Node, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, found := p.fleet.nodes[id]
	if !found {
		return Node{}, false
	}
	return p.fleet.snapshot(n, time.Now()), true
}

// Accession returns when this control plane came to hold streams, from which the
// silence of nodes that have not come counts, and whether the journal has been
// read since: before that, a node that is not among Nodes may be one. A standby
// knows none.
func (p *Plane) Accession() (at time.Time, complete bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fleet.accession, p.level != Standby && (p.loaded || p.deps.Journal == nil)
}

func (p *Plane) logTransition(node string, from, to State, silence time.Duration) {
	switch to {
	case Ready:
		p.log.Info("node is back", "node", node, "was", from.String())
	default:
		p.log.Warn("node is silent", "node", node, "state", to.String(), "was", from.String(), "silence", silence.Round(time.Millisecond))
	}
}
