package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/engines/sim/simtest"
	"github.com/llmgw/llmgw/fleet/feed"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/gateway"
)

// onDemand is a gateway under virtual time that follows a publisher, and engines that
// a test has it hear of.
type onDemand struct {
	t       *testing.T
	gw      *gateway.Gateway
	p       *feed.Publisher
	reg     *prometheus.Registry
	network simtest.Network
	ctx     context.Context //nolint:containedctx // of what runs
	entries []feed.Entry

	mu       sync.Mutex
	outcomes []router.Outcome
	asked    int
	all      sync.WaitGroup // requests
}

// Record implements [router.Recorder].
func (d *onDemand) Record(o *router.Outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := *o
	one.Decision = nil
	d.outcomes = append(d.outcomes, one)
}

// runnable is a model that runs between min and max replicas.
func runnable(name string, least, most int) catalog.Model {
	return catalog.Model{
		Name: name, Source: "m", Profile: &engines.Profile{Engine: engines.Sim}, Scaling: &catalog.Scaling{Min: least, Max: most},
	}
}

// wake runs a test in a bubble.
func wake(t *testing.T, change func(*gateway.Config), models []catalog.Model, test func(d *onDemand)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &onDemand{t: t, reg: prometheus.NewRegistry()}
		cfg := gateway.DefaultConfig()
		if change != nil {
			change(&cfg)
		}
		var err error
		d.gw, err = gateway.New(cfg, gateway.Deps{Follows: true, Recorder: d, Dial: d.network.Dial, Registerer: d.reg})
		if err != nil {
			t.Fatal(err)
		}
		if d.p, err = feed.NewPublisher(feed.DefaultPublisherConfig(), feed.PublisherDeps{}); err != nil {
			t.Fatal(err)
		}
		if err := d.p.Lead("c", 1); err != nil {
			t.Fatal(err)
		}
		follow := feed.DefaultConfig()
		follow.Router = "r1"
		follower, err := feed.New(follow, feed.Deps{Sources: []feed.Source{d.p.Local()}, Reporter: d.gw})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		d.ctx = ctx
		var running sync.WaitGroup
		for _, run := range []func(context.Context) error{
			d.p.Run, follower.Run, d.gw.Run, func(ctx context.Context) error { return d.gw.Follow(ctx, follower, true) },
		} {
			running.Go(func() {
				if err := run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		defer running.Wait()
		defer cancel()
		d.catalog(models...)
		d.publish()
		test(d)
		d.all.Wait()
		synctest.Wait()
		if n, err := testutil.GatherAndCount(d.reg, "llmgw_gateway_wake_waiting_requests"); n != 0 || err != nil {
			t.Errorf("%d models have requests that wait, %v", n, err)
		}
	})
}

func (d *onDemand) catalog(models ...catalog.Model) {
	d.t.Helper()
	if err := d.p.SetModels(models); err != nil {
		d.t.Fatal(err)
	}
	d.pass()
}

func (d *onDemand) says(statuses ...feed.ModelStatus) {
	d.t.Helper()
	if err := d.p.SetStatuses(statuses); err != nil {
		d.t.Fatal(err)
	}
	d.pass()
}

// pass has everybody hear of what was said.
func (d *onDemand) pass() {
	time.Sleep(60 * time.Millisecond)
	synctest.Wait()
}

func (d *onDemand) publish() {
	d.t.Helper()
	if err := d.p.SetEntries(d.entries); err != nil {
		d.t.Fatal(err)
	}
	d.pass()
}

// start starts an engine of the model, and has the gateway hear of it.
func (d *onDemand) start(model string, maxRunning int) {
	d.t.Helper()
	cfg := sim.InstantConfig()
	cfg.Model = model
	engine, err := sim.New(cfg, sim.Deps{})
	if err != nil {
		d.t.Fatal(err)
	}
	address := model + ":80"
	l, err := d.network.Listen(address)
	if err != nil {
		d.t.Fatal(err)
	}
	ctx := d.ctx
	go func() { _ = engine.Serve(ctx, l) }()
	d.entries = append(d.entries, feed.Entry{
		Model: model, Instance: feed.Instance{Replica: model + "-1", Generation: 1, Start: "s1"}, Address: address, Engine: engines.Sim, MaxRunning: maxRunning,
	})
	d.publish()
}

// reply is what a client gets, once it has it.
type reply struct {
	*httptest.ResponseRecorder

	n      int // which request it is of
	took   time.Duration
	leaves context.CancelFunc
	done   chan struct{}
}

// ask sends a request, and does not wait for the answer.
func (d *onDemand) ask(model string, path ...string) *reply {
	ctx, cancel := context.WithCancel(d.t.Context())
	r := &reply{ResponseRecorder: httptest.NewRecorder(), n: d.asked, leaves: cancel, done: make(chan struct{})}
	d.asked++
	at := chatPath
	if len(path) > 0 {
		at = path[0]
	}
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(`{"model":`+strconv.Quote(model)+`,"max_tokens":4,"messages":[{"role":"user","content":"Hello"}]}`))
	req.Header.Set("X-Request-Id", fmt.Sprint("r", r.n))
	if strings.HasSuffix(at, "messages") {
		req.Header.Set("Anthropic-Version", "2023-06-01")
	}
	d.all.Go(func() {
		defer cancel()
		defer close(r.done)
		begin := time.Now()
		d.gw.ServeHTTP(r, req)
		r.took = time.Since(begin)
	})
	synctest.Wait()
	return r
}

