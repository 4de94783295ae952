package faults

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/llmgw/llmgw/engines"
)

// maxCards bounds the cards of a book: the kernel's log could name any address.
const maxCards = 256

// Book knows the faults of the cards of one machine. Make it with New. Its
// methods may be called concurrently; each is done when it returns.
//
// A card goes by its key, which is its PCI address, or its [engines.GPU.ID]
// where it has no address.
type Book struct {
	policy Policy
	xids   map[int]Action

	mu       sync.Mutex
	seq      uint64           // guarded by mu; the last line of the kernel's log that was heeded
	cards    map[string]*card // guarded by mu; by key
	revision uint64           // guarded by mu
}

// card is what is known of one card.
type card struct {
	uuid, driver string
	// faults are those that the policy does not ignore and that are not over and
	// done with; noted are those that it ignores. One of each kind.
	faults, noted []fault
	returns       []time.Time
	// forgiven is the count of uncorrected errors that an operator accepted.
	forgiven uint64

	read        bool      // it has answered since the process began
	clean, seen time.Time // since when it reads clean (zero: it does not), and when it was looked at last
	uncorrected engines.Opt[uint64]
	recovery    string
}

// fault is one kind of fault of one card.
type fault struct {
	Kind   string    `json:"kind"`
	Detail string    `json:"detail,omitempty"`
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
	Count  int       `json:"count"`
	// Over says by what it is over. Empty: it lasts.
	Over string `json:"over,omitempty"`
	// UUID is the card's, where it had answered before the fault.
	UUID string `json:"uuid,omitempty"`
}

// The kinds of faults that are read from a card. All others are XIDs.
const (
	notAnswering   = "not-answering"
	eccUncorrected = "ecc-uncorrected"
	remapPending   = "remap-pending"
	remapFailed    = "remap-failed"
	recoveryAsked  = "recovery"
)

// Observation is what one reading shows of a card.
type Observation struct {
	// Unread: the card could not be looked at, and nothing else is set.
	Unread bool
	// NotAnswering says why, when the card is there and its driver tells
	// nothing of it. Then Errors and Recovery are not heeded.
	NotAnswering string
	// UUID and Driver are as in [engines.GPU]; empty: not known.
	UUID, Driver string
	Errors       engines.MemoryErrors
	// Recovery is what the driver asks for, in its words: "None", "Reset",
	// "Reboot". Empty: not known.
	Recovery string
}

// New validates p and returns an empty Book.
func New(p Policy) (*Book, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("faults: %w", err)
	}
	return &Book{policy: p, xids: p.table(), cards: make(map[string]*card)}, nil
}

// Revision grows with each change that [Book.Marshal] would write down.
func (b *Book) Revision() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.revision
}

// Kernel takes note of an event of the time at. One that was heeded before, by its number, is
// passed over, so that a log may be read from its beginning again.
func (b *Book) Kernel(at time.Time, e Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.Seq != 0 {
		if e.Seq <= b.seq {
			return
		}
		b.seq = e.Seq
		b.revision++
	}
	switch e.Kind {
	case DriverLoaded:
		for _, c := range b.cards {
			b.repaired(c, "the driver was loaded anew")
		}
	case CardReset:
		b.repaired(b.card(e.Bus), "the card was reset")
	case XID:
		c := b.card(e.Bus)
		if e.Recovered {
			b.repaired(c, "the driver asks for no recovery any more")
		}
		b.happened(c, at, xidKind(e.XID), e.Text)
	case EventUnset:
	}
}

// Observe takes note of a reading of a card. Observations of a card come in the
// order of their time.
func (b *Book) Observe(now time.Time, key string, o Observation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.card(key)
	if o.Unread {
		c.clean = time.Time{}
		return
	}
	if o.UUID != "" && c.uuid != o.UUID {
		if c.uuid != "" { // another card; what happened before it first answered is its own
			*c = card{faults: slices.DeleteFunc(c.faults, func(f fault) bool { return f.UUID != "" })}
		}
		c.uuid = o.UUID
		b.revision++
	}
	c.noted = slices.DeleteFunc(c.noted, func(f fault) bool { return now.Sub(f.Last) > b.policy.CleanFor })
	if o.NotAnswering == "" {
		c.read = true
		b.seeRepairs(c, o)
	}
	b.countClean(c, now, b.readFaults(c, now, o))
	b.giveBack(c, now)
}

