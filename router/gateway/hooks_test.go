package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/router/openai"
	"github.com/llmgw/llmgw/router/schedule"
)

// trace is all five hooks and a filter, which write down when they are called.
// Each does what is set for it before it goes on.
type trace struct {
	mu    sync.Mutex
	calls []string // guarded by mu
	end   chan struct{}

	identify, charge, admit, settle, release, record, keep func() error
}

func (x *trace) call(name string, do func() error) error {
	x.mu.Lock()
	x.calls = append(x.calls, name)
	x.mu.Unlock()
	if do != nil {
		return do()
	}
	return nil
}

func (x *trace) Identify(*http.Request) (router.Identity, error) {
	return router.Identity{Tenant: "t"}, x.call("identify", x.identify)
}

func (x *trace) Charge(_ context.Context, _ router.Estimate) (router.Charge, error) {
	if err := x.call("charge", x.charge); err != nil {
		return nil, err
	}
	return settling{x}, nil
}

type settling struct{ x *trace }

func (s settling) Settle(o *router.Outcome) {
	_ = s.x.call("settle "+o.Result.String()+fmt.Sprint(" ", o.Status), s.x.settle)
}

func (x *trace) Admit(context.Context, router.Admission) (router.Lease, error) {
	if err := x.call("admit", x.admit); err != nil {
		return nil, err
	}
	return releasing{x}, nil
}

type releasing struct{ x *trace }

func (r releasing) Release() { _ = r.x.call("release", r.x.release) }

func (x *trace) Record(o *router.Outcome) {
	defer close(x.end)
	_ = x.call("record "+o.Result.String()+fmt.Sprint(" ", o.Status), x.record)
}

func (x *trace) Name() string { return "trace" }

func (x *trace) Keep(*schedule.Request, *schedule.Candidate) bool {
	_ = x.call("schedule", x.keep)
	return true
}

func (x *trace) into(d *gateway.Deps) {
	d.Caller, d.Charger, d.Admitter, d.Recorder = x, x, x, x
	chat := schedule.Profiles(schedule.DefaultConfig())[0]
	chat.Name, chat.Filters = "traced", append([]schedule.Filter{x}, chat.Filters...)
	d.Profiles = []schedule.Profile{chat}
}

