package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/router/routertest"
)

// admitting is a configuration with admission switched on.
func admitting(endpoints ...gateway.Endpoint) gateway.Config {
	cfg := config(endpoints...)
	cfg.Admission.Core.Enabled = true
	return cfg
}

// narrow is a configuration under which an engine is full with one request.
func narrow(endpoints ...gateway.Endpoint) gateway.Config {
	cfg := config(endpoints...)
	for i := range cfg.Endpoints {
		cfg.Endpoints[i].MaxRunning = 1
	}
	cfg.Admission.Core.Enabled = true
	return cfg
}

// newAdmitting is a fleet with the gateway's own admission.
func newAdmitting(t testing.TB, cfg gateway.Config, change ...func(*gateway.Deps)) *fleet {
	t.Helper()
	return newFleet(t, cfg, append([]func(*gateway.Deps){func(d *gateway.Deps) { d.Admitter = nil }}, change...)...)
}

// gated is an engine that keeps requests until it is told to let one go.
type gated struct {
	*rawEngine
	arrived chan string // X-Tag of each request
	let     chan struct{}
}

func newGated(t testing.TB) *gated {
	g := &gated{arrived: make(chan string, 1000), let: make(chan struct{})}
	ended := make(chan struct{})
	g.rawEngine = newRaw(t, func(x *exchange) {
		if x.req.Method == http.MethodGet { // of its metrics, it has none
			x.write(document(404, "{}"))
			return
		}
		g.arrived <- x.req.Header.Get("X-Tag")
		select {
		case <-g.let:
			good(x)
		case <-ended:
		}
	})
	t.Cleanup(func() { close(ended) })
	return g
}

// waiting waits until so many requests wait for admission.
func (f *fleet) waiting(n float64) {
	f.t.Helper()
	f.eventually(fmt.Sprint(n, " requests wait"), func() bool { return f.metric("llmgw_admission_waiting_requests") == n })
}

// background sends a chat and returns where its answer will be.
func (f *fleet) background(ctx context.Context, header ...string) <-chan answer {
	ended := make(chan answer, 1)
	go func() { ended <- f.doContext(ctx, "POST", chatPath, chatBody, header...) }()
	return ended
}

// A full engine gets no more; one request may wait, the next is refused at once,
// in the words of the API that it called.
func TestAdmissionQueueFull(t *testing.T) {
	e := newGated(t)
	cfg := narrow(at("e", e.url))
	cfg.Admission.Core.QueueCapacityPerBand = 1
	f := newAdmitting(t, cfg)
	first := f.background(t.Context())
	<-e.arrived
	second := f.background(t.Context())
	f.waiting(1)
	for _, body := range []string{chatBody, streamBody} {
		got := f.do("POST", chatPath, body)
		if got.status != 503 || got.code() != "queue_full" || got.header.Get("Retry-After") == "" || !strings.Contains(got.body, "gold") {
			t.Errorf("got %d %s, Retry-After %q", got.status, got.body, got.header.Get("Retry-After"))
		}
	}
	if got := f.do("POST", "/v1/messages", streamBody); got.status != 503 || got.header.Get("Retry-After") == "" ||
		!strings.HasPrefix(got.body, `{"type":"error","error":{"type":"overloaded_error"`) {
		t.Errorf("got %d %s", got.status, got.body)
	}
	// Another band has places of its own.
	third := f.background(t.Context(), "X-Llmgw-Band", "silver")
	f.waiting(2)
	if n := len(e.arrived); n != 0 {
		t.Errorf("%d more requests reached the engine", n)
	}
	for range 3 {
		e.let <- struct{}{}
	}
	for _, ended := range []<-chan answer{first, second, third} {
		if got := <-ended; got.status != 200 {
			t.Errorf("got %d %s", got.status, got.body)
		}
	}
	f.idle()
	if n := f.metric("llmgw_admission_rejections_total", "reason=queue_full", "band=gold", "pool=m"); n != 3 {
		t.Errorf("%v rejections are counted, want 3", n)
	}
}

