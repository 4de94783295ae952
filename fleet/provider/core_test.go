package provider_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/fleet/provider"
	"github.com/llmgw/llmgw/storage"
)

var epoch = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant

// life is a core under virtual time.
type life struct {
	t    testing.TB
	core *provider.Core
	now  time.Time
	ids  int
	did  []provider.Change // since it was looked at
}

func newLife(t testing.TB, kept ...storage.Provider) *life {
	return &life{t: t, core: provider.NewCore(provider.DefaultConfig(), epoch, kept), now: epoch}
}

func (l *life) step(ev provider.Event) (provider.Decision, error) {
	d, err := l.core.Step(l.now, ev)
	for _, n := range d.Notes {
		l.did = append(l.did, n.Change)
	}
	return d, err
}

// after lets time pass, with a Tick each second.
func (l *life) after(d time.Duration) {
	for end := l.now.Add(d); l.now.Before(end); {
		l.now = l.now.Add(time.Second)
		if _, err := l.step(provider.Tick{}); err != nil {
			l.t.Fatal(err)
		}
	}
}

func (l *life) register(url, principal, node, name string) provider.Registration {
	l.t.Helper()
	l.ids++
	d, err := l.step(provider.Register{BaseURL: url, Principal: principal, Node: node, Name: name, NewID: fmt.Sprint("prov_", l.ids)})
	if err != nil {
		l.t.Fatal(err)
	}
	return d.Registration
}

func (l *life) answers(id string, models ...string) {
	l.t.Helper()
	a := provider.Answered{ID: id}
	for _, m := range models {
		a.Models = append(a.Models, provider.Listed{Name: m})
	}
	if _, err := l.step(a); err != nil {
		l.t.Fatal(err)
	}
}

func (l *life) fails(id, why string) {
	l.t.Helper()
	if _, err := l.step(provider.Answered{ID: id, Failure: why}); err != nil {
		l.t.Fatal(err)
	}
}

// beats renews a lease each 30 seconds for so long.
func (l *life) beats(d time.Duration, url, principal, node, name string) {
	for ; d > 0; d -= 30 * time.Second {
		l.register(url, principal, node, name)
		l.after(30 * time.Second)
	}
}

func (l *life) view(id string) provider.View {
	l.t.Helper()
	v, ok := l.core.View(id)
	if !ok {
		l.t.Fatalf("%s is gone", id)
	}
	return v
}

func (l *life) want(id string, rotating, out string) {
	l.t.Helper()
	v := l.view(id)
	for m := range strings.FieldsSeq(rotating) {
		if !v.Rotates(m) {
			l.t.Errorf("%s is not in rotation: %+v", m, v)
		}
	}
	for m := range strings.FieldsSeq(out) {
		if v.Rotates(m) {
			l.t.Errorf("%s is in rotation: %+v", m, v)
		}
	}
}

func (l *life) gone(id string) {
	l.t.Helper()
	if v, ok := l.core.View(id); ok {
		l.t.Errorf("it is there still: %+v", v)
	}
}

const url = "http://10.0.0.7:8000/v1"

// R-PRV-21, 22, 31: one model goes, others stay, a new one is inventory.
func TestDrift(t *testing.T) {
	l := newLife(t)
	r := l.register(url, "ada", "gpu07", "gpu07")
	if r.Kind != storage.ProviderDynamic || !r.Leased || r.Degraded || r.Warning != "" || r.Name != "gpu07" {
		t.Errorf("registered: %+v", r)
	}
	l.want(r.ID, "", "a") // registering serves nothing
	l.answers(r.ID, "a", "b")
	l.want(r.ID, "a b", "c")
	l.answers(r.ID, "a", "c")
	l.want(r.ID, "a c", "b")
	v := l.view(r.ID)
	if v.State() != "drifted" || !v.DegradedAt.IsZero() {
		t.Errorf("it is up and serves something else: %q, degraded %v", v.State(), v.DegradedAt)
	}
	l.answers(r.ID, "a", "b", "c", "d")
	l.want(r.ID, "a b c d", "")
	if v := l.view(r.ID); v.State() != "well" {
		t.Errorf("serving more is healthy: %q", v.State())
	}
	l.answers(r.ID)
	l.want(r.ID, "", "a b c d")
	l.now = l.now.Add(8 * 24 * time.Hour)
	l.answers(r.ID, "e")
	if v := l.view(r.ID); len(v.Models) != 1 {
		t.Errorf("models are remembered for ever: %v", v.Models)
	}
}