// answered waits for the answer.
func (r *reply) answered() *reply {
	<-r.done
	return r
}

func (r *reply) retryAfter() time.Duration {
	n, err := strconv.Atoi(r.Header().Get("Retry-After"))
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Second
}

// refusedAs checks an answer of the gateway's own; a time below 0 is any.
func (d *onDemand) refusedAs(r *reply, code string, took, retry time.Duration, text ...string) {
	d.t.Helper()
	r.answered()
	body := r.Body.String()
	if r.Code != http.StatusServiceUnavailable || !strings.Contains(body, `"code":"`+code+`"`) || !strings.Contains(body, `"type":"server_error"`) {
		d.t.Errorf("answered %d %s; want 503 and code %s", r.Code, body, code)
	}
	if took >= 0 && r.took != took || r.retryAfter() != retry {
		d.t.Errorf("answered after %v, with Retry-After %v; want %v, %v", r.took, r.retryAfter(), took, retry)
	}
	for _, want := range text {
		if !strings.Contains(body, want) {
			d.t.Errorf("%q is not in %s", want, body)
		}
	}
}

func (d *onDemand) served(r *reply, took time.Duration) {
	d.t.Helper()
	r.answered()
	if r.Code != http.StatusOK || !strings.Contains(r.Body.String(), `"chat.completion"`) {
		d.t.Errorf("answered %d %s", r.Code, r.Body)
	}
	if off := (r.took - took).Abs(); off > 100*time.Millisecond {
		d.t.Errorf("served after %v, want %v", r.took, took)
	}
}

func (d *onDemand) waits(r *reply) {
	d.t.Helper()
	select {
	case <-r.done:
		d.t.Errorf("answered at once: %d %s", r.Code, r.Body)
	default:
	}
}

func (d *onDemand) demand(model string) feed.Demand {
	d.t.Helper()
	synctest.Wait()
	all, _ := d.p.Demand(0)
	for _, one := range all {
		if one.Model == model {
			return one
		}
	}
	return feed.Demand{}
}

func (d *onDemand) metric(want string) {
	d.t.Helper()
	synctest.Wait()
	f := &fleet{t: d.t, reg: d.reg}
	var got []string
	for key, v := range f.series() {
		if strings.HasPrefix(key, "llmgw_gateway_wake") {
			got = append(got, fmt.Sprintf("%s %v", strings.TrimPrefix(key, "llmgw_gateway_"), v))
		}
	}
	slices.Sort(got)
	if s := strings.Join(got, "\n"); s != strings.TrimSpace(strings.ReplaceAll(want, "\t", "")) {
		d.t.Errorf("metrics are\n%s", s)
	}
}

