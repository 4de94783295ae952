package feed

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/apipb"
)

// Reporter says what a router does. It may be a [DemandReporter], too.
type Reporter interface {
	// Reports returns what the router knows of every instance that it may send
	// requests to, or still has some at. What it leaves out it has nothing at. It
	// must not block, and is asked every few seconds and after each
	// [Follower.Applied].
	Reports() []Report
}

// Deps are a follower's collaborators.
type Deps struct {
	// Sources are where the feed may be, and are tried in turn. At least one.
	Sources []Source
	// Reporter says what this router does. Required: without it no control plane
	// could tell that an engine has nothing to do.
	Reporter Reporter
	// Software is what this router was built from, for people.
	Software string
	// Logger gets what happens. Nil discards.
	Logger *slog.Logger
	// Registerer gets the metrics. Nil leaves them unregistered.
	Registerer prometheus.Registerer
}

// Follower is a router's end of the feed. Its methods may be called at the same
// time, and block for nobody.
type Follower struct {
	cfg     Config
	deps    Deps
	log     *slog.Logger
	run     string // names this run of the process
	metrics *followerMetrics

	now      atomic.Pointer[held]
	applied  atomic.Pointer[Version]
	nudge    chan struct{} // has an element when a report is wanted now
	hurry    chan struct{} // has an element when one is wanted as soon as may be
	unsaved  chan struct{} // has an element when the copy is not what is known
	link     link          // Run goroutine only
	loading  sync.Mutex    // held by Load
	loaded   bool          // guarded by loading
	mu       sync.Mutex
	mirror   *mirror   // guarded by mu
	source   string    // guarded by mu; that is connected; "": none is
	heardAt  time.Time // guarded by mu; of the last frame
	copiedAt time.Time // guarded by mu; when the copy that was loaded was saved
}

// held is a state, and what is closed when there is another.
type held struct {
	state   *State
	changed chan struct{}
}

// New returns a follower, or what is wrong with cfg and deps. It starts nothing.
func New(cfg Config, deps Deps) (*Follower, error) {
	err := cfg.Validate()
	if len(deps.Sources) == 0 {
		err = errors.Join(err, errors.New("Deps.Sources is empty; want where the feed is"))
	}
	if deps.Reporter == nil {
		err = errors.Join(err, errors.New("Deps.Reporter is nil; want what this router does"))
	}
	if err != nil {
		return nil, fmt.Errorf("feed: %w", err)
	}
	f := &Follower{
		cfg: cfg, deps: deps, log: deps.Logger, run: rand.Text(),
		nudge: make(chan struct{}, 1), hurry: make(chan struct{}, 1), unsaved: make(chan struct{}, 1), mirror: newMirror(cfg.Cluster),
	}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	f.applied.Store(&Version{})
	f.now.Store(&held{state: f.mirror.state, changed: make(chan struct{})})
	if f.metrics, err = newFollowerMetrics(deps.Registerer, f); err != nil {
		return nil, fmt.Errorf("feed: metrics: %w", err)
	}
	return f, nil
}