// However a request ends, what was taken is given back once and it is recorded
// once, in order, and no hook is asked after one before it refused.
func TestHooksInOrder(t *testing.T) {
	refusal := &openai.Error{Status: 429, Code: "rate_limit_exceeded", Message: "Too many requests. Try again shortly.", RetryAfter: 2e9}
	refuse := func() error { return fmt.Errorf("wrapped: %w", refusal) }
	fail := func() error { return errors.New("the database at 10.1.2.3 is away") }
	boom := func() error { panic("a fault of the hook's own") }
	wantPanic := -1
	tests := []struct {
		name   string
		set    func(*trace)
		body   string
		answer func(*exchange)
		status int // wantPanic: the connection is dropped
		code   string
		want   string
	}{
		{name: "document", body: chatBody, status: 200, want: "identify charge admit schedule release settle ok 200 record ok 200"},
		{name: "stream", body: streamBody, status: 200, want: "identify charge admit schedule release settle ok 200 record ok 200"},
		{
			name: "engine's refusal", body: chatBody, answer: func(x *exchange) { x.write(document(400, `{}`)) }, status: 400,
			want: "identify charge admit schedule release settle engine_refused 400 record engine_refused 400",
		},
		{
			name: "engine's failure", body: chatBody, answer: func(x *exchange) { x.reset() }, status: 502, code: "upstream_failed",
			want: "identify charge admit schedule schedule release settle failed 502 record failed 502",
		},
		{
			name: "cut stream", body: streamBody, answer: func(x *exchange) { x.write(eventHead() + chunk(delta("h"))); _ = x.Close() }, status: 200,
			want: "identify charge admit schedule release settle cut 200 record cut 200",
		},
		{name: "no JSON", body: "x", status: 400, code: "invalid_json", want: "identify record refused 400"},
		{name: "unknown model", body: `{"model":"x"}`, status: 404, code: "model_not_found", want: "identify record refused 404"},
		{
			name: "identify refuses", body: chatBody, set: func(x *trace) { x.identify = refuse }, status: 429, code: "rate_limit_exceeded",
			want: "identify record refused 429",
		},
		{
			name: "charge refuses", body: chatBody, set: func(x *trace) { x.charge = refuse }, status: 429, code: "rate_limit_exceeded",
			want: "identify charge record refused 429",
		},
		{
			name: "admit refuses", body: chatBody, set: func(x *trace) { x.admit = refuse }, status: 429, code: "rate_limit_exceeded",
			want: "identify charge admit settle refused 429 record refused 429",
		},
		{
			name: "identify fails", body: chatBody, set: func(x *trace) { x.identify = fail }, status: 503, code: "overloaded",
			want: "identify record refused 503",
		},
		{
			name: "charge fails", body: chatBody, set: func(x *trace) { x.charge = fail }, status: 503, code: "overloaded",
			want: "identify charge record refused 503",
		},
		{
			name: "admit fails", body: chatBody, set: func(x *trace) { x.admit = fail }, status: 503, code: "overloaded",
			want: "identify charge admit settle refused 503 record refused 503",
		},
		{name: "identify panics", body: chatBody, set: func(x *trace) { x.identify = boom }, status: wantPanic, want: "identify record fault 0"},
		{name: "charge panics", body: chatBody, set: func(x *trace) { x.charge = boom }, status: wantPanic, want: "identify charge record fault 0"},
		{
			name: "admit panics", body: chatBody, set: func(x *trace) { x.admit = boom }, status: wantPanic,
			want: "identify charge admit settle fault 0 record fault 0",
		},
		{
			name: "the scheduler panics", body: chatBody, set: func(x *trace) { x.keep = boom }, status: wantPanic,
			want: "identify charge admit schedule release settle fault 0 record fault 0",
		},
		{
			name: "release panics", body: chatBody, set: func(x *trace) { x.release = boom }, status: wantPanic,
			want: "identify charge admit schedule release settle ok 200 record ok 200",
		},
		{
			name: "settle panics", body: chatBody, set: func(x *trace) { x.settle = boom }, status: wantPanic,
			want: "identify charge admit schedule release settle ok 200 record ok 200",
		},
		{
			name: "record panics", body: chatBody, set: func(x *trace) { x.record = boom }, status: wantPanic,
			want: "identify charge admit schedule release settle ok 200 record ok 200",
		},
	}
	for _, tt := range tests {
		for _, path := range []string{chatPath, "/v1/messages"} {
			t.Run(tt.name+path, func(t *testing.T) {
				answer := tt.answer
				if answer == nil {
					answer = good
				}
				e := newRaw(t, answer)
				x := &trace{end: make(chan struct{})}
				if tt.set != nil {
					tt.set(x)
				}
				cfg := config(at("e", e.url))
				cfg.Router.Core.DefaultProfile = "traced"
				f := newFleet(t, cfg, x.into)
				got := f.do("POST", path, tt.body)
				<-x.end
				if tt.status == wantPanic {
					// An answer that was whole before may have got through.
					if got.err == nil && got.body != completion {
						t.Errorf("got %d %s", got.status, got.body)
					}
				} else if got.err != nil || got.status != tt.status {
					t.Errorf("got %d %s, %v", got.status, got.body, got.err)
				}
				if tt.code != "" && path == chatPath {
					checkShape(t, path, got, tt.code, "")
				} else if tt.code != "" && !strings.Contains(got.body, `"type":"error"`) {
					t.Errorf("got %s", got.body)
				}
				if tt.code == refusal.Code && got.header.Get("Retry-After") != "2" {
					t.Errorf("Retry-After is %q", got.header.Get("Retry-After"))
				}
				x.mu.Lock()
				calls := strings.Join(x.calls, " ")
				x.mu.Unlock()
				if diff := cmp.Diff(tt.want, calls); diff != "" {
					t.Error(diff)
				}
				if strings.Contains(got.body, "10.1.2.3") {
					t.Error("the client hears of the inside")
				}
				if strings.HasSuffix(tt.name, "fails") && !strings.Contains(f.log.String(), "10.1.2.3") {
					t.Error("the operator hears nothing")
				}
				f.eventually("all is given back", func() bool {
					return f.metric("llmgw_router_requests_in_flight") == 0 && f.metric("llmgw_endpoint_inflight_requests") == 0 &&
						f.metric("llmgw_router_body_memory_bytes") == 0
				})
				if panics := f.metric("llmgw_router_panics_total"); (panics == 1) != (tt.status == wantPanic) {
					t.Errorf("%v panics are counted", panics)
				}
			})
		}
	}
}