func loading(model string, ready time.Duration, progress string) feed.ModelStatus {
	return feed.ModelStatus{Model: model, State: feed.ModelLoading, Ready: engines.Known(ready), Progress: progress}
}

// A hundred first requests wait, are one demand of which the control plane hears at
// once, and are all served in the order in which they came when there is an endpoint.
func TestHundredFirstRequests(t *testing.T) {
	wake(t, nil, []catalog.Model{runnable("m", 0, 1)}, func(d *onDemand) {
		first := d.ask("m")
		if got := d.demand("m"); got.Waiting != 1 || !got.Asked.Is(0) {
			t.Errorf("%+v; want one that waits, at once", got)
		}
		all := []*reply{first}
		for range 99 {
			all = append(all, d.ask("m"))
		}
		d.metric("wake_waiting_requests{model=m} 100")
		time.Sleep(5 * time.Second)
		if got := d.demand("m"); got.Waiting != 100 {
			t.Errorf("%+v; want 100 that wait", got)
		}
		d.says(loading("m", 2*time.Second, ""))
		for _, r := range all {
			d.waits(r)
		}
		d.start("m", 4)
		for _, r := range all {
			d.served(r, 5*time.Second)
		}
		d.metric(`wake_wait_seconds{model=m} 100
			wakes_total{model=m,outcome=ready} 100`)
		// A model that is served is as before, and nothing of it waits.
		d.served(d.ask("m"), 0)
		time.Sleep(5 * time.Second)
		if got := d.demand("m"); got.Waiting != 0 || got.Queued != 0 || got.Asked.Or(time.Hour) > 6*time.Second || got.Saturation.Or(-1) < 0 {
			t.Errorf("%+v", got)
		}
		d.metric(`wake_wait_seconds{model=m} 100
			wakes_total{model=m,outcome=ready} 100`)
	})
}

