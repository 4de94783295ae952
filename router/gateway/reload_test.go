package gateway_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/router/schedule"
)

// A stream ends on what it began with, whatever is loaded meanwhile; an
// endpoint that comes back under its old name starts at zero.
func TestReloadLeavesStreamsAlone(t *testing.T) {
	release := make(chan struct{})
	e := newRaw(t, func(x *exchange) {
		x.write(eventHead() + chunk(delta("h")))
		<-release
		x.write(chunk(delta("i")) + chunk(doneEvent) + lastChunk)
	})
	other := newRaw(t, good)
	cfg := config(at("e", e.url))
	f := newFleet(t, cfg)
	reload := func(cfg gateway.Config) {
		t.Helper()
		if err := f.gw.Reload(cfg); err != nil {
			t.Fatal(err)
		}
	}
	res, err := f.send(t.Context(), "POST", chatPath, strings.NewReader(streamBody))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.ReadFull(res.Body, make([]byte, len(delta("h")))); err != nil {
		t.Fatal(err)
	}
	inflight := func() float64 { return f.metric("llmgw_endpoint_inflight_requests", "endpoint=e") }
	if inflight() != 1 {
		t.Errorf("%v are in flight", inflight())
	}
	reload(config(at("x", other.url, "another"))) // model and endpoint are gone
	if got := f.chat(); got.status != 404 || got.code() != "model_not_found" {
		t.Errorf("got %d %s, want an unknown model and nothing that loads", got.status, got.body)
	}
	moved := at("e", other.url) // back under the same name, elsewhere
	reload(config(moved))
	if inflight() != 0 {
		t.Errorf("the new instance begins with %v in flight", inflight())
	}
	if got := f.chat(); got.status != 200 || other.calls.Load() != 1 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	reload(cfg) // and at its old address: an instance of its own again
	if inflight() != 0 {
		t.Errorf("the new instance begins with %v in flight", inflight())
	}
	close(release)
	rest, err := io.ReadAll(res.Body)
	if err != nil || string(rest) != delta("i")+doneEvent {
		t.Errorf("the stream went on with %q, %v", rest, err)
	}
	f.next()
	f.next()
	if o := f.next(); o.Result != router.ResultOK || o.Endpoint != "e" || o.Model != "m" {
		t.Errorf("recorded %+v", o)
	}
	f.idle()
	if inflight() != 0 {
		t.Errorf("%v are in flight", inflight())
	}
}

