// Package discovertest has what tests of discovery need: a control plane that
// takes registrations, and engines that answer without a network.
package discovertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/llmgw/llmgw/fleet/discover"
)

// ControlPlane is an http.Handler of POST /admin/providers/register that keeps
// leases in memory. It takes its time from package time, so it may live in a
// synctest bubble. All methods may be called concurrently.
type ControlPlane struct {
	mu        sync.Mutex
	tokens    map[string]bool
	static    map[string]string    // name by address
	providers map[string]*Provider // by address
	fault     func(n int) Fault    // of the n-th request, from 1; nil: none
	requests  int
}

// Provider is what the control plane holds of one engine.
type Provider struct {
	discover.Registration

	// Beats are when it was registered.
	Beats []time.Time
	// Lapses are how often a lease had run out before it was renewed.
	Lapses int
	// Until is when its lease runs out.
	Until time.Time
}

// Fault is what a control plane does instead of its work.
type Fault struct {
	// Status is answered; 0 goes on as usual.
	Status int
	// RetryAfter is the header's value; "" has none.
	RetryAfter string
	// Hang has it wait until who asks gives up.
	Hang bool
}

// NewControlPlane returns one that knows these tokens.
func NewControlPlane(tokens ...string) *ControlPlane {
	c := &ControlPlane{static: map[string]string{}, providers: map[string]*Provider{}}
	c.SetTokens(tokens...)
	return c
}

// SetTokens replaces the tokens that are known.
func (c *ControlPlane) SetTokens(tokens ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokens = make(map[string]bool, len(tokens))
	for _, t := range tokens {
		c.tokens[t] = true
	}
}

// AddStatic has an operator add a provider.
func (c *ControlPlane) AddStatic(apiBase, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.static[apiBase] = name
}

// SetFault has fault decide for each request, by its number from 1, what goes wrong
// with it; nil ends that.
func (c *ControlPlane) SetFault(fault func(n int) Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = fault
}

// Requests returns how many requests came, of whatever fate.
func (c *ControlPlane) Requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}

// Providers returns copies of all that was registered, by address as
// [discover.BaseURL] spells it.
func (c *ControlPlane) Providers() map[string]Provider {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[string]Provider, len(c.providers))
	for base, p := range c.providers {
		cp := *p
		cp.Beats = append([]time.Time(nil), p.Beats...)
		out[base] = cp
	}
	return out
}

// ServeHTTP answers as a control plane does.
func (c *ControlPlane) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.requests++
	fault := Fault{}
	if c.fault != nil {
		fault = c.fault(c.requests)
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	known := c.tokens[token]
	c.mu.Unlock()
	if fault.Hang {
		<-r.Context().Done()
		return
	}
	if fault.RetryAfter != "" {
		w.Header().Set("Retry-After", fault.RetryAfter)
	}
	var reg discover.Registration
	switch {
	case fault.Status != 0:
		refuse(w, fault.Status, "as the test wants it")
	case r.Method != http.MethodPost || r.URL.Path != "/admin/providers/register":
		refuse(w, http.StatusNotFound, "no such path")
	case !known:
		refuse(w, http.StatusUnauthorized, "unknown key")
	case json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&reg) != nil || reg.APIBase == "" || reg.TTLSeconds <= 0:
		refuse(w, http.StatusBadRequest, "no registration")
	default:
		base, err := discover.BaseURL(reg.APIBase)
		if err != nil {
			refuse(w, http.StatusUnprocessableEntity, err.Error())
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(c.register(base, reg)) // who asked has left
	}
}