// Who waits longer than queue_ttl is told so. Nobody's place is lost by it.
func TestAdmissionExpires(t *testing.T) {
	e := newGated(t)
	cfg := narrow(at("e", e.url))
	cfg.Admission.Core.QueueTTL = 50 * time.Millisecond
	f := newAdmitting(t, cfg)
	f.run()
	running := f.background(t.Context())
	<-e.arrived
	for _, body := range []string{chatBody, streamBody} {
		if got := f.do("POST", chatPath, body); got.status != 504 || got.code() != "queue_timeout" || got.header.Get("Retry-After") == "" {
			t.Errorf("got %d %s", got.status, got.body)
		}
	}
	if got := f.do("POST", "/v1/messages", chatBody); got.status != 504 || !strings.Contains(got.body, "timeout_error") {
		t.Errorf("got %d %s", got.status, got.body)
	}
	e.let <- struct{}{}
	if got := <-running; got.status != 200 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	f.idle()
}

// A client that leaves frees its place in the queue at once, and nothing of it
// reaches an engine.
func TestAdmissionClientLeaves(t *testing.T) {
	e := newGated(t)
	cfg := narrow(at("e", e.url))
	cfg.Admission.Core.QueueCapacityPerBand = 1
	f := newAdmitting(t, cfg)
	running := f.background(t.Context())
	<-e.arrived
	ctx, leave := context.WithCancel(t.Context())
	left := f.background(ctx)
	f.waiting(1)
	if got := f.chat(); got.code() != "queue_full" {
		t.Errorf("got %d %s", got.status, got.body)
	}
	f.next()
	leave()
	if got := <-left; !errors.Is(got.err, context.Canceled) {
		t.Errorf("got %d, %v", got.status, got.err)
	}
	if o := f.next(); o.Result != router.ResultCanceled || o.Attempts != 0 {
		t.Errorf("recorded %v after %d attempts", o.Result, o.Attempts)
	}
	f.waiting(0)
	next := f.background(t.Context())
	f.waiting(1)
	e.let <- struct{}{}
	e.let <- struct{}{}
	for _, ended := range []<-chan answer{running, next} {
		if got := <-ended; got.status != 200 {
			t.Errorf("got %d %s", got.status, got.body)
		}
	}
	f.idle()
	if n := e.calls.Load(); n != 2 {
		t.Errorf("%d requests reached the engine, want 2", n)
	}
}

// Switched off everything passes at once, whatever band it asks for; the header
// still does not reach engines.
// (R-ADM-13)
func TestAdmissionDisabled(t *testing.T) {
	e := newGated(t)
	cfg := narrow(at("e", e.url))
	cfg.Admission.Core.Enabled = false
	f := newAdmitting(t, cfg)
	var all []<-chan answer
	for range 5 {
		all = append(all, f.background(t.Context(), "X-Llmgw-Band", "iron"))
	}
	for range all {
		<-e.arrived
	}
	for range all {
		e.let <- struct{}{}
	}
	for _, ended := range all {
		if got := <-ended; got.status != 200 {
			t.Errorf("got %d %s", got.status, got.body)
		}
	}
	for key := range f.series() {
		if strings.HasPrefix(key, "llmgw_admission") {
			t.Errorf("there is %s", key)
		}
	}
}

// What a header and a key say about the band.
// (R-ADM-14)
func TestAdmissionBands(t *testing.T) {
	seen := make(chan http.Header, 1)
	e := newRaw(t, func(x *exchange) { seen <- x.req.Header; good(x) })
	keys := routertest.Callers{
		"bronze": {Tenant: "A", Band: "bronze"}, "none": {Tenant: "B"}, "band": {Band: "silver"}, "nobody": {},
		"iron": {Tenant: "C", Band: "iron"},
	}
	tests := []struct {
		name, key, header string
		want              string // band, or the error's code
		status            int
	}{
		{"no key, no header", "", "", "gold", 200},
		{"no key", "", "platinum", "platinum", 200},
		{"no key, no such band", "", "iron", "unknown_band", 400},
		{"no key, by its case another band", "", "Gold", "unknown_band", 400},
		{"no key, something long", "", strings.Repeat("\u2028x", 900), "unknown_band", 400},
		{"key", "bronze", "", "bronze", 200},
		{"key and a better band", "bronze", "platinum", "bronze", 200},
		{"key and no such band", "bronze", "iron", "bronze", 200},
		{"key without a band", "none", "platinum", "gold", 200},
		{"band without a tenant", "band", "platinum", "silver", 200},
		{"key of nobody in particular", "nobody", "platinum", "platinum", 200},
		{"key of a band that there is no more", "iron", "", "overloaded", 503},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newAdmitting(t, admitting(at("e", e.url)), func(d *gateway.Deps) {
				if tt.key != "" {
					d.Caller = keys
				}
			})
			got := f.do("POST", chatPath, chatBody, "Authorization", "Bearer "+tt.key, "X-Llmgw-Band", tt.header)
			o := f.next()
			if got.status != tt.status {
				t.Fatalf("got %d %s", got.status, got.body)
			}
			if got.status != 200 {
				if got.code() != tt.want || len(got.body) > 700 {
					t.Errorf("got %s", got.body)
				}
				if got.status == 400 && (!strings.Contains(got.body, "platinum, gold, silver, bronze") || !strings.Contains(got.body, "x-llmgw-band")) {
					t.Errorf("it does not say what to do: %s", got.body)
				}
				f.idle() // the charge is settled
				return
			}
			if o.Identity.Band != tt.want {
				t.Errorf("band %q, want %q", o.Identity.Band, tt.want)
			}
			if h := <-seen; h["X-Llmgw-Band"] != nil {
				t.Errorf("the engine got %v", h)
			}
		})
	}
}

