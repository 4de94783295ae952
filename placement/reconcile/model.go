package reconcile

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/placement/scale"
)

// model is what is wanted of one model, and how placing it went.
type model struct {
	name string
	// scaling is between which numbers, and scaler decides which it is. count replicas
	// of profile are wanted then, floor of which have to be there; each is placed by
	// wish. problem says why none can be; count is then of no effect.
	scaling     catalog.Scaling
	scaler      scale.Scaler
	scaled      scale.Decision
	count       int
	floor       int
	floorAt     time.Time // to which minute floor is known
	prewarm     string    // what raises the floor; empty: nothing does
	profile     engines.Profile
	fingerprint string
	stated      placement.Wish // as the entry has it
	need        Need           // what is known besides
	wish        placement.Wish // both
	problem     string
	// askAgain is when the shape is asked for again, of entry: its adapter did not
	// answer. Zero: it has.
	askAgain time.Time
	entry    catalog.Model
	// waited is since when a replica that is missing waits for what nodes say of the
	// weights; zero: none does.
	waited time.Time

	// failures in a row; after is when the next start may be tried.
	failures int
	after    time.Time
	reason   string // of the last failure
	// unplaced is why no place was found last; nil: one was. space is what the core's
	// was then, tries how often in a row, and retry when it is tried again though
	// nothing was freed.
	unplaced *placement.Decision
	space    uint64
	tries    int
	retry    time.Time

	replicas []*replica // in the step
	kin      kin        // those replicas, by what is to become of them

	// demand is what routers said last; askedAt when a request for it came last, as
	// far as any of them said.
	demand  Demand
	askedAt time.Time
	// loads are how long replicas took to be ready, wakes how long those that slept.
	loads, wakes loads
	// unwoken is when one that slept did not wake; zero: all did.
	unwoken time.Time
	// evicted is when one was ended last for another model's sake, thrashed how often
	// one was loaded again within [thrashWindow] of that.
	evicted  time.Time
	thrashed int
	// evictAt is when it may be looked for what could make room next.
	evictAt time.Time
	// told is what was said of it to routers, toldAt when.
	told   ModelStatus
	toldAt time.Time
}

// setCatalog takes what is wanted.
func (c *Core) setCatalog(cat *catalog.Catalog) {
	c.catalog = cat
	old := c.byName
	c.models, c.byName = nil, map[string]*model{}
	for _, entry := range cat.Models() {
		m := &model{name: entry.Name}
		if was := old[entry.Name]; was != nil {
			m = was
		}
		before := m.fingerprint
		c.want(m, &entry)
		if m.fingerprint != before { // another profile may do better
			m.failures, m.after, m.reason, m.unwoken = 0, time.Time{}, "", time.Time{}
			m.loads, m.wakes = nil, nil
		}
		c.models = append(c.models, m)
		c.byName[m.name] = m
	}
	c.space++
}

// want sets what a catalog's entry asks for.
func (c *Core) want(m *model, entry *catalog.Model) {
	m.problem, m.unplaced, m.askAgain, m.entry = "", nil, time.Time{}, catalog.Model{}
	m.scaling, m.floorAt = catalog.Scaling{}, time.Time{}
	m.fingerprint, m.profile, m.stated, m.wish = "", engines.Profile{}, placement.Wish{}, placement.Wish{}
	profile, is := entry.RunProfile()
	if !is {
		return
	}
	if entry.Scaling != nil {
		m.scaling = *entry.Scaling
	}
	m.profile = profile
	m.fingerprint = Fingerprint(m.profile)
	shape, err := c.deps.shape(m.profile)
	if err != nil {
		m.problem = err.Error()
		if errors.Is(err, engines.ErrUnavailable) {
			m.askAgain, m.entry = c.now.Add(c.cfg.BaseBackoff), *entry
		}
		return
	}
	m.stated = wishOf(entry, m.profile, shape)
	m.takeNeed()
}

// takeNeed sets what is wished for by what is known of the need.
func (m *model) takeNeed() {
	m.wish = m.stated
	if m.need.Command == m.fingerprint && m.problem == "" {
		m.wish = m.need.Over(m.stated)
	}
}

// setNeeds takes what is known of needs.
func (c *Core) setNeeds(needs []Need) {
	known := make(map[string]*Need, len(needs))
	for i := range needs {
		known[needs[i].Model] = &needs[i]
	}
	for _, m := range c.models {
		next := known[m.name]
		if next == nil {
			next = &Need{}
		}
		was := m.need
		m.need = *next
		if was.equal(next) || m.fingerprint == "" {
			continue
		}
		m.takeNeed()
		m.unplaced = nil // of another need
	}
}

// lookGrace is how long a replica that is missing waits for nodes that are asked
// for the weights of its model: a filer that answers at all has answered by then.
const lookGrace = 10 * time.Second

