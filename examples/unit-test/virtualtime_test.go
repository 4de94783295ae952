package asker

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/engines/sim/simtest"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/gateway"
)

// inVirtualTime runs test in a bubble where time passes only when all wait, with
// a client of a router of one engine that is as fast as an 8B model on a large
// card. Minutes take milliseconds, and durations are the same in every run.
func inVirtualTime(t *testing.T, test func(t *testing.T, client *Asker, engine *sim.Engine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer end()
		var network simtest.Network // sockets would know real time only
		listen := func(address string) net.Listener {
			l, err := network.Listen(address)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}

		engine, err := sim.New(sim.DefaultConfig(), sim.Deps{})
		if err != nil {
			t.Fatal(err)
		}
		atEngine := listen("engine:80")
		wg.Go(func() { _ = engine.Serve(ctx, atEngine) })

		cfg := gateway.DefaultConfig()
		cfg.Endpoints = []gateway.Endpoint{{Spec: endpoint.Spec{
			ID: "engine", URL: "http://engine", Models: []endpoint.Model{{Name: "sim-8b"}},
		}}}
		gw, err := gateway.New(cfg, gateway.Deps{Dial: network.Dial})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() { _ = gw.Run(ctx) })
		server := &http.Server{Handler: gw, ReadHeaderTimeout: time.Minute}
		atRouter := listen("router:80")
		wg.Go(func() { _ = server.Serve(atRouter) })
		defer func() { _ = server.Close() }()

		transport := &http.Transport{DialContext: network.Dial}
		defer transport.CloseIdleConnections()
		test(t, &Asker{BaseURL: "http://router/v1", Model: "sim-8b", HTTP: &http.Client{Transport: transport}}, engine)
	})
}

// The first word comes after the time that such a model takes.
func TestTimeToFirstWord(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, client *Asker, _ *sim.Engine) {
		begin := time.Now()
		var first time.Duration
		_, err := client.Ask(t.Context(), strings.Repeat("a long question ", 1000), func(string) {
			if first == 0 {
				first = time.Since(begin)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if first < 100*time.Millisecond || first > 200*time.Millisecond {
			t.Errorf("the first word took %v", first)
		}
	})
}

// An engine that stops in the middle is given up by the router after its
// timeout between two tokens, a minute.
func TestEngineHangs(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, client *Asker, engine *sim.Engine) {
		spoil(t, "hang_after_events=10", engine)
		begin := time.Now()
		answer, err := client.Ask(t.Context(), "Hello", func(string) {})
		if !errors.Is(err, ErrIncomplete) || answer == "" {
			t.Errorf("%q, %v; want a part and ErrIncomplete", answer, err)
		}
		if took := time.Since(begin).Round(time.Second); took != time.Minute {
			t.Errorf("given up after %v", took)
		}
	})
}

// A client that gives up frees its place in the engine's batch.
func TestLeaving(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, client *Asker, engine *sim.Engine) {
		ctx, leave := context.WithCancel(t.Context())
		var running int
		_, err := client.Ask(ctx, "Hello", func(string) {
			running = max(running, engine.Stats().Running)
			leave()
		})
		if !errors.Is(err, context.Canceled) || running != 1 {
			t.Errorf("%v, %d running; want context.Canceled and 1", err, running)
		}
		synctest.Wait() // until all that follows from leaving has happened
		if n := engine.Stats().Running; n != 0 {
			t.Errorf("%d still running", n)
		}
	})
}