// A band that is sent twice is none that there is, and without a name for the
// header nobody asks for one.
func TestAdmissionBandHeader(t *testing.T) {
	e := newRaw(t, good)
	ask := func(cfg gateway.Config) (status int, band string) {
		f := newAdmitting(t, cfg)
		req, err := http.NewRequestWithContext(t.Context(), "POST", f.url+"/v1/messages", strings.NewReader(chatBody))
		if err != nil {
			t.Fatal(err)
		}
		req.Header["X-Class"] = []string{"gold", "bronze"}
		res, err := f.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode, f.next().Identity.Band
	}
	cfg := config(at("e", e.url))
	cfg.Admission.Core.Enabled = true
	for header, want := range map[string]int{"x-class": 400, "": 200, "x-llmgw-band": 200} {
		cfg.Admission.BandHeader = header
		status, band := ask(cfg)
		if status != want || want == 200 && band != "gold" {
			t.Errorf("%q: got %d, band %q", header, status, band)
		}
	}
}

// Within a band tenants take turns: by their key, else by their session, else by
// their address.
func TestAdmissionTurns(t *testing.T) {
	type sender struct{ key, session, addr string }
	tests := []struct {
		name       string
		many, once sender // the two take turns
		caller     bool
		want       string
	}{
		{"keys, however many sessions", sender{"A", "own", "1.1.1.1:1"}, sender{"B", "s", "1.1.1.1:1"}, true, "a b a a"},
		{"sessions", sender{"", "s", "1.1.1.1:1"}, sender{"", "t", "1.1.1.1:1"}, false, "a b a a"},
		{"addresses", sender{"", "", "1.1.1.1:1"}, sender{"", "", "1.1.1.2:1"}, false, "a b a a"},
		{"addresses of IPv6", sender{"", "", "[::1]:1"}, sender{"", "", "[::2]:1"}, false, "a b a a"},
		{"one address", sender{"", "", "1.1.1.1:1"}, sender{"", "", "1.1.1.1:2"}, false, "a a a b"},
		{"one session, two addresses", sender{"", "s", "1.1.1.1:1"}, sender{"", "s", "1.1.1.2:1"}, false, "a a a b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := newGated(t)
			f := newAdmitting(t, narrow(at("e", e.url)), func(d *gateway.Deps) {
				if tt.caller {
					d.Caller = routertest.Callers{"A": {Tenant: "A"}, "B": {Tenant: "B"}}
				}
			})
			var wg sync.WaitGroup
			waiting := 0.0
			send := func(s sender, tag string) {
				r := httptest.NewRequestWithContext(t.Context(), "POST", chatPath, strings.NewReader(chatBody))
				r.RemoteAddr = s.addr
				r.Header.Set("X-Tag", tag)
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Authorization", "Bearer "+s.key)
				r.Header.Set("X-Session-Id", s.session)
				if s.session == "own" {
					r.Header.Set("X-Session-Id", fmt.Sprint("session ", waiting))
				}
				wg.Go(func() { f.gw.ServeHTTP(httptest.NewRecorder(), r) })
			}
			send(sender{"A", "z", "9.9.9.9:9"}, "runs")
			<-e.arrived
			for _, next := range []struct {
				sender
				tag string
			}{{tt.many, "a"}, {tt.many, "a"}, {tt.many, "a"}, {tt.once, "b"}} {
				send(next.sender, next.tag)
				waiting++
				f.waiting(waiting)
			}
			var order []string
			for range 4 {
				e.let <- struct{}{}
				order = append(order, <-e.arrived)
			}
			e.let <- struct{}{}
			wg.Wait()
			if got := strings.Join(order, " "); got != tt.want {
				t.Errorf("in the order %s, want %s", got, tt.want)
			}
		})
	}
}