func (c *ControlPlane) register(at string, r discover.Registration) discover.Registered {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name, ok := c.static[at]; ok {
		return discover.Registered{ID: "prov_" + name, Name: name, Kind: "static"}
	}
	now := time.Now()
	p, ok := c.providers[at]
	if !ok {
		p = &Provider{}
		c.providers[at] = p
	} else if now.After(p.Until) {
		p.Lapses++
	}
	out := discover.Registered{ID: "prov_" + at, Kind: "dynamic", Leased: true}
	for base, other := range c.providers {
		if base != at && other.Name == r.Name {
			out.Warning = fmt.Sprintf("the name %q is another provider's, and is not given to this one", r.Name)
			r.Name = p.Name
			break
		}
	}
	p.Registration = r
	p.Beats = append(p.Beats, now)
	p.Until = now.Add(time.Duration(r.TTLSeconds) * time.Second)
	out.Name = p.Name
	return out
}

func refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"message": message}}) // who asked has left
}

// Transport is a round tripper that has a handler answer, without a network.
func Transport(h http.Handler) http.RoundTripper { return handled{h} }

type handled struct{ handler http.Handler }

func (t handled) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	t.handler.ServeHTTP(rec, r)
	if err := r.Context().Err(); err != nil {
		return nil, context.Cause(r.Context())
	}
	resp := rec.Result()
	resp.Request = r
	return resp, nil
}

// Engines is a round tripper by which addresses answer as it is told; others are
// silent until who asks gives up. All methods may be called concurrently.
type Engines struct {
	mu        sync.Mutex
	answers   map[string]Answer // by address
	asked     map[string]int
	now, most int // under way
	fails     time.Duration
}

// Answer is what stands at an address.
type Answer struct {
	Status int           // 0 is 200
	Body   string        // as it is
	Header http.Header   // nil has none
	Takes  time.Duration // before it answers
}

// Models is the answer of an engine that serves models.
func Models(names ...string) Answer {
	type model struct {
		ID     string `json:"id"`
		Object string `json:"object"`
	}
	list := struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{Object: "list", Data: []model{}}
	for _, n := range names {
		list.Data = append(list.Data, model{n, "model"})
	}
	body, err := json.Marshal(list)
	if err != nil {
		panic(err) // of strings
	}
	return Answer{Body: string(body)}
}

// Set has an address, as http://host:port, answer like that from now on.
func (e *Engines) Set(base string, a Answer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.answers == nil {
		e.answers = map[string]Answer{}
	}
	e.answers[base] = a
}

// Remove has an address be silent.
func (e *Engines) Remove(base string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.answers, base)
}

// FailAfter has silent addresses fail after so long, as one does that cannot be
// dialled; 0 is the default.
func (e *Engines) FailAfter(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fails = d
}

// Asked returns how often an address was asked.
func (e *Engines) Asked(base string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked[base]
}

// AtOnce returns how many addresses were being asked at once at the most.
func (e *Engines) AtOnce() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.most
}

// RoundTrip answers, or waits until the request's context is done.
func (e *Engines) RoundTrip(r *http.Request) (*http.Response, error) {
	base := r.URL.Scheme + "://" + r.URL.Host
	e.mu.Lock()
	if e.asked == nil {
		e.asked = map[string]int{}
	}
	e.asked[base]++
	e.now++
	e.most = max(e.most, e.now)
	a, ok := e.answers[base]
	fails := e.fails
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.now--
	}()
	if !ok {
		a.Takes = fails
	}
	var answers <-chan time.Time
	if ok || fails > 0 {
		timer := time.NewTimer(a.Takes)
		defer timer.Stop()
		answers = timer.C
	}
	select {
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	case <-answers:
	}
	if !ok {
		return nil, errors.New("discovertest: nobody takes the connection")
	}
	rec := httptest.NewRecorder()
	maps.Copy(rec.Header(), a.Header)
	status := a.Status
	switch {
	case r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/v1/models"):
		status = http.StatusNotFound
	case status == 0:
		status = http.StatusOK
	}
	rec.WriteHeader(status)
	_, _ = rec.WriteString(a.Body) // of a recorder
	resp := rec.Result()
	resp.Request = r
	return resp, nil
}