// A wait ends within its bound, with when to come again and what is known.
func TestWakeAnswers(t *testing.T) {
	const wait = 10 * time.Second
	failing := func(reason string, retry engines.Opt[time.Duration]) feed.ModelStatus {
		return feed.ModelStatus{Model: "m", State: feed.ModelFailing, Reason: reason, Retry: retry}
	}
	var unknown engines.Opt[time.Duration]
	for _, tt := range []struct {
		name   string
		model  catalog.Model
		status *feed.ModelStatus
		code   string
		took   time.Duration
		retry  time.Duration
		text   []string
	}{
		{"nothing is known", runnable("m", 0, 1), nil, "model_loading", wait, 8 * time.Second, []string{"The model 'm' is loading. Wait for the time in Retry-After"}},
		{"asleep", runnable("m", 0, 1), &feed.ModelStatus{Model: "m", State: feed.ModelAsleep}, "model_loading", wait, 8 * time.Second, nil},
		{"an estimate", runnable("m", 0, 1), new(loading("m", 14*time.Second+100*time.Millisecond, "")), "model_loading", wait, 5 * time.Second, []string{"is loading and should serve in about 4s."}},
		{"a long one, with progress", runnable("m", 1, 1), new(loading("m", 3*time.Minute, "weights 3/8")), "model_loading", wait, 8 * time.Second, []string{"is loading (weights 3/8) and should serve in about 2m50s."}},
		{"a word that says no more", runnable("m", 0, 1), new(loading("m", time.Second, "loading")), "model_loading", wait, 2 * time.Second, []string{"The model 'm' is loading. Wait"}},
		{"one that is over", runnable("m", 0, 1), new(loading("m", time.Second, "")), "model_loading", wait, 2 * time.Second, []string{"The model 'm' is loading. Wait"}},
		{"failing", runnable("m", 0, 1), new(failing("out of memory", engines.Known(30*time.Second))), "model_failing", 0, 8 * time.Second, []string{"The model 'm' does not start: out of memory. The next start is tried in about 30s."}},
		{"failing, nobody knows for how long", runnable("m", 0, 1), new(failing("", unknown)), "model_failing", 0, 8 * time.Second, []string{"The model 'm' does not start. Send"}},
		{"failing, and tried again", runnable("m", 0, 1), new(failing("x", engines.Known(time.Duration(0)))), "model_loading", wait, 8 * time.Second, nil},
		{"unplaced", runnable("m", 0, 1), &feed.ModelStatus{Model: "m", State: feed.ModelUnplaced, Reason: "no card is free"}, "model_unplaced", wait, 8 * time.Second, []string{"There is no room for the model 'm' at the moment. Send"}},
		{"off", runnable("m", 0, 0), nil, "no_endpoint", 0, 0, []string{"No engine serves the model 'm', and none is started for it."}},
		{"said to be off", runnable("m", 0, 0), &feed.ModelStatus{Model: "m", State: feed.ModelOff}, "no_endpoint", 0, 0, nil},
		{"without scaling", catalog.Model{Name: "m", Source: "m", Profile: &engines.Profile{Engine: engines.Sim}}, nil, "no_endpoint", 0, 0, nil},
		{"lately off", runnable("m", 0, 1), &feed.ModelStatus{Model: "m", State: feed.ModelOff}, "model_loading", wait, 8 * time.Second, nil},
		{"only the control plane knows", runnable("m", 0, 0), new(loading("m", time.Minute, "")), "model_loading", wait, 8 * time.Second, nil},
		{"of no control plane's", catalog.Model{Name: "m"}, nil, "no_endpoint", 0, 2 * time.Second, []string{"No engine serves the model 'm' at the moment."}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wake(t, nil, []catalog.Model{tt.model}, func(d *onDemand) {
				if tt.status != nil {
					d.says(*tt.status)
				}
				r := d.ask("m")
				d.refusedAs(r, tt.code, tt.took, tt.retry, tt.text...)
				if off := r.Header().Get("X-Should-Retry"); (off == "false") != (tt.retry == 0) {
					t.Errorf("x-should-retry is %q", off)
				}
				if o := d.outcomes[0]; o.Result != router.ResultNoEndpoint || o.Model != "m" || o.Code != tt.code {
					t.Errorf("%+v", o)
				}
				// In the other API's shape it says the same.
				a := d.ask("m", "/v1/messages").answered()
				if want := `{"type":"error","error":{"type":"overloaded_error","message":`; a.Code != 503 || !strings.HasPrefix(a.Body.String(), want) || a.retryAfter() != tt.retry && tt.retry != 5*time.Second {
					t.Errorf("%d %v %s", a.Code, a.Header(), a.Body)
				}
				// What does not exist is something else, however many may be woken.
				if u := d.ask("n").answered(); u.Code != 404 || u.took != 0 || !strings.Contains(u.Body.String(), "model_not_found") {
					t.Errorf("%d %s", u.Code, u.Body)
				}
			})
		})
	}
}

// As many wait as may; the next one is told at once.
func TestWakeQueueIsBounded(t *testing.T) {
	models := []catalog.Model{runnable("m", 0, 1), runnable("n", 0, 1)}
	wake(t, func(c *gateway.Config) { c.OnDemand = gateway.OnDemand{Wait: 3 * time.Second, MaxWaiting: 2} }, models, func(d *onDemand) {
		d.says(loading("m", time.Minute, "half"))
		a, b := d.ask("m"), d.ask("m")
		d.refusedAs(d.ask("m"), "model_loading", 0, 8*time.Second, "is loading (half) and should serve in about 1m0s, and as many requests wait for it as may.")
		d.waits(d.ask("n")) // another model has a queue of its own
		d.refusedAs(a, "model_loading", 3*time.Second, 8*time.Second)
		d.refusedAs(b, "model_loading", 3*time.Second, 8*time.Second)
		d.waits(d.ask("m")) // there is room again
		d.all.Wait()
		d.metric(`wake_wait_seconds{model=m} 3
			wake_wait_seconds{model=n} 1
			wakes_total{model=m,outcome=expired} 3
			wakes_total{model=m,outcome=full} 1
			wakes_total{model=n,outcome=expired} 1`)
	})
}