// A request is charged before it waits, and an engine is chosen for it after.
// (R-ADM-01, R-ADM-02)
func TestAdmissionOrder(t *testing.T) {
	e := newGated(t)
	cfg := narrow(at("e", e.url))
	cfg.Router.Core.DefaultProfile = "traced"
	x := &trace{end: make(chan struct{})}
	f := newFleet(t, cfg, func(d *gateway.Deps) { x.into(d); d.Caller, d.Admitter, d.Recorder = nil, nil, nil })
	running := f.background(t.Context())
	<-e.arrived
	waits := f.background(t.Context())
	f.waiting(1)
	traced := func() string {
		x.mu.Lock()
		defer x.mu.Unlock()
		return strings.Join(x.calls, ", ")
	}
	if got, want := traced(), "charge, schedule, charge"; got != want {
		t.Errorf("%s while one waits, want %s", got, want)
	}
	e.let <- struct{}{}
	<-e.arrived
	if got := traced(); !strings.HasPrefix(got, "charge, schedule, charge, ") || strings.Count(got, "schedule") != 2 {
		t.Errorf("%s once it may run", got)
	}
	e.let <- struct{}{}
	for _, ended := range []<-chan answer{running, waits} {
		if got := <-ended; got.status != 200 {
			t.Errorf("got %d %s", got.status, got.body)
		}
	}
}