// A new configuration that is at fault changes nothing.
func TestReloadIsWholeOrNot(t *testing.T) {
	e := newRaw(t, good)
	f := newFleet(t, config(at("e", e.url)))
	for name, bad := range map[string]gateway.Config{
		"url":      config(at("e", "ftp://x", "n")),
		"key_env":  config(gateway.Endpoint{Spec: at("e", e.url, "n").Spec, KeyEnv: "LLMGW_TEST_NOT_SET"}),
		"key_file": config(gateway.Endpoint{Spec: at("e", e.url, "n").Spec, KeyFile: filepath.Join(t.TempDir(), "none")}),
		"models":   {Router: gateway.DefaultConfig().Router, Scoring: gateway.DefaultConfig().Scoring, Models: []catalog.Model{{Name: "n"}, {Name: "n"}}},
	} {
		if err := f.gw.Reload(bad); err == nil {
			t.Errorf("%s: it is taken", name)
		}
		if got := f.chat(); got.status != 200 {
			t.Errorf("%s: got %d %s", name, got.status, got.body)
		}
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	tls := at("e", "https://127.0.0.1:1", "n")
	tls.CAFile = ca
	if err := f.gw.Reload(config(tls)); err == nil || !strings.Contains(err.Error(), "endpoints[0].ca_file: ") {
		t.Errorf("got %v", err)
	}
}

// Without endpoints, and while all of them fail, requests get 503, and it heals
// by itself.
func TestNothingToServeWith(t *testing.T) {
	f := newFleet(t, config())
	f.run()
	if err := f.gw.Ready(); !errors.Is(err, gateway.ErrNoEndpoint) {
		t.Errorf("ready without endpoints: %v", err)
	}
	cfg := config()
	cfg.Models = []catalog.Model{{Name: "m"}}
	if err := f.gw.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	got := f.chat()
	if got.status != 503 || got.code() != "no_endpoint" || got.header.Get("Retry-After") == "" {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if !strings.Contains(f.log.String(), "endpoints: there are none; ") {
		t.Error("nobody is warned")
	}
	e := newRaw(t, good)
	cfg.Endpoints = []gateway.Endpoint{at("e", e.url)}
	if err := f.gw.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	if got := f.chat(); got.status != 200 || f.gw.Ready() != nil {
		t.Errorf("got %d %s; ready: %v", got.status, got.body, f.gw.Ready())
	}
}

func TestAllDieAndComeBack(t *testing.T) {
	var dead atomic.Bool
	cfg := config()
	for _, id := range []string{"a", "b", "c"} {
		cfg.Endpoints = append(cfg.Endpoints, at(id, newRaw(t, func(x *exchange) {
			if dead.Load() {
				x.reset()
				return
			}
			good(x)
		}).url))
	}
	cfg.Router.Breaker.Cooldown = 20 * time.Millisecond
	f := newFleet(t, cfg)
	load := func(stop <-chan struct{}) <-chan map[int]int {
		out := make(chan map[int]int)
		for range 8 {
			go func() {
				seen := map[int]int{}
				for {
					select {
					case <-stop:
						out <- seen
						return
					default:
						seen[f.chat().status]++
					}
				}
			}()
		}
		return out
	}
	stop := make(chan struct{})
	out := load(stop)
	f.eventually("traffic flows", func() bool { return f.metric("llmgw_router_requests_total", "result=ok") > 50 })
	dead.Store(true)
	f.eventually("all are out", func() bool { return f.metric("llmgw_router_requests_total", "result=no_endpoint") > 50 })
	if f.metric("llmgw_endpoint_breaker_openings_total") < 3 {
		t.Error("not all breakers opened")
	}
	dead.Store(false)
	before := f.metric("llmgw_router_requests_total", "result=ok")
	f.eventually("traffic flows again", func() bool { return f.metric("llmgw_router_requests_total", "result=ok") > before+50 })
	f.eventually("all are back", func() bool { return f.metric("llmgw_endpoint_state", "state=closed") == 3 })
	close(stop)
	for range 8 {
		for status := range <-out {
			if status != 200 && status != 502 && status != 503 {
				t.Errorf("some got %d", status)
			}
		}
	}
	f.idle()
}

// meanwhile is a filter that keeps everything and does something once.
type meanwhile struct{ once func() }

func (meanwhile) Name() string { return "meanwhile" }

func (m meanwhile) Keep(*schedule.Request, *schedule.Candidate) bool {
	m.once()
	return true
}

// A request whose endpoints are all replaced while it is decided goes to those
// that came.
func TestReloadWhileDeciding(t *testing.T) {
	old, next := newRaw(t, good), newRaw(t, good)
	var f *fleet
	own := schedule.Profiles(schedule.DefaultConfig())[0]
	own.Name, own.Filters = "own", append([]schedule.Filter{meanwhile{sync.OnceFunc(func() {
		next := config(at("b", next.url))
		next.Models = []catalog.Model{{Name: "m", RoutingProfile: "own"}}
		if err := f.gw.Reload(next); err != nil {
			t.Error(err)
		}
	})}}, own.Filters...)
	cfg := config(at("a", old.url))
	cfg.Models = []catalog.Model{{Name: "m", RoutingProfile: "own"}}
	f = newFleet(t, cfg, func(d *gateway.Deps) { d.Profiles = []schedule.Profile{own} })
	if got := f.chat(); got.status != 200 || next.calls.Load() != 1 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if o := f.next(); o.Attempts != 1 || o.Endpoint != "b" {
		t.Errorf("%d attempts, answered by %q", o.Attempts, o.Endpoint)
	}
}
