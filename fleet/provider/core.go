package provider

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/llmgw/llmgw/storage"
)

// Core decides the life of providers. It has no goroutine, clock or store: whoever owns
// it steps it with the time and an event, and does what the decision says. It is not
// for concurrent use.
type Core struct {
	cfg    Config
	byID   map[string]*entry
	byName map[string]*entry
	byURL  map[string]*entry
	ticked time.Time // when the last Tick came
}

// entry is a provider with what no store keeps.
type entry struct {
	p          storage.Provider
	leaseUntil time.Time
	// holderUntil is when the lease of the node ends that registered it first: until
	// then no other node may name it.
	holderUntil time.Time
	ttl         time.Duration
	// failed and lapsed are the two reasons for a degradation.
	failed, lapsed bool
	contest        Contest
	probedAt       time.Time
	probeFailure   string
}

// stall is how late a Tick may come before leases are given the time that nobody could
// renew them in.
const stall = 5 * time.Second

// Actor of what the registry does by itself.
const self = "provider-registry"

// NewCore returns a core with the providers that a store kept. Each dynamic one has
// one TTL from now to renew its lease: that nobody has done so yet says nothing. One
// that was degraded stays so until it answers and its lease is renewed, and how long it
// is goes on counting.
func NewCore(cfg Config, now time.Time, kept []storage.Provider) *Core {
	c := &Core{cfg: cfg, byID: make(map[string]*entry), byName: make(map[string]*entry), byURL: make(map[string]*entry), ticked: now}
	for _, p := range kept {
		e := &entry{p: p}
		if p.Kind == storage.ProviderDynamic {
			e.ttl = cfg.TTL
			e.leaseUntil = now.Add(cfg.TTL)
			e.failed, e.lapsed = !p.DegradedAt.IsZero(), !p.DegradedAt.IsZero()
		}
		c.index(e)
	}
	return c
}

func (c *Core) index(e *entry) { c.byID[e.p.ID], c.byName[e.p.Name], c.byURL[e.p.BaseURL] = e, e, e }

func (c *Core) drop(e *entry) {
	delete(c.byID, e.p.ID)
	delete(c.byName, e.p.Name)
	delete(c.byURL, e.p.BaseURL)
}

// Len is how many providers there are.
func (c *Core) Len() int { return len(c.byID) }

// Views calls f with each provider, by name. It must not change its lists.
func (c *Core) Views(f func(View)) {
	for _, name := range slices.Sorted(maps.Keys(c.byName)) {
		f(c.byName[name].view())
	}
}

// View returns a provider.
func (c *Core) View(id string) (View, bool) {
	e, ok := c.byID[id]
	if !ok {
		return View{}, false
	}
	return e.view(), true
}

func (e *entry) view() View {
	return View{Provider: e.p, LeaseUntil: e.leaseUntil, ProbedAt: e.probedAt, ProbeFailure: e.probeFailure, Contest: e.contest}
}

// Step decides what comes of an event. After an error nothing has changed but, after
// ErrHeld, the Contest that shows it; errors wrap one of this package. now must not go
// back.
func (c *Core) Step(now time.Time, ev Event) (Decision, error) {
	now = now.UTC().Truncate(time.Microsecond) // as stores keep it
	switch ev := ev.(type) {
	case Register:
		return c.register(now, ev)
	case Answered:
		return c.answered(now, ev), nil
	case Tick:
		return c.tick(now), nil
	case Add:
		return c.add(now, ev)
	case Patch:
		return c.patch(now, ev)
	case Delete:
		return c.delete(now, ev)
	}
	return Decision{}, fmt.Errorf("%w: event %T", ErrInvalid, ev)
}