// waits reports whether a replica that is missing is to wait for what nodes say of
// its weights.
func (c *Core) waits(m *model) bool {
	if !m.need.Looking || m.need.Command != m.fingerprint {
		m.waited = time.Time{}
		return false
	}
	if m.waited.IsZero() {
		m.waited = c.now
	}
	return c.now.Sub(m.waited) < lookGrace
}

// shape returns what a replica of the profile needs.
func (d *CoreDeps) shape(p engines.Profile) (engines.Shape, error) {
	if d.Shape != nil {
		return d.Shape(p)
	}
	return EvenShape(p)
}

// EvenShape is the shape of a profile by its own numbers: each rank takes an
// equal part of the cards and a port, and rank 0 alone serves HTTP.
func EvenShape(p engines.Profile) (engines.Shape, error) {
	p = p.WithDefaults()
	if p.Ranks < 1 || p.Cards()%p.Ranks != 0 {
		return engines.Shape{}, fmt.Errorf("the profile's %d cards cannot be split over %d ranks", p.Cards(), p.Ranks)
	}
	shape := engines.Shape{Ranks: make([]engines.RankShape, p.Ranks)}
	for i := range shape.Ranks {
		shape.Ranks[i] = engines.RankShape{
			Cards: p.Cards() / p.Ranks, ServesHTTP: i == 0, Ports: []engines.PortNeed{{Name: engines.PortHTTP, Count: 1}},
		}
	}
	return shape, nil
}

// wishOf is what the solver is asked for.
func wishOf(entry *catalog.Model, p engines.Profile, shape engines.Shape) placement.Wish {
	w := placement.Wish{Model: entry.Name, WeightsKey: entry.WeightsKey(), Need: placement.NeedOf(p, shape)}
	if at := entry.Placement; at != nil {
		w.Nodes, w.Labels, w.Spread, w.Apart = at.Nodes, at.Labels, at.Spread, at.Apart
		w.Need.Classes = at.Classes
		if at.CardMemoryBytes > 0 {
			w.Need.CardBytes = engines.Known(at.CardMemoryBytes)
		}
		if at.HostMemoryBytes > 0 {
			for i := range w.Need.Ranks {
				w.Need.Ranks[i].HostBytes = at.HostMemoryBytes
			}
		}
	}
	return w
}

// Fingerprint is a hash of what a profile makes of an engine: replicas of two
// profiles with one fingerprint are alike. How long an engine may take to load or
// to stop is no part of it.
func Fingerprint(p engines.Profile) string {
	p = p.WithDefaults()
	p.LoadTimeout, p.StopGrace = 0, 0
	text, err := json.Marshal(p) // maps are sorted
	if err != nil {
		panic(err) // plain data always marshals
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// byNeed returns the models in the order in which they are placed: those that
// need most nodes first, then most cards, since what is small fits in what they
// leave. It gathers each model's replicas, and lets go those of no model.
func (c *Core) byNeed() []*model {
	for _, m := range c.models {
		m.replicas = m.replicas[:0]
	}
	for _, r := range c.replicas {
		if m := c.byName[r.row.Model]; m != nil {
			m.replicas = append(m.replicas, r)
			continue
		}
		if (r.row.State.holds() || r.row.State == Lost) && // what sleeps is looked after by itself
			!slices.Contains(c.aside, r.row.Model) {
			c.retire(r, "its model left the catalog")
		}
	}
	if !slices.IsSortedFunc(c.models, byNeed) {
		c.models = slices.Clone(c.models)
		slices.SortFunc(c.models, byNeed)
	}
	return c.models
}

func byNeed(a, b *model) int {
	ra, rb := a.wish.Need.Ranks, b.wish.Need.Ranks
	return cmp.Or(-cmp.Compare(len(ra), len(rb)), -cmp.Compare(a.profile.Cards(), b.profile.Cards()), cmp.Compare(a.name, b.name))
}

// failed notes that a replica did not come up or did not stay, and has the next
// one wait: twice as long each time, and as at first after one that stayed.
func (m *model) failed(c *Core, r *replica, why string) {
	if !r.readyAt.IsZero() && c.now.Sub(r.readyAt) >= c.cfg.MaxBackoff {
		m.failures = 0
	}
	if !r.woken.IsZero() {
		m.unwoken = c.now
	}
	m.failures++
	m.reason = why
	m.after = c.now.Add(c.backoff(m.failures))
}

// backoff is the pause after the nth failure in a row.
func (c *Core) backoff(n int) time.Duration {
	pause := c.cfg.BaseBackoff
	for range n - 1 {
		pause = min(2*pause, c.cfg.MaxBackoff)
	}
	return pause
}