// A client that leaves gives back what it had, wherever it was.
func TestClientLeaves(t *testing.T) {
	tests := []struct {
		name  string
		setUp func(*fleet)
		ready func(*fleet, *rawEngine) bool
	}{
		{
			"waiting for admission",
			func(f *fleet) { f.gate.SetPlaces(-1) },
			func(f *fleet, _ *rawEngine) bool { return f.gate.Waiting() == 1 },
		},
		{
			"waiting for the engine", func(*fleet) {},
			func(_ *fleet, e *rawEngine) bool { return e.calls.Load() == 1 },
		},
	}
	for _, tt := range tests {
		for _, body := range []string{chatBody, streamBody} {
			t.Run(fmt.Sprintf("%s/stream=%v", tt.name, body == streamBody), func(t *testing.T) {
				left := make(chan struct{})
				e := newRaw(t, func(x *exchange) { x.untilLeft(); close(left) })
				f := newFleet(t, config(at("e", e.url)))
				tt.setUp(f)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan answer)
				go func() { ended <- f.doContext(ctx, "POST", chatPath, body) }()
				f.eventually("it is there", func() bool { return tt.ready(f, e) })
				cancel()
				if got := <-ended; !errors.Is(got.err, context.Canceled) {
					t.Errorf("got %d, %v", got.status, got.err)
				}
				if o := f.next(); o.Result != router.ResultCanceled || o.Status == 200 {
					t.Errorf("recorded %v, status %d", o.Result, o.Status)
				}
				if e.calls.Load() == 1 {
					<-left
				}
				f.idle()
				if f.metric("llmgw_endpoint_recent_failures") != 0 {
					t.Error("it counts against the engine")
				}
			})
		}
	}
}

// When it is the server that gives a request up, the client is still there and
// must not take nothing, or a part, for the answer.
func TestServerGivesUp(t *testing.T) {
	for _, sent := range []string{"", eventHead() + chunk(delta("h")), head(200, "Content-Type: application/json", "Transfer-Encoding: chunked") + chunk(`{"a":`)} {
		arrived := make(chan struct{})
		e := newRaw(t, func(x *exchange) { x.write(sent); close(arrived); x.untilLeft() })
		f := newFleet(t, config(at("e", e.url)))
		ctx, cancel := context.WithCancel(t.Context())
		srv := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			f.gw.ServeHTTP(w, r.WithContext(ctx))
		}))
		f.url = srv
		go func() {
			<-arrived
			cancel()
		}()
		res, err := f.send(t.Context(), "POST", chatPath, strings.NewReader(streamBody))
		if err != nil {
			continue // dropped before the head
		}
		b, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err == nil {
			t.Errorf("the client takes %d %q for all", res.StatusCode, b)
		}
	}
}

// timed is an admitter whose leases tell when they were given, and are told when they
// are given back; and a recorder of when what it admitted was decided and ended.
type timed struct {
	at       time.Time // zero: the request had to wait
	released chan time.Time
	recorded chan [2]time.Time
}

func (x *timed) Admit(context.Context, router.Admission) (router.Lease, error) { return x, nil }
func (x *timed) AdmittedAt() (time.Time, bool)                                 { return x.at, !x.at.IsZero() }
func (x *timed) ReleaseAt(now time.Time)                                       { x.released <- now }
func (x *timed) Release()                                                      { close(x.released) }
func (x *timed) Record(o *router.Outcome)                                      { x.recorded <- [2]time.Time{o.Decision.At, o.End} }

// A request that was admitted at once is decided as of then, and one that had to wait
// as of when its wait was over.
func TestTimedLease(t *testing.T) {
	engine := at("e", newRaw(t, good).url)
	for _, at := range []time.Time{{}, time.Now().Add(-time.Hour)} {
		x := &timed{at, make(chan time.Time, 1), make(chan [2]time.Time, 1)}
		f := newFleet(t, config(engine), func(d *gateway.Deps) { d.Admitter, d.Recorder = x, x })
		before := time.Now()
		if got := f.do("POST", chatPath, chatBody); got.status != 200 {
			t.Fatalf("got %d %s", got.status, got.body)
		}
		o := <-x.recorded
		decided, end := o[0], o[1]
		if now, told := <-x.released; !told || !now.Equal(end) {
			t.Errorf("released at %v, told: %v; want %v", now, told, end)
		}
		if at.IsZero() && decided.Before(before) || !at.IsZero() && !decided.Equal(at) {
			t.Errorf("admitted at %v, decided at %v; begun at %v", at, decided, before)
		}
	}
}

// Without hooks everything passes.
func TestNoHooks(t *testing.T) {
	e := newRaw(t, good)
	gw, err := gateway.New(config(at("e", e.url)), gateway.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, config())
	f.url = newServer(t, gw)
	for _, path := range []string{chatPath, "/v1/messages"} {
		if got := f.do("POST", path, chatBody); got.status != 200 {
			t.Errorf("got %d %s", got.status, got.body)
		}
	}
	if got := f.do("GET", "/v1/models", ""); !slices.Equal(ids(t, got.body), []string{"m"}) {
		t.Errorf("got %s", got.body)
	}
	if err := gw.Reload(config()); err != nil {
		t.Fatal(err)
	}
}
