package gateway

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/feed"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/endpoint"
)

// OnDemand is the section `on_demand`.
type OnDemand struct {
	// Wait is how long a request waits for a model that nothing serves yet, and that is
	// being loaded or will be; after it the client is told to come again. A request
	// waits no longer in all, whatever fallbacks it is tried on. Default 10s; 1s to
	// 25s, for clients commonly give up after 30 s.
	Wait time.Duration `yaml:"wait"`
	// MaxWaiting bounds the requests that wait for one model; further ones are told to
	// come again at once. Their bodies count as router.body_memory says. Default 256;
	// 1 to 100000.
	MaxWaiting int `yaml:"max_waiting"`
}

func defaultOnDemand() OnDemand { return OnDemand{Wait: 10 * time.Second, MaxWaiting: 256} }

const (
	maxWakeWait = 25 * time.Second
	mostWaiting = 100_000
)

func (c OnDemand) validate() []error {
	var errs []error
	if c.Wait < time.Second || c.Wait > maxWakeWait {
		errs = append(errs, fmt.Errorf("wait: %v is out of range; want 1s to %v, such as 10s", c.Wait, maxWakeWait))
	}
	if c.MaxWaiting < 1 || c.MaxWaiting > mostWaiting {
		errs = append(errs, fmt.Errorf("max_waiting: %d is out of range; want 1 to %d, such as 256", c.MaxWaiting, mostWaiting))
	}
	return errs
}

// wakes has requests wait for models that nothing serves, while a control plane is
// followed that starts them. They go on in the order in which they came, once there is
// an endpoint; or are refused, when there will be none for now.
//
// For a model that is served it is a look at the snapshot of the endpoints, and a note
// of the time.
type wakes struct {
	cfg       OnDemand
	endpoints *endpoint.Set
	metrics   *wakeMetrics
	base      time.Time     // of wanted.asked
	news      chan struct{} // has an element when requests have begun to wait for a model

	following atomic.Bool // somebody may start models
	at        atomic.Pointer[map[string]*wanted]

	// mu is held to put models and statuses in the place of others, and to change who
	// waits; nothing is waited for under it.
	mu       sync.Mutex
	statuses map[string]feed.ModelStatus // guarded by mu
}

// wanted is a model of the catalog as requests want it.
type wanted struct {
	name  string
	asked atomic.Int64 // when the last request came, since wakes.base; 0: none has
	state atomic.Pointer[standing]

	queue   []*sleeper // in the order in which they came; guarded by wakes.mu
	leaving bool       // the queue goes on, one after the other; guarded by wakes.mu
}

// sleeper is a request that waits.
type sleeper struct {
	// done has what becomes of it: nil, it goes on, and then the next one may.
	done chan *refused
}

func newWakes(cfg OnDemand, set *endpoint.Set, reg prometheus.Registerer) (*wakes, error) {
	k := &wakes{cfg: cfg, endpoints: set, base: time.Now(), news: make(chan struct{}, 1)}
	k.at.Store(&map[string]*wanted{})
	var err error
	k.metrics, err = newWakeMetrics(reg, k)
	return k, err
}

// askedStep is how exactly it is known when a model was asked for last: what all
// requests of a model write would cost them more than what they read.
const askedStep = 100 * time.Millisecond

// Wake implements [router.Waker].
func (k *wakes) Wake(ctx context.Context, w *router.Wake) error {
	m := (*k.at.Load())[w.Model]
	if m == nil {
		return nil
	}
	if at := int64(max(w.Arrived.Sub(k.base), 1)); at-m.asked.Load() >= int64(askedStep) || m.asked.Load() == 0 {
		m.asked.Store(at)
	}
	if k.served(m) || !k.following.Load() {
		return nil
	}
	if why := k.wait(ctx, m, w); why != nil {
		if why.outcome == wakeCanceled {
			return context.Cause(ctx)
		}
		return why.answer(m.name, w.Explain)
	}
	return nil
}

func (k *wakes) served(m *wanted) bool { return len(k.endpoints.Snapshot().ForModel(m.name)) > 0 }

// wakeable reports whether a request for some model could bring it up, or has.
func (k *wakes) wakeable() bool {
	if !k.following.Load() {
		return false
	}
	for _, m := range *k.at.Load() {
		if m.state.Load().wakeable() {
			return true
		}
	}
	return false
}

// wait waits for m, and says why the request does not go on.
func (k *wakes) wait(ctx context.Context, m *wanted, w *router.Wake) *refused {
	begin := time.Now()
	wait := min(k.cfg.Wait-w.Waited, w.Deadline.Sub(begin))
	x, why := k.enter(m, begin, wait)
	if x != nil {
		why = k.sleep(ctx, m, x, wait)
		took := time.Since(begin)
		w.Waited += took
		k.count(m, func() { k.metrics.waited(m.name, took) })
	}
	if why != nil || x != nil { // else there was nothing to wait for, or no need
		k.count(m, func() { k.metrics.ended(m.name, why) })
	}
	return why
}

// count has something counted of a model that the catalog still has: of one that is
// gone there is no series.
func (k *wakes) count(m *wanted, count func()) {
	if (*k.at.Load())[m.name] == m {
		count()
	}
}