// Load reads the copy on the disk, if there is one, so that State has it before
// Run does. A copy that cannot be used is told in the log, and is no reason not to
// start: the router then begins with nothing.
func (f *Follower) Load() {
	f.loading.Lock()
	defer f.loading.Unlock()
	if f.loaded || f.cfg.File == "" {
		return
	}
	f.loaded = true
	copied, err := readCopy(f.cfg.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case err != nil:
		f.metrics.copyErrors.Inc()
		f.log.Error("the copy of the feed is not used, and this router begins with nothing until a control plane is reached", "file", f.cfg.File, "err", err)
		return
	case f.cfg.Cluster != "" && copied.version.Cluster != f.cfg.Cluster:
		f.metrics.copyErrors.Inc()
		f.log.Error("the copy of the feed is of another cluster, and is not used", "file", f.cfg.File, "cluster", copied.version.Cluster, "want", f.cfg.Cluster)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mirror.content, f.mirror.state = copied.content, copied.content.state(copied.version, true, &State{})
	f.mirror.cluster, f.mirror.heard = copied.version.Cluster, copied.heard
	f.copiedAt = copied.at
	f.show()
	f.log.Info("serving from the copy of the feed until a control plane is reached; its entries are probed before they are used",
		"file", f.cfg.File, "version", copied.version.String(), "saved", copied.at, "entries", len(f.mirror.state.Entries))
}

// show has readers see the mirror's state. f.mu is held.
func (f *Follower) show() {
	was := f.now.Swap(&held{state: f.mirror.state, changed: make(chan struct{})})
	close(was.changed)
}

// State returns what is known now, and what is closed when there is something
// newer. It blocks for nobody.
func (f *Follower) State() (s *State, changed <-chan struct{}) {
	h := f.now.Load()
	return h.state, h.changed
}

// Applied says that the router goes by a version: it begins no request at an
// instance that is not in it. The control plane hears of it at once.
func (f *Follower) Applied(v Version) {
	f.applied.Store(&v)
	f.askReport()
}

func (f *Follower) askReport() {
	select {
	case f.nudge <- struct{}{}:
	default:
	}
}

// Run follows the feed until ctx is done, and returns nil. It never gives up, and
// never forgets what it knows: a control plane that is away empties no pool. Call
// it once.
func (f *Follower) Run(ctx context.Context) error {
	f.Load()
	var saving sync.WaitGroup
	defer saving.Wait()
	saving.Go(func() { f.keepCopy(ctx) })
	f.follow(ctx)
	return nil
}

// take takes a frame.
func (f *Follower) take(frame *apipb.WatchFeedResponse) (outcome, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	heard := f.mirror.heard
	now := time.Now()
	out, err := f.mirror.take(frame, now)
	f.metrics.frame(out, err)
	if err != nil {
		return out, err
	}
	f.heardAt = now
	if out == outcomeChanged {
		f.warnUnread(f.now.Load().state, f.mirror.state)
		f.show()
	}
	if out == outcomeChanged || heard != f.mirror.heard {
		select {
		case f.unsaved <- struct{}{}:
		default:
		}
	}
	return out, nil
}

// warnUnread tells of models that cannot be read, once. f.mu is held.
func (f *Follower) warnUnread(was, is *State) {
	known := make(map[string]bool, len(was.Unread))
	for _, name := range was.Unread {
		known[name] = true
	}
	for _, m := range is.models {
		if m.model == nil && !known[m.name] {
			f.log.Error("a model of the catalog cannot be read by this router, and is missing here; is the control plane newer than it?", "model", m.name, "err", m.why)
		}
	}
}

// keepCopy saves what is known, a while after each change, until ctx is done and
// the last of it is saved.
func (f *Follower) keepCopy(ctx context.Context) {
	if f.cfg.File == "" {
		return
	}
	const again = 10 * time.Second // after a failure
	told := time.Time{}
	save := func() time.Duration {
		err := f.save()
		switch {
		case err == nil:
			told = time.Time{}
			return f.cfg.SaveInterval
		case time.Since(told) >= saidAgain:
			told = time.Now()
			f.log.Error("the copy of the feed cannot be saved; after a restart without a control plane this router would know less", "file", f.cfg.File, "err", err)
		}
		f.metrics.copyErrors.Inc()
		select {
		case f.unsaved <- struct{}{}:
		default:
		}
		return again
	}
	for {
		select {
		case <-ctx.Done():
			select {
			case <-f.unsaved:
				save()
			default:
			}
			return
		case <-f.unsaved:
		}
		timer := time.NewTimer(save())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

func (f *Follower) save() error {
	f.mu.Lock()
	state, heard := f.mirror.state, f.mirror.heard
	f.mu.Unlock()
	if !state.Known() {
		return nil
	}
	data, err := encodeCopy(state, heard, time.Now())
	if err != nil {
		return err
	}
	return writeCopy(f.cfg.File, data)
}

// Stats is how a follower stands.
type Stats struct {
	// Version is what it knows; HeardTerm the highest term that it has heard of.
	Version   Version
	HeardTerm uint64
	// Connected is the source whose frames it gets; "": none.
	Connected string
	// Age is for how long it had no frame. Not known: it had none since its start.
	Age engines.Opt[time.Duration]
	// Unverified: it is the copy, from CopiedAt.
	Unverified bool
	CopiedAt   time.Time
	// Applied is what the router said it goes by.
	Applied Version
}

// Stats returns how the follower stands.
func (f *Follower) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := Stats{
		Version: f.mirror.state.Version, HeardTerm: f.mirror.heard, Connected: f.source,
		Unverified: f.mirror.state.Unverified, CopiedAt: f.copiedAt, Applied: *f.applied.Load(),
	}
	if !f.heardAt.IsZero() {
		s.Age = engines.Known(time.Since(f.heardAt))
	}
	return s
}