// Further endpoints of a model are tried under one lease, a fallback's under one
// of its own; never two at a time.
func TestAdmissionOfFallbacks(t *testing.T) {
	bad := newRaw(t, func(x *exchange) { x.write(document(500, "{}")) })
	e := newRaw(t, good)
	cfg := config(at("a", bad.url, "m"), at("b", bad.url, "m"), at("c", e.url, "n"))
	cfg.Admission.Core.Enabled = true
	cfg.Models = append(cfg.Models, fallbackModels()...)
	pools := &poolLog{}
	f := newFleet(t, cfg, func(d *gateway.Deps) { d.Admitter = pools })
	if got := f.chat(); got.status != 200 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	if o := f.next(); o.Attempts != 3 || o.Served != "n" {
		t.Errorf("%d attempts, served by %s", o.Attempts, o.Served)
	}
	f.idle()
	want := []string{"admit m", "release m", "admit n", "release n"}
	if got := pools.all(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A fallback whose queue is full is passed over, and named if nothing else is
// left.
func TestAdmissionRefusesFallback(t *testing.T) {
	e := newGated(t)
	cfg := narrow(at("c", e.url, "n"))
	cfg.Models = fallbackModels()
	cfg.Admission.Core.QueueCapacityPerBand = 0
	f := newAdmitting(t, cfg)
	running := f.background(t.Context())
	<-e.arrived
	if got := f.chat(); got.status != 503 || got.code() != "queue_full" {
		t.Errorf("got %d %s", got.status, got.body)
	}
	e.let <- struct{}{}
	if got := <-running; got.status != 200 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	f.idle()
}

// Requests about stored responses run on no GPU and do not wait for one.
func TestAdmissionOfStoredResponses(t *testing.T) {
	k := newKeeper(t, "a")
	cfg := narrow(at("a", k.url))
	for i := range cfg.Admission.Core.Bands {
		cfg.Admission.Core.Bands[i].SaturationCeiling = 0
	}
	cfg.Admission.Core.QueueCapacityPerBand = 0
	f := newAdmitting(t, cfg)
	if got := f.do("POST", responsesPath, `{"model":"m","input":"x"}`); got.status != 200 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	f.idle()
	held := newGated(t)
	if err := f.gw.Reload(narrow(at("a", k.url), first(at("held", held.url)))); err != nil {
		t.Fatal(err)
	}
	running := f.background(t.Context())
	<-held.arrived
	if got := f.chat(); got.code() != "queue_full" {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if got := f.do("GET", "/v1/responses/resp_a_1", ""); got.status != 200 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	held.let <- struct{}{}
	<-running
	f.idle()
}

// An engine behind an open breaker has no room, and where all are the client
// hears of that and not of a queue.
func TestAdmissionWithoutEndpoints(t *testing.T) {
	bad := newRaw(t, func(x *exchange) { x.reset() })
	cfg := narrow(at("e", bad.url))
	cfg.Router.Breaker.FailureThreshold = 1
	f := newAdmitting(t, cfg)
	if got := f.chat(); got.status != 502 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	for range 3 {
		if got := f.chat(); got.status != 503 || got.code() != "no_endpoint" {
			t.Errorf("got %d %s", got.status, got.body)
		}
	}
	f.idle()
}

// Once Run has ended nobody is kept waiting.
func TestAdmissionCloses(t *testing.T) {
	e := newGated(t)
	f := newAdmitting(t, narrow(at("e", e.url)))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.gw.Run(ctx) }()
	running := f.background(t.Context())
	<-e.arrived
	waits := f.background(t.Context())
	f.waiting(1)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := <-waits; got.status != 503 || got.code() != "overloaded" || got.header.Get("Retry-After") == "" {
		t.Errorf("got %d %s", got.status, got.body)
	}
	e.let <- struct{}{}
	if got := <-running; got.status != 200 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	f.idle()
}

// poolLog admits everything and writes down for which model.
type poolLog struct {
	mu    sync.Mutex
	calls []string // guarded by mu
}

func (p *poolLog) add(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, s)
}

func (p *poolLog) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

func (p *poolLog) Admit(_ context.Context, a router.Admission) (router.Lease, error) {
	p.add("admit " + a.Model)
	return poolLease{p, a.Model}, nil
}

type poolLease struct {
	log   *poolLog
	model string
}

func (l poolLease) Release() { l.log.add("release " + l.model) }

// fallbackModels are m, for which n stands in.
func fallbackModels() []catalog.Model {
	return []catalog.Model{{Name: "m", Fallbacks: []string{"n"}}, {Name: "n"}}
}

// A burst does not pass as a whole between two measurements: of five hundred
// requests at once as many pass as gold may have of what the engine is known, or
// taken, to run at once.
func TestAdmissionOfBurst(t *testing.T) {
	const requests = 500
	for told, pass := range map[int]float64{8: 7, 0: 218} {
		t.Run(fmt.Sprint("max_running ", told), func(t *testing.T) {
			e := newGated(t)
			cfg := admitting(at("e", e.url))
			cfg.Endpoints[0].MaxRunning = told
			f := newAdmitting(t, cfg) // not run: nothing is scraped
			var all []<-chan answer
			for range requests {
				all = append(all, f.background(t.Context()))
			}
			f.waiting(requests - pass)
			if n := f.metric("llmgw_endpoint_inflight_requests"); n > pass {
				t.Errorf("%v are at the engine", n)
			}
			close(e.let)
			for _, ended := range all {
				if got := <-ended; got.status != 200 {
					t.Errorf("got %d %s", got.status, got.body)
				}
			}
			f.idle()
		})
	}
}

// What others send to an engine counts, too: a request waits until they are gone.
func TestAdmissionSeesOthers(t *testing.T) {
	e := newSim(t, func(c *sim.Config) {
		c.MaxNumSeqs = 2
		c.Timing.Step = 100 * time.Millisecond
	})
	cfg := config(at("e", e.url))
	cfg.Admission.Core.Enabled = true
	cfg.Router.Scrape.Interval, cfg.Router.Scrape.Timeout = 100*time.Millisecond, 50*time.Millisecond
	f := newAdmitting(t, cfg)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var others sync.WaitGroup
	for range 10 {
		others.Go(func() {
			req, err := http.NewRequestWithContext(ctx, "POST", e.url+chatPath,
				strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"Hello"}],"max_tokens":2000,"ignore_eos":true}`))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Content-Type", "application/json")
			if res, err := f.client.Do(req); err == nil {
				_ = res.Body.Close()
			}
		})
	}
	f.eventually("the engine is full", func() bool { s := e.Stats(); return s.Running == 2 && s.Waiting == 8 })
	f.run()
	f.eventually("its load is read", func() bool { return f.metric("llmgw_scrape_scrapes_total", "outcome=ok") > 0 })
	waits := f.background(t.Context())
	f.waiting(1)
	if n := f.metric("llmgw_admission_saturation_ratio", "pool=m"); n <= 1 {
		t.Errorf("saturation %v", n)
	}
	leave()
	others.Wait()
	if got := <-waits; got.status != 200 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	f.idle()
}