// A client that leaves is waited for no more, and gives its place.
func TestClientLeavesWhileItWaits(t *testing.T) {
	wake(t, func(c *gateway.Config) { c.OnDemand.MaxWaiting = 2 }, []catalog.Model{runnable("m", 0, 1)}, func(d *onDemand) {
		a, b := d.ask("m"), d.ask("m")
		a.leaves()
		<-a.done
		if got := d.outcomes[0]; got.Result != router.ResultCanceled || a.took != 0 {
			t.Errorf("%+v after %v", got, a.took)
		}
		c := d.ask("m")
		d.waits(c)
		time.Sleep(2 * time.Second)
		c.leaves()
		d.start("m", 0)
		d.served(b, 2*time.Second)
		<-c.done
		d.metric(`wake_wait_seconds{model=m} 3
			wakes_total{model=m,outcome=canceled} 2
			wakes_total{model=m,outcome=ready} 1`)
	})
}

// What is heard of while requests wait counts for them: that the model fails, is
// switched off, is gone.
func TestChangesWhileRequestsWait(t *testing.T) {
	wake(t, nil, []catalog.Model{runnable("m", 0, 1), runnable("n", 0, 1)}, func(d *onDemand) {
		r := d.ask("m")
		d.says(feed.ModelStatus{Model: "m", State: feed.ModelUnplaced, Reason: "full"})
		d.waits(r)
		d.says(feed.ModelStatus{Model: "m", State: feed.ModelFailing, Reason: "no such file", Retry: engines.Known(5 * time.Second)})
		d.refusedAs(r, "model_failing", -1, 5*time.Second, "no such file")

		time.Sleep(6 * time.Second) // the next start is due
		r = d.ask("m")
		d.waits(r)
		other := d.ask("n")
		d.catalog(runnable("m", 0, 0), runnable("n", 0, 1)) // the status is an old one
		d.says()
		d.refusedAs(r, "no_endpoint", -1, 0)
		d.waits(other)
		d.catalog(runnable("m", 0, 0))
		d.refusedAs(other, "no_endpoint", -1, 0)
		d.metric(`wake_wait_seconds{model=m} 2
			wakes_total{model=m,outcome=failing} 1
			wakes_total{model=m,outcome=off} 1`) // of what is gone nothing is left

		d.catalog(runnable("m", 0, 2), runnable("n", 1, 1))
		r = d.ask("m")
		d.catalog(runnable("m", 0, 3))
		d.waits(r)
		if err := d.gw.Reload(gateway.DefaultConfig()); err != nil {
			t.Error(err)
		}
		d.waits(r)
		d.start("m", 0)
		d.served(r, 100*time.Millisecond)
	})
}