// seeRepairs compares a reading with the one before it.
func (b *Book) seeRepairs(c *card, o Observation) {
	if o.Driver != "" {
		if c.driver != "" && c.driver != o.Driver {
			b.repaired(c, fmt.Sprintf("driver %s was loaded in place of %s", o.Driver, c.driver))
		}
		if c.driver != o.Driver {
			c.driver = o.Driver
			b.revision++
		}
	}
	if n, ok := o.Errors.Uncorrected.Get(); ok {
		if c.uncorrected.Or(0) > n {
			b.repaired(c, "its counters began anew")
		}
		if c.forgiven > n {
			c.forgiven = 0
			b.revision++
		}
		c.uncorrected = o.Errors.Uncorrected
	}
	if o.Recovery != "" {
		if c.recovery != "" && c.recovery != noRecovery && o.Recovery == noRecovery {
			b.repaired(c, "the driver asks for no recovery any more")
		}
		c.recovery = o.Recovery
	}
}

const noRecovery = "None"

// verdict is what one reading says of one kind of fault.
type verdict struct {
	kind      string
	bad, good bool // neither: the reading does not say
	detail    string
}

// verdicts returns what a reading says of each kind of fault that can be read.
func (c *card) verdicts(o Observation) []verdict {
	v := []verdict{{kind: notAnswering, bad: o.NotAnswering != "", good: o.NotAnswering == "", detail: o.NotAnswering}}
	if o.NotAnswering != "" {
		o = Observation{}
	}
	n, known := o.Errors.Uncorrected.Get()
	flag := func(kind string, f engines.Opt[bool], detail string) verdict {
		return verdict{kind: kind, bad: f.Is(true), good: f.Is(false), detail: detail}
	}
	return append(v,
		verdict{eccUncorrected, known && n > c.forgiven, known && n <= c.forgiven, strconv.FormatUint(n, 10) + " uncorrected memory errors since the driver was loaded"},
		flag(remapPending, o.Errors.RemapPending, "memory rows or pages wait to be replaced"),
		flag(remapFailed, o.Errors.RemapFailed, "memory rows could not be replaced"),
		verdict{recoveryAsked, o.Recovery != "" && o.Recovery != noRecovery, o.Recovery == noRecovery, "the driver asks for: " + o.Recovery},
	)
}

// readFaults begins and ends the faults that are read. It reports whether the
// reading is clean: the card answers, nothing is bad, and of each fault that was
// read before it says that it is over.
func (b *Book) readFaults(c *card, now time.Time, o Observation) (clean bool) {
	clean = true
	for _, v := range c.verdicts(o) {
		i := slices.IndexFunc(c.faults, func(f fault) bool { return f.Kind == v.kind })
		switch {
		case v.bad:
			b.happened(c, now, v.kind, v.detail)
			clean = clean && b.action(v.kind) == Ignore
		case i < 0:
		case v.good:
			if c.faults[i].Over == "" {
				c.faults[i].Over = "it reads well again"
				b.revision++
			}
		default:
			clean = false
		}
	}
	return clean
}

// countClean notes since when a card reads clean. A gap between two readings
// of more than a fifth of the time that is asked for begins it anew.
func (b *Book) countClean(c *card, now time.Time, clean bool) {
	gap := now.Sub(c.seen)
	c.seen = now
	switch {
	case !clean:
		c.clean = time.Time{}
	case c.clean.IsZero(), gap > b.policy.CleanFor/5, gap < 0:
		c.clean = now
	}
}

// giveBack ends the faults of a card that may be used again.
func (b *Book) giveBack(c *card, now time.Time) {
	if b.worst(c) != Exclude {
		return
	}
	lasts := slices.ContainsFunc(c.faults, func(f fault) bool { return f.Over == "" && b.action(f.Kind) == Exclude })
	if lasts || c.clean.IsZero() || now.Sub(c.clean) < b.policy.CleanFor || b.spent(c, now) {
		return
	}
	c.returns = append(b.recentReturns(c, now), now)
	c.faults = nil
	b.revision++
}

// spent reports whether a card has come back by itself as often as it may.
func (b *Book) spent(c *card, now time.Time) bool {
	return len(b.recentReturns(c, now)) >= b.policy.MaxReturns
}

func (b *Book) recentReturns(c *card, now time.Time) []time.Time {
	return slices.DeleteFunc(slices.Clone(c.returns), func(t time.Time) bool { return now.Sub(t) >= b.policy.ReturnsWithin })
}