// R-PRV-23, 25 to 28: the first failure counts, nothing is removed before 30 minutes.
func TestFailure(t *testing.T) {
	l := newLife(t)
	id := l.register(url, "ada", "gpu07", "gpu07").ID
	l.answers(id, "a")
	l.after(10 * time.Second)
	first := l.now
	l.fails(id, "refused")
	l.want(id, "", "a")
	l.after(10 * time.Second)
	l.fails(id, "no answer")
	if v := l.view(id); !v.DegradedAt.Equal(first) || v.DegradedReason != "refused" || v.ProbeFailure != "no answer" {
		t.Errorf("degraded since %v: %s, %s", v.DegradedAt, v.DegradedReason, v.ProbeFailure)
	}
	l.answers(id, "a")
	l.want(id, "a", "")
	l.beats(10*time.Minute, url, "ada", "gpu07", "gpu07")
	l.want(id, "a", "")
	first = l.now
	l.fails(id, "refused")
	l.after(30*time.Minute - time.Second)
	l.view(id)
	l.fails(id, "refused again")
	l.after(time.Second)
	l.gone(id)
	if d := l.now.Sub(first); d != 30*time.Minute {
		t.Errorf("removed after %v", d)
	}
}

// R-PRV-24: a lease that lapses degrades though the engine answers; that alone is no
// recovery.
func TestLapse(t *testing.T) {
	l := newLife(t)
	id := l.register(url, "ada", "gpu07", "gpu07").ID
	l.answers(id, "a")
	l.after(89 * time.Second)
	l.want(id, "a", "")
	l.after(time.Second)
	l.want(id, "", "a")
	l.answers(id, "a")
	l.want(id, "", "a")
	l.after(29 * time.Minute)
	l.register(url, "ada", "gpu07", "gpu07")
	l.want(id, "a", "")
	l.after(90*time.Second + 30*time.Minute - time.Second)
	l.view(id)
	l.after(time.Second)
	l.gone(id)
}

// An engine that cannot be reached from here though its agent renews it is not absent:
// it is shown and stays, with its credential.
func TestFailureWithLease(t *testing.T) {
	l := newLife(t)
	id := l.register(url, "ada", "gpu07", "gpu07").ID
	l.fails(id, "no answer")
	l.beats(2*time.Hour, url, "ada", "gpu07", "gpu07")
	if v := l.view(id); v.DegradedAt.IsZero() {
		t.Error("it is well")
	}
	// Then it goes: it was long enough not well, and is removed with its lease.
	l.after(90 * time.Second)
	l.gone(id)
}

// R-PRV-11 to 14, 29.
func TestStatic(t *testing.T) {
	l := newLife(t)
	d, err := l.step(provider.Add{NewID: "s", BaseURL: url, Kind: storage.ProviderStatic, Actor: "cli"})
	if err != nil {
		t.Fatal(err)
	}
	if v := l.view(d.ID); v.Name != "10.0.0.7:8000" {
		t.Errorf("its name is %q", v.Name)
	}
	r := l.register(url, "ada", "gpu07", "gpu07")
	if r.ID != "s" || r.Kind != storage.ProviderStatic || r.Leased || r.Name != "10.0.0.7:8000" {
		t.Errorf("registering a static one: %+v", r)
	}
	l.answers("s", "a")
	l.answers("s", "b")
	l.fails("s", "refused")
	l.after(48 * time.Hour)
	l.want("s", "a b", "")
	if v := l.view("s"); !v.DegradedAt.IsZero() || v.State() != "failing" || !v.LeaseUntil.IsZero() {
		t.Errorf("what comes of asking is advice: %+v", v)
	}

	dynamic, static := storage.ProviderDynamic, storage.ProviderStatic
	if _, err := l.step(provider.Patch{ID: "s", Kind: &dynamic}); err != nil {
		t.Fatal(err)
	}
	if r := l.register(url, "ada", "gpu07", "gpu07"); !r.Leased || r.Name != "gpu07" || r.ID != "s" {
		t.Errorf("handed over: %+v", r)
	}
	l.after(20 * time.Minute)
	if v := l.view("s"); v.DegradedAt.IsZero() {
		t.Error("its lease did not lapse")
	}
	if _, err := l.step(provider.Patch{ID: "s", Kind: &static}); err != nil {
		t.Fatal(err)
	}
	if v := l.view("s"); !v.DegradedAt.IsZero() || v.DegradedReason != "" || !v.LeaseUntil.IsZero() {
		t.Errorf("taken back: %+v", v)
	}
	l.after(time.Hour)
	l.view("s")
}