// While a model loads the request waits for it, then a fallback is tried; what a
// fallback is waited for is of the same time.
func TestWakeAndFallbacks(t *testing.T) {
	a, b := runnable("a", 0, 1), runnable("b", 0, 1)
	a.Fallbacks, b.Fallbacks = []string{"b"}, []string{"a"}
	off := runnable("off", 0, 0)
	off.Fallbacks = []string{"a"}
	wake(t, nil, []catalog.Model{a, b, off}, func(d *onDemand) {
		d.says(loading("a", time.Minute, ""))
		r := d.ask("a")
		d.refusedAs(r, "model_loading", 10*time.Second, 8*time.Second, "The model 'a' is loading and should serve in about 50s")
		if got := d.demand("b"); got.Waiting != 0 {
			t.Errorf("%+v; b is no model's that there is time for", got)
		}
		// One that is off is not waited for, and its fallback is.
		r = d.ask("off")
		d.waits(r)
		d.refusedAs(r, "model_loading", 10*time.Second, 8*time.Second, "The model 'a' is loading")
		r = d.ask("off")
		time.Sleep(4 * time.Second)
		// One that serves is asked when the wait is over.
		asked := d.ask("a")
		d.start("b", 0)
		d.waits(asked)
		d.served(asked, 10*time.Second)
		d.refusedAs(r, "model_loading", 10*time.Second, 8*time.Second)
		d.served(d.ask("b"), 0)
		d.start("a", 0)
		d.served(d.ask("off"), 0)
		served := d.outcomes[len(d.outcomes)-1]
		if served.Model != "off" || served.Served != "a" || served.Result != router.ResultOK {
			t.Errorf("%+v", served)
		}
	})
}

// Without a control plane nobody starts anything, and nothing waits.
func TestNothingWaitsWithoutAControlPlane(t *testing.T) {
	cfg := config()
	cfg.Models = []catalog.Model{runnable("m", 0, 1)}
	f := newFleet(t, cfg)
	if got := f.chat(); got.status != 503 || got.code() != "no_endpoint" || got.header.Get("Retry-After") != "2" {
		t.Errorf("%d %v %s", got.status, got.header, got.body)
	}
	if got := f.do("GET", "/v1/models", ""); strings.Contains(got.body, "state") {
		t.Error(got.body)
	}
}

// A request that has to end sooner waits no longer than that.
func TestWakeEndsWithTheRequest(t *testing.T) {
	wake(t, func(c *gateway.Config) { c.Router.Relay.Timeouts.Total = 2 * time.Second }, []catalog.Model{runnable("m", 0, 1)}, func(d *onDemand) {
		d.refusedAs(d.ask("m"), "model_loading", 2*time.Second, 8*time.Second)
	})
}

// An endpoint that goes again before all have gone on keeps the rest waiting.
func TestEndpointThatComesAndGoes(t *testing.T) {
	wake(t, nil, []catalog.Model{runnable("m", 0, 1)}, func(d *onDemand) {
		a := d.ask("m")
		d.start("m", 0)
		d.served(a, 0)
		d.entries = nil
		d.publish()
		b := d.ask("m")
		d.waits(b)
		time.Sleep(time.Second)
		d.entries = []feed.Entry{{Model: "m", Instance: feed.Instance{Replica: "m-1", Generation: 2, Start: "s2"}, Address: "m:80", Engine: engines.Sim}}
		d.publish()
		d.served(b, time.Second)
	})
}

// What takes a model's room is told to who may know what else there is.
func TestWhoIsToldOfNoRoom(t *testing.T) {
	explain := func(c *gateway.Config) { c.Router.Core.ExplainToLoopback, c.OnDemand.Wait = true, time.Second }
	wake(t, explain, []catalog.Model{runnable("m", 0, 1)}, func(d *onDemand) {
		d.says(feed.ModelStatus{Model: "m", State: feed.ModelUnplaced, Reason: "other-model has it"})
		for from, told := range map[string]bool{"127.0.0.1:1": true, "10.0.0.1:1": false} {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(d.t.Context(), http.MethodPost, chatPath, strings.NewReader(chatBody))
			r.RemoteAddr = from
			d.gw.ServeHTTP(w, r)
			if got := strings.Contains(w.Body.String(), "at the moment: other-model has it."); got != told || w.Code != 503 {
				t.Errorf("from %s: %d %s", from, w.Code, w.Body)
			}
		}
	})
}