func (c *Core) register(now time.Time, r Register) (Decision, error) {
	ttl := cmp.Or(r.TTL, c.cfg.TTL)
	if ttl < minTTL || ttl > maxTTL {
		return Decision{}, fmt.Errorf("%w: ttl_seconds: %v; want %v to %v", ErrInvalid, ttl, minTTL, maxTTL)
	}
	if r.Principal == "" || len(r.Principal) > maxText {
		return Decision{}, fmt.Errorf("%w: a registration needs the key of a principal", ErrInvalid)
	}
	if err := texts("node", r.Node, "name", r.Name, "engine", r.Engine); err != nil {
		return Decision{}, err
	}
	e, there := c.byURL[r.BaseURL]
	if !there {
		return c.registerNew(now, r, ttl)
	}
	if e.p.Kind != storage.ProviderDynamic {
		return Decision{ID: e.p.ID, Registration: e.registration("")}, nil
	}
	lives := now.Before(e.leaseUntil)
	if e.p.Principal != "" && e.p.Principal != r.Principal && lives {
		e.contest = Contest{Node: r.Node, Name: r.Name, Principal: r.Principal, At: now}
		return Decision{ID: e.p.ID, Visible: true}, fmt.Errorf("%w: %s is provider %q of principal %q; stop one of the two agents, or hand the address over with PATCH {\"kind\":\"dynamic\"}",
			ErrHeld, r.BaseURL, e.p.Name, e.p.Principal)
	}
	d := Decision{ID: e.p.ID}
	var warning string
	if e.p.Principal == r.Principal && e.p.Node != r.Node && now.Before(e.holderUntil) {
		// Two agents of one principal: the lease is renewed, and the first one's words stay.
		d.Visible = d.Visible || e.contest == (Contest{})
		e.contest = Contest{Node: r.Node, Name: r.Name, Principal: r.Principal, At: now}
		warning = fmt.Sprintf("node %q registers this address too, as %q: its name and node stay; stop one of the two agents", e.p.Node, e.p.Name)
	} else {
		e.holderUntil = now.Add(ttl)
		warning = c.renew(now, e, r, &d)
	}
	e.leaseUntil, e.ttl = now.Add(ttl), ttl
	if e.lapsed {
		e.lapsed = false
		d.Probe = append(d.Probe, e.p.ID) // it may be well again
	}
	c.settle(now, e, "", &d)
	d.Registration = e.registration(warning)
	return d, nil
}

// renew takes over what the holder says of a provider.
func (c *Core) renew(now time.Time, e *entry, r Register, d *Decision) (warning string) {
	p := e.p
	p.Node, p.Engine, p.Principal = r.Node, r.Engine, r.Principal
	action := "provider.register"
	if r.Name != "" && r.Name != p.Name {
		if other, taken := c.byName[r.Name]; taken && other != e {
			warning = fmt.Sprintf("the name %q is another provider's, at %s: this one stays %q; give one of them another --provider-name", r.Name, other.p.BaseURL, p.Name)
		} else {
			p.Name, action = r.Name, "provider.rename"
		}
	}
	if p.Node != e.p.Node || p.Engine != e.p.Engine || p.Principal != e.p.Principal || p.Name != e.p.Name {
		c.change(now, e, p, action, "principal:"+r.Principal, d)
	}
	return warning
}

func (c *Core) registerNew(now time.Time, r Register, ttl time.Duration) (Decision, error) {
	if len(c.byID) >= c.cfg.MaxProviders {
		return Decision{}, fmt.Errorf("%w: %d; raise providers.max_providers, or delete some", ErrFull, len(c.byID))
	}
	name, warning := cmp.Or(r.Name, hostOf(r.BaseURL)), ""
	if other, taken := c.byName[name]; taken {
		free := c.freeName(r.BaseURL, r.NewID)
		warning = fmt.Sprintf("the name %q is another provider's, at %s: this one is called %q; give one of them another --provider-name", name, other.p.BaseURL, free)
		name = free
	}
	e := &entry{
		p: storage.Provider{
			ID: r.NewID, Name: name, BaseURL: r.BaseURL, Kind: storage.ProviderDynamic, Node: r.Node, Engine: r.Engine, Principal: r.Principal,
			CreatedAt: now, ChangedAt: now,
		},
		leaseUntil: now.Add(ttl), holderUntil: now.Add(ttl), ttl: ttl,
	}
	d, err := c.create(e, "provider.register", "principal:"+r.Principal, ChangeRegistered)
	d.Registration = e.registration(warning)
	return d, err
}