// R-PRV-38, 39, 41.
func TestNames(t *testing.T) {
	l := newLife(t)
	a := l.register(url, "ada", "gpu07", "gpu07")
	b := l.register("http://10.0.0.8:8000/v1", "ada", "gpu08", "gpu07")
	if b.Name != "10.0.0.8:8000" || !strings.Contains(b.Warning, `"gpu07"`) || !b.Leased {
		t.Errorf("a name that is taken: %+v", b)
	}
	if r := l.register("http://10.0.0.8:8000/v1", "ada", "gpu08", "gpu08"); r.Name != "gpu08" || r.ID != b.ID || r.Warning != "" {
		t.Errorf("renamed: %+v", r)
	}
	if r := l.register("http://10.0.0.8:8000/v1", "ada", "gpu08", "gpu07"); r.Name != "gpu08" || r.Warning == "" || !r.Leased {
		t.Errorf("renamed to what is taken: %+v", r)
	}
	l.register(url, "ada", "gpu07", "other")
	if r := l.register("http://10.0.0.8:8000/v1", "ada", "gpu08", "gpu07"); r.Name != "gpu07" || r.Warning != "" {
		t.Errorf("renamed to what is free: %+v", r)
	}
	name := "mine"
	if _, err := l.step(provider.Patch{ID: a.ID, Name: &name}); !errors.Is(err, provider.ErrInvalid) || !strings.Contains(err.Error(), "--provider-name") {
		t.Errorf("a dynamic one is named by its agent: %v", err)
	}
	static := storage.ProviderStatic
	if _, err := l.step(provider.Patch{ID: a.ID, Name: &name, Kind: &static}); err != nil || l.view(a.ID).Name != name {
		t.Errorf("named and taken back: %v", err)
	}
	name = "gpu07"
	if _, err := l.step(provider.Patch{ID: a.ID, Name: &name}); !errors.Is(err, provider.ErrNameTaken) {
		t.Errorf("a name of another: %v", err)
	}
	d, err := l.step(provider.Add{NewID: "c", BaseURL: "https://api.openai.com/v1", Kind: storage.ProviderCloud, Vendor: "openai"})
	if err != nil || l.view(d.ID).Name != "openai" {
		t.Errorf("a cloud's name: %v", err)
	}
}

// R-PRV-42, 17: two agents for one address.
func TestTwoAgents(t *testing.T) {
	l := newLife(t)
	id := l.register(url, "ada", "gpu07", "gpu07").ID
	_, err := l.step(provider.Register{BaseURL: url, Principal: "eve", Node: "x", Name: "mine", NewID: "n"})
	if !errors.Is(err, provider.ErrHeld) {
		t.Errorf("another principal: %v", err)
	}
	if v := l.view(id); v.Name != "gpu07" || v.Contest.Principal != "eve" {
		t.Errorf("it is shown: %+v", v.Contest)
	}
	r := l.register(url, "ada", "kube", "llama")
	if r.Name != "gpu07" || !strings.Contains(r.Warning, "gpu07") || !r.Leased {
		t.Errorf("another node of the same principal: %+v", r)
	}
	l.beats(time.Hour, url, "ada", "gpu07", "gpu07")
	if v := l.view(id); v.Contest != (provider.Contest{}) {
		t.Errorf("it is over: %+v", v.Contest)
	}
	// The holder goes; who is left takes over.
	l.after(60 * time.Second)
	l.register(url, "ada", "kube", "llama")
	l.after(30 * time.Second)
	if r := l.register(url, "ada", "kube", "llama"); r.Name != "llama" || r.Warning != "" || r.ID != id {
		t.Errorf("the holder is gone: %+v", r)
	}
	l.after(2 * time.Minute)
	if r := l.register(url, "eve", "x", "mine"); r.ID != id || r.Name != "mine" {
		t.Errorf("nobody holds it: %+v", r)
	}
}