// The lists of models say how each stands, in both APIs' shapes.
func TestModelsHaveAState(t *testing.T) {
	models := []catalog.Model{
		runnable("asleep", 0, 1), runnable("elsewhere", 1, 1), runnable("failing", 1, 1), runnable("new", 1, 1), runnable("off", 0, 0), {Name: "plain"}, runnable("serving", 1, 1),
	}
	wake(t, nil, models, func(d *onDemand) {
		d.says(
			feed.ModelStatus{Model: "asleep", State: feed.ModelAsleep}, feed.ModelStatus{Model: "failing", State: feed.ModelFailing},
			feed.ModelStatus{Model: "elsewhere", State: feed.ModelServing}, feed.ModelStatus{Model: "serving", State: feed.ModelLoading},
		)
		d.start("serving", 0)
		get := func(path string, header ...string) string {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(d.t.Context(), http.MethodGet, path, nil)
			if len(header) > 0 {
				r.Header.Set(header[0], header[1])
			}
			d.gw.ServeHTTP(w, r)
			return w.Body.String()
		}
		for _, list := range []string{get("/v1/models"), get("/v1/models", "Anthropic-Version", "2023-06-01")} {
			for model, state := range map[string]string{
				"asleep": "asleep", "elsewhere": "loading", "failing": "failing", "new": "", "off": "off", "plain": "", "serving": "serving",
			} {
				_, entry, found := strings.Cut(list, `"id":"`+model+`"`)
				entry, _, _ = strings.Cut(entry, "}")
				if _, got, told := strings.Cut(entry, `"state":`); !found || told != (state != "") || told && got != strconv.Quote(state) {
					t.Errorf("%s is told to be %q, want %q, in %s", model, got, state, list)
				}
			}
		}
		if got := get("/v1/models/asleep"); !strings.Contains(got, `"state":"asleep"`) {
			t.Error(got)
		}
	})
}

// Values that make no sense are named.
func TestOnDemandConfig(t *testing.T) {
	for _, tt := range []struct {
		change func(*gateway.OnDemand)
		want   string
	}{
		{func(c *gateway.OnDemand) { c.Wait = 0 }, "on_demand.wait: 0s is out of range; want 1s to 25s, such as 10s"},
		{func(c *gateway.OnDemand) { c.Wait = time.Minute }, "on_demand.wait: 1m0s is out of range"},
		{func(c *gateway.OnDemand) { c.MaxWaiting = 0 }, "on_demand.max_waiting: 0 is out of range; want 1 to 100000, such as 256"},
		{func(c *gateway.OnDemand) { c.MaxWaiting = 100_001 }, "on_demand.max_waiting: 100001 is out of range"},
		{func(c *gateway.OnDemand) { c.Wait, c.MaxWaiting = 25*time.Second, 1 }, ""},
	} {
		cfg := gateway.DefaultConfig()
		tt.change(&cfg.OnDemand)
		err := cfg.Validate()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%+v: %v; want %q", cfg.OnDemand, err, tt.want)
		}
	}
}

// A router whose models all sleep is ready: it alone can have them woken, and who
// balances over routers must not take it away.
func TestReadyWhileAllSleep(t *testing.T) {
	wake(t, nil, []catalog.Model{runnable("m", 0, 1), runnable("n", 1, 1)}, func(d *onDemand) {
		for _, tt := range []struct {
			name  string
			m, n  feed.ModelState
			ready bool
		}{
			{"nobody has said anything of it", feed.ModelUnset, feed.ModelLoading, false},
			{"asleep", feed.ModelAsleep, feed.ModelLoading, true},
			{"woken", feed.ModelLoading, feed.ModelLoading, true},
			{"failing", feed.ModelFailing, feed.ModelLoading, false},
			{"no room", feed.ModelUnplaced, feed.ModelLoading, false},
		} {
			var said []feed.ModelStatus
			for model, state := range map[string]feed.ModelState{"m": tt.m, "n": tt.n} {
				if state != feed.ModelUnset {
					said = append(said, feed.ModelStatus{Model: model, State: state, Reason: "a reason"})
				}
			}
			d.says(said...)
			if err := d.gw.Ready(); (err == nil) != tt.ready {
				d.t.Errorf("%s: %v", tt.name, err)
			}
		}
	})
}