// happened notes a fault.
func (b *Book) happened(c *card, now time.Time, kind, detail string) {
	list := &c.faults
	if b.action(kind) == Ignore {
		list = &c.noted
	} else if !isRead(kind) {
		c.clean = time.Time{}
	}
	i := slices.IndexFunc(*list, func(f fault) bool { return f.Kind == kind })
	if i < 0 {
		i = len(*list)
		*list = append(*list, fault{Kind: kind, First: now})
		b.revision++
	}
	f := &(*list)[i]
	if c.read {
		f.UUID = c.uuid
	}
	// A fault that is read lasts: it is written down when it begins or changes,
	// not at each reading.
	if f.Over != "" || f.Detail != detail || !isRead(kind) {
		b.revision++
	}
	f.Detail, f.Last, f.Over = detail, now, ""
	f.Count++
}

// repaired ends what happened before a repair was seen, from which on clean
// time counts. What is read from the card it leaves to the next reading.
func (b *Book) repaired(c *card, how string) {
	for i := range c.faults {
		if f := &c.faults[i]; f.Over == "" && !isRead(f.Kind) {
			f.Over = how
			c.clean = time.Time{}
			b.revision++
		}
	}
	c.faults = slices.DeleteFunc(c.faults, func(f fault) bool { return f.Over != "" && b.action(f.Kind) == RestartEngine })
}

// EnginesRestarted says that all engines which run on a card were started at or
// after the time started, as an agent also does of those that it finds running. It ends the faults up to then that asked for it. The card
// goes by its key or its UUID; one that is not known is no error.
func (b *Book) EnginesRestarted(name string, started time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.find(name)
	if !ok {
		return
	}
	before := len(c.faults)
	c.faults = slices.DeleteFunc(c.faults, func(f fault) bool {
		return b.action(f.Kind) == RestartEngine && !f.Last.After(started)
	})
	if len(c.faults) != before {
		b.revision++
	}
}

// Clear is an operator's word that a card is well. It ends every fault, forgets
// how often the card came back, and accepts the uncorrected errors that were
// counted up to now. What the next reading shows to be bad is a fault again. The
// card goes by its key or its UUID. Clear reports whether it is known.
func (b *Book) Clear(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.find(name)
	if !ok {
		return false
	}
	c.faults, c.noted, c.returns = nil, nil, nil
	c.forgiven = c.uncorrected.Or(0)
	b.revision++
	return true
}

// card returns the card of a key, a new one if need be.
func (b *Book) card(key string) *card {
	c, ok := b.cards[key]
	if !ok {
		c = new(card)
		if len(b.cards) < maxCards {
			b.cards[key] = c
		}
	}
	return c
}

func (b *Book) find(name string) (*card, bool) {
	if c, ok := b.cards[name]; ok {
		return c, true
	}
	for _, c := range b.cards {
		if c.uuid == name && name != "" {
			return c, true
		}
	}
	return nil, false
}

// isRead reports whether a kind of fault is read from the card; all others
// happen.
func isRead(kind string) bool {
	return slices.Contains([]string{notAnswering, eccUncorrected, remapPending, remapFailed, recoveryAsked}, kind)
}

func xidKind(n int) string { return "xid-" + strconv.Itoa(n) }

// action returns what a kind of fault means. A kind that this version does not
// know, from a record of another, excludes.
func (b *Book) action(kind string) Action {
	switch kind {
	case notAnswering:
		return b.policy.NotAnswering
	case eccUncorrected:
		return b.policy.UncorrectedECC
	case remapPending:
		return b.policy.RemapPending
	case remapFailed:
		return b.policy.RemapFailed
	case recoveryAsked:
		return b.policy.Recovery
	}
	var n int
	if _, err := fmt.Sscanf(kind, "xid-%d", &n); err == nil && kind == xidKind(n) {
		if a, ok := b.xids[n]; ok {
			return a
		}
		return b.policy.OtherXIDs
	}
	return Exclude
}

// worst returns the gravest action that the faults of a card ask for.
func (b *Book) worst(c *card) Action {
	worst := Ignore
	for _, f := range c.faults {
		switch b.action(f.Kind) {
		case Exclude:
			return Exclude
		case RestartEngine:
			worst = RestartEngine
		case Ignore:
		}
	}
	return worst
}

// dropIgnored ends the faults of a record that the policy ignores by now.
func (b *Book) dropIgnored(c *card) {
	c.faults = slices.DeleteFunc(c.faults, func(f fault) bool { return b.action(f.Kind) == Ignore })
}