// A process that slept gives leases the time in which nobody could renew them; one that
// starts anew gives each a TTL, and counts the 30 minutes on.
func TestStallAndRestart(t *testing.T) {
	l := newLife(t)
	id := l.register(url, "ada", "gpu07", "gpu07").ID
	l.answers(id, "a")
	l.now = l.now.Add(10 * time.Minute)
	l.after(80 * time.Second)
	l.want(id, "a", "")
	l.after(20 * time.Second)
	l.want(id, "", "a")

	v := l.view(id)
	kept := v.Provider
	since := kept.DegradedAt
	again := &life{t: t, now: since.Add(29 * time.Minute)}
	again.core = provider.NewCore(provider.DefaultConfig(), again.now, []storage.Provider{kept})
	again.answers(id, "a")
	again.want(id, "", "a")
	again.after(89 * time.Second)
	again.view(id)
	again.after(2 * time.Second)
	again.gone(id)

	again = &life{t: t, now: since.Add(time.Hour)}
	again.core = provider.NewCore(provider.DefaultConfig(), again.now, []storage.Provider{kept})
	again.answers(id, "a")
	again.register(url, "ada", "gpu07", "gpu07")
	again.want(id, "a", "")
	again.after(time.Minute)
	again.want(id, "a", "")
}

func TestRefused(t *testing.T) {
	cfg := provider.DefaultConfig()
	cfg.MaxProviders = 1
	l := newLife(t)
	l.core = provider.NewCore(cfg, epoch, nil)
	ok := provider.Register{BaseURL: url, Principal: "ada", NewID: "1"}
	for name, tt := range map[string]struct {
		change func(*provider.Register)
		want   error
	}{
		"ttl of 1s":           {func(r *provider.Register) { r.TTL = time.Second }, provider.ErrInvalid},
		"ttl of a year":       {func(r *provider.Register) { r.TTL = 365 * 24 * time.Hour }, provider.ErrInvalid},
		"no principal":        {func(r *provider.Register) { r.Principal = "" }, provider.ErrInvalid},
		"a long name":         {func(r *provider.Register) { r.Name = strings.Repeat("x", 257) }, provider.ErrInvalid},
		"a name of two lines": {func(r *provider.Register) { r.Name = "a\nb" }, provider.ErrInvalid},
		"no ID":               {func(r *provider.Register) { r.NewID = "" }, provider.ErrInvalid},
	} {
		r := ok
		tt.change(&r)
		if _, err := l.step(r); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := l.step(ok); err != nil {
		t.Fatal(err)
	}
	other := ok
	other.BaseURL, other.NewID = "http://10.0.0.9:1/v1", "2"
	if _, err := l.step(other); !errors.Is(err, provider.ErrFull) {
		t.Errorf("one more than may be: %v", err)
	}
	for name, ev := range map[string]provider.Event{
		"a dynamic one":          provider.Add{NewID: "3", BaseURL: "http://a/v1", Kind: storage.ProviderDynamic},
		"a vendor of nobody":     provider.Add{NewID: "3", BaseURL: "http://a/v1", Kind: storage.ProviderCloud, Vendor: "x"},
		"a static one of one":    provider.Add{NewID: "3", BaseURL: "http://a/v1", Kind: storage.ProviderStatic, Vendor: "openai"},
		"a cloud of a dynamic":   provider.Patch{ID: "1", Kind: new(storage.ProviderCloud)},
		"a key without a secret": provider.Patch{ID: "1", Credential: &provider.SealedCredential{KeyID: "k"}},
	} {
		if _, err := l.step(ev); !errors.Is(err, provider.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := l.step(provider.Add{NewID: "3", BaseURL: url, Kind: storage.ProviderStatic}); !errors.Is(err, provider.ErrExists) {
		t.Errorf("one that is there: %v", err)
	}
	for _, ev := range []provider.Event{provider.Patch{ID: "9"}, provider.Delete{ID: "9"}} {
		if _, err := l.step(ev); !errors.Is(err, provider.ErrNotFound) {
			t.Errorf("%T of nothing: %v", ev, err)
		}
	}
}