// freeName is a name that nobody has: of the address, or the ID.
func (c *Core) freeName(baseURL, id string) string {
	if name := hostOf(baseURL); c.byName[name] == nil {
		return name
	}
	return id
}

func (c *Core) create(e *entry, action, actor string, change Change) (Decision, error) {
	if err := e.p.Validate(); err != nil {
		return Decision{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if c.byID[e.p.ID] != nil {
		return Decision{}, fmt.Errorf("%w: the ID %q is taken", ErrInvalid, e.p.ID)
	}
	d := Decision{ID: e.p.ID, Visible: true, Probe: []string{e.p.ID}}
	d.Writes = append(d.Writes, Write{Op: WriteCreate, Provider: e.p, Action: action, Actor: actor})
	e.p.Revision = 1
	c.index(e)
	d.note(e, change, "")
	return d, nil
}

// change replaces the record of a provider, which is valid.
func (c *Core) change(now time.Time, e *entry, p storage.Provider, action, actor string, d *Decision) {
	p.ChangedAt = now
	before := e.p
	d.Writes = append(d.Writes, Write{Op: WriteUpdate, Provider: p, Before: &before, Action: action, Actor: actor})
	delete(c.byName, e.p.Name)
	p.Revision++
	e.p = p
	c.byName[p.Name] = e
	d.Visible = true
	d.note(e, ChangeChanged, action)
}

func (e *entry) registration(warning string) Registration {
	return Registration{
		ID: e.p.ID, Name: e.p.Name, Kind: e.p.Kind, Leased: e.p.Kind == storage.ProviderDynamic, Degraded: !e.p.DegradedAt.IsZero(), Warning: warning,
	}
}

// settle makes degradation follow from its reasons: the first time and reason stay
// until none is left.
func (c *Core) settle(now time.Time, e *entry, why string, d *Decision) {
	degraded := e.failed || e.lapsed
	switch {
	case degraded && e.p.DegradedAt.IsZero():
		e.p.DegradedAt, e.p.DegradedReason = now, clip(why)
		d.see(e)
		d.note(e, ChangeDegraded, why)
	case !degraded && !e.p.DegradedAt.IsZero():
		e.p.DegradedAt, e.p.DegradedReason = time.Time{}, ""
		d.see(e)
		d.note(e, ChangeRecovered, "")
	}
}

// see keeps what was seen, once a step.
func (d *Decision) see(e *entry) {
	d.Visible = true
	if n := len(d.Writes); n > 0 && d.Writes[n-1].Op == WriteSeen && d.Writes[n-1].Provider.ID == e.p.ID {
		d.Writes[n-1].Provider = e.p
		return
	}
	d.Writes = append(d.Writes, Write{Op: WriteSeen, Provider: e.p})
}

func (d *Decision) note(e *entry, change Change, why string) {
	p := e.p
	p.Models, p.Credential = nil, nil
	d.Notes = append(d.Notes, Note{p, change, why})
}

func (c *Core) answered(now time.Time, a Answered) Decision {
	e, there := c.byID[a.ID]
	if !there {
		return Decision{} // deleted meanwhile
	}
	d := Decision{ID: a.ID}
	d.Visible = e.probeFailure != a.Failure
	e.probedAt, e.probeFailure = now, a.Failure
	if a.Failure == "" {
		models, same, gone := reconcile(e.p.Models, a.Models, now, c.cfg.ForgetModelsAfter)
		if !same {
			e.p.Models = models
			d.see(e)
		}
		if gone > 0 {
			d.note(e, ChangeDrifted, fmt.Sprintf("%d models that it served are not in its answer of %d", gone, len(a.Models)))
		}
	}
	if e.p.Kind != storage.ProviderDynamic {
		return d // the result is advice
	}
	e.failed = a.Failure != ""
	c.settle(now, e, a.Failure, &d)
	return d
}

func (c *Core) tick(now time.Time) Decision {
	var d Decision
	// What this process slept through nobody could renew.
	var lost time.Duration
	if gap := now.Sub(c.ticked); gap > stall {
		lost = gap
	}
	c.ticked = now
	for _, e := range c.byID {
		if e.p.Kind != storage.ProviderDynamic {
			continue
		}
		if lost > 0 && !e.lapsed {
			e.leaseUntil = e.leaseUntil.Add(lost)
		}
		if !e.contest.At.IsZero() && now.Sub(e.contest.At) >= max(e.ttl, c.cfg.TTL) {
			e.contest = Contest{}
			d.Visible = true
		}
		if now.Before(e.leaseUntil) {
			continue
		}
		if !e.lapsed {
			e.lapsed = true
			c.settle(now, e, fmt.Sprintf("its lease ended: node %q has not renewed it for %v", e.p.Node, e.ttl), &d)
			continue // removal always comes after
		}
		if !e.p.DegradedAt.IsZero() && now.Sub(e.p.DegradedAt) >= c.cfg.RemoveAfter {
			c.remove(e, "provider.remove", self, ChangeRemoved, fmt.Sprintf("not well since %s: %s", e.p.DegradedAt.Format(time.RFC3339), e.p.DegradedReason), &d)
		}
	}
	return d
}

func (c *Core) remove(e *entry, action, actor string, change Change, why string, d *Decision) {
	before := e.p
	d.Writes = append(d.Writes, Write{Op: WriteDelete, Provider: e.p, Before: &before, Action: action, Actor: actor})
	d.Visible = true
	d.note(e, change, why)
	c.drop(e)
}

func (c *Core) add(now time.Time, a Add) (Decision, error) {
	if a.Kind != storage.ProviderStatic && a.Kind != storage.ProviderCloud {
		return Decision{}, fmt.Errorf("%w: kind %v; want static or cloud: dynamic ones register themselves", ErrInvalid, a.Kind)
	}
	if a.Kind == storage.ProviderCloud {
		if _, known := VendorNamed(a.Vendor); !known {
			return Decision{}, fmt.Errorf("%w: vendor %q is not in the catalogue; want one of %s, or kind static", ErrInvalid, a.Vendor, strings.Join(vendorNames(), ", "))
		}
	} else if a.Vendor != "" {
		return Decision{}, fmt.Errorf("%w: vendor %q of a static provider; want kind cloud", ErrInvalid, a.Vendor)
	}
	if e, there := c.byURL[a.BaseURL]; there {
		return Decision{ID: e.p.ID}, fmt.Errorf("%w: it is %v provider %q; change that with PATCH, or delete it", ErrExists, e.p.Kind, e.p.Name)
	}
	if len(c.byID) >= c.cfg.MaxProviders {
		return Decision{}, fmt.Errorf("%w: %d; raise providers.max_providers, or delete some", ErrFull, len(c.byID))
	}
	name := cmp.Or(a.Name, a.Vendor, hostOf(a.BaseURL))
	if other, taken := c.byName[name]; taken {
		return Decision{ID: other.p.ID}, nameTaken(name, other)
	}
	e := &entry{p: storage.Provider{
		ID: a.NewID, Name: name, BaseURL: a.BaseURL, Kind: a.Kind, Vendor: a.Vendor, Node: a.Node, Engine: a.Engine,
		Credential: a.Credential, CredentialKey: a.CredentialKey, CreatedAt: now, ChangedAt: now,
	}}
	return c.create(e, "provider.add", a.Actor, ChangeAdded)
}

func nameTaken(name string, other *entry) error {
	return fmt.Errorf("%w: %q is at %s; take another name", ErrNameTaken, name, other.p.BaseURL)
}

func (c *Core) patch(now time.Time, a Patch) (Decision, error) {
	e, there := c.byID[a.ID]
	if !there {
		return Decision{}, fmt.Errorf("%w: %q", ErrNotFound, a.ID)
	}
	p, d := e.p, Decision{ID: a.ID}
	turned := a.Kind != nil && *a.Kind != p.Kind
	if turned {
		if p.Kind == storage.ProviderCloud || *a.Kind != storage.ProviderDynamic && *a.Kind != storage.ProviderStatic {
			return Decision{}, fmt.Errorf("%w: provider %q is %v and cannot become %v; static and dynamic ones become each other", ErrInvalid, p.Name, p.Kind, *a.Kind)
		}
		p.Kind = *a.Kind
		p.DegradedAt, p.DegradedReason = time.Time{}, ""
	}
	if a.Kind != nil && p.Kind == storage.ProviderDynamic {
		p.Principal = "" // whoever registers it next holds it
	}
	if a.Name != nil && *a.Name != p.Name {
		if p.Kind == storage.ProviderDynamic {
			return Decision{}, fmt.Errorf("%w: the agent names dynamic provider %q and would do so again; start it with another --provider-name, or make the provider static",
				ErrInvalid, p.Name)
		}
		if other, taken := c.byName[*a.Name]; taken {
			return Decision{}, nameTaken(*a.Name, other)
		}
		p.Name = *a.Name
	}
	action := "provider.update"
	if a.Credential != nil {
		p.Credential, p.CredentialKey = a.Credential.Sealed, a.Credential.KeyID
		action = "provider.credential"
		if a.Quiet {
			action = "provider.reseal"
		}
	}
	if err := p.Validate(); err != nil {
		return Decision{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if p.Kind == e.p.Kind && p.Name == e.p.Name && p.Principal == e.p.Principal && a.Credential == nil {
		return d, nil
	}
	if turned {
		e.failed, e.lapsed, e.contest, e.leaseUntil, e.holderUntil = false, false, Contest{}, time.Time{}, time.Time{}
		if p.Kind == storage.ProviderDynamic {
			e.ttl, e.leaseUntil = c.cfg.TTL, now.Add(c.cfg.TTL)
		}
	}
	c.change(now, e, p, action, a.Actor, &d)
	if turned && p.Kind == storage.ProviderDynamic && e.probeFailure != "" {
		e.failed = true // what was advice counts from here
		c.settle(now, e, e.probeFailure, &d)
	}
	if !a.Quiet {
		d.Probe = append(d.Probe, a.ID)
	}
	return d, nil
}

func (c *Core) delete(_ time.Time, a Delete) (Decision, error) {
	e, there := c.byID[a.ID]
	if !there {
		return Decision{}, fmt.Errorf("%w: %q", ErrNotFound, a.ID)
	}
	d := Decision{ID: a.ID}
	c.remove(e, "provider.delete", a.Actor, ChangeDeleted, "", &d)
	return d, nil
}

const maxText = 256 // bytes, as the store keeps

func texts(pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		if len(pairs[i+1]) > maxText || !utf8.ValidString(pairs[i+1]) || strings.ContainsFunc(pairs[i+1], func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("%w: %s: want at most %d bytes of UTF-8 without control characters", ErrInvalid, pairs[i], maxText)
		}
	}
	return nil
}

// clip makes a reason such as a store keeps.
func clip(why string) string {
	why = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(why, "�"))
	for len(why) > maxText {
		_, size := utf8.DecodeLastRuneInString(why)
		why = why[:len(why)-size]
	}
	return cmp.Or(why, "unknown")
}

func vendorNames() []string {
	out := make([]string, len(catalogue))
	for i, v := range catalogue {
		out[i] = v.Name
	}
	return out
}

// unwritten reports whether an event is known to make no write with an audit row: a
// lease that is renewed as it was.
func (c *Core) unwritten(ev Event) bool {
	r, is := ev.(Register)
	if !is {
		return false
	}
	e := c.byURL[r.BaseURL]
	return e != nil && (e.p.Kind != storage.ProviderDynamic ||
		e.p.Node == r.Node && e.p.Engine == r.Engine && e.p.Principal == r.Principal && (r.Name == "" || r.Name == e.p.Name))
}