// enter puts a request into the queue, or says what becomes of it without: nothing at
// all, it goes on as if nobody were asked.
func (k *wakes) enter(m *wanted, now time.Time, wait time.Duration) (*sleeper, *refused) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.served(m) { // since it was looked at first; later ones find the queue
		return nil, nil
	}
	s := m.state.Load()
	why, waits := s.judge(now)
	switch {
	case !waits:
		return nil, why
	case wait <= 0:
		return nil, s.refuse(wakeExpired, now)
	case len(m.queue) >= k.cfg.MaxWaiting:
		return nil, s.refuse(wakeFull, now)
	}
	x := &sleeper{done: make(chan *refused, 1)}
	m.queue = append(m.queue, x)
	if len(m.queue) == 1 {
		select {
		case k.news <- struct{}{}:
		default:
		}
	}
	return x, nil
}

// sleep waits until it is said what becomes of x.
func (k *wakes) sleep(ctx context.Context, m *wanted, x *sleeper, wait time.Duration) *refused {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	var why *refused
	select {
	case why = <-x.done:
	case <-timer.C:
		why = k.leave(m, x, wakeExpired)
	case <-ctx.Done():
		why = k.leave(m, x, wakeCanceled)
	}
	if why == nil {
		k.mu.Lock()
		k.next(m)
		k.mu.Unlock()
	}
	return why
}

// leave takes a request out of the queue, unless what becomes of it was said meanwhile.
func (k *wakes) leave(m *wanted, x *sleeper, o wakeOutcome) *refused {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.Index(m.queue, x)
	if i < 0 {
		return <-x.done
	}
	m.queue = slices.Delete(m.queue, i, i+1)
	return m.state.Load().refuse(o, time.Now())
}

// next has the request that came first go on, if there is an endpoint; it says when
// the one after it may. k.mu is held.
func (k *wakes) next(m *wanted) {
	m.leaving = len(m.queue) > 0 && k.served(m)
	if m.leaving {
		m.queue[0].done <- nil
		m.queue[0] = nil
		m.queue = m.queue[1:]
	}
}

// settle lets those go on, or end, for whom it can be said. k.mu is held.
func (k *wakes) settle(m *wanted) {
	if len(m.queue) == 0 {
		return
	}
	if k.served(m) {
		if !m.leaving {
			k.next(m)
		}
		return
	}
	now := time.Now()
	s := m.state.Load()
	why, waits := s.judge(now)
	if waits {
		return
	}
	if why == nil {
		why = s.refuse(wakeOff, now)
	}
	for _, x := range m.queue {
		x.done <- why
	}
	m.queue = nil
}

// setCatalog puts the models of a catalog in the place of those before, and lets
// whoever has an endpoint now go on.
func (k *wakes) setCatalog(c *catalog.Catalog) {
	k.mu.Lock()
	defer k.mu.Unlock()
	was := *k.at.Load()
	is := make(map[string]*wanted, c.Len())
	for _, model := range c.Models() {
		m := was[model.Name]
		if m == nil {
			m = &wanted{name: model.Name}
		}
		is[model.Name] = m
		k.stand(m, &model)
	}
	k.at.Store(&is)
	for name, m := range was {
		if is[name] == nil {
			m.state.Store(&standing{})
			k.settle(m)
			k.metrics.forget(name)
		}
	}
}

// stand sets how a model stands. k.mu is held.
func (k *wakes) stand(m *wanted, model *catalog.Model) {
	s := &standing{declared: model.Profile != nil}
	least, most := model.Replicas()
	s.runs, s.onDemand = most > 0, least == 0 && most > 0
	s.status, s.told = k.statuses[m.name]
	m.state.Store(s)
	k.settle(m)
}

// setStatuses puts what a control plane says of models in the place of what it said
// before.
func (k *wakes) setStatuses(all []feed.ModelStatus) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.statuses = make(map[string]feed.ModelStatus, len(all))
	for _, s := range all {
		k.statuses[s.Model] = s
	}
	for name, m := range *k.at.Load() {
		s := *m.state.Load()
		s.status, s.told = k.statuses[name]
		m.state.Store(&s)
		k.settle(m)
	}
}

// demand returns what is known of the demand for models, without admission's part.
func (k *wakes) demand(now time.Time) map[string]*feed.Demand {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := map[string]*feed.Demand{}
	for name, m := range *k.at.Load() {
		at := m.asked.Load()
		if !m.state.Load().managed() || at == 0 && len(m.queue) == 0 {
			continue
		}
		d := &feed.Demand{Model: name, Waiting: len(m.queue)}
		if at != 0 {
			d.Asked = engines.Known(max(now.Sub(k.base)-time.Duration(at), 0))
		}
		all[name] = d
	}
	return all
}

// waiting returns how many requests wait for each model for which any does.
func (k *wakes) waiting() map[string]int {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := map[string]int{}
	for name, m := range *k.at.Load() {
		if n := len(m.queue); n > 0 {
			all[name] = n
		}
	}
	return all
}
