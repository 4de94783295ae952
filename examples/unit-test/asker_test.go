package asker

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/gateway"
)

// newFleet serves a router in front of two engines that answer at once, and
// returns a client of it and the engines.
func newFleet(t *testing.T) (*Asker, []*sim.Engine) {
	t.Helper()
	cfg := gateway.DefaultConfig()
	var engines []*sim.Engine
	for _, id := range []string{"engine-1", "engine-2"} {
		engine, err := sim.New(sim.InstantConfig(), sim.Deps{})
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(engine)
		t.Cleanup(server.Close)
		t.Cleanup(func() { _ = engine.Close() })
		engines = append(engines, engine)
		cfg.Endpoints = append(cfg.Endpoints, gateway.Endpoint{Spec: endpoint.Spec{
			ID: id, URL: server.URL, Models: []endpoint.Model{{Name: "sim-8b"}},
		}})
	}
	gw, err := gateway.New(cfg, gateway.Deps{}) // serves without Run, which only watches the engines' load
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gw)
	t.Cleanup(server.Close)
	return &Asker{BaseURL: server.URL + "/v1", Model: "sim-8b", HTTP: server.Client()}, engines
}

// spoil makes every engine misbehave, in the words of llmgw sim --faults.
func spoil(t *testing.T, faults string, engines ...*sim.Engine) {
	t.Helper()
	f, err := sim.ParseFaults(sim.Faults{}, faults)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range engines {
		if err := e.SetFaults(f); err != nil {
			t.Fatal(err)
		}
	}
}

// generated is how many tokens the engines made.
func generated(engines []*sim.Engine) (n int64) {
	for _, e := range engines {
		n += e.Stats().GenerationTokens
	}
	return n
}

func TestWholeAnswer(t *testing.T) {
	client, engines := newFleet(t)
	var shown strings.Builder
	answer, err := client.Ask(t.Context(), "What is an inference engine?", func(s string) { shown.WriteString(s) })
	if err != nil {
		t.Fatal(err)
	}
	// The simulated engine's words are such that a missing one shows.
	if tokens, whole := sim.CheckText(answer); !whole || int64(tokens) != generated(engines) {
		t.Errorf("%d tokens of %d, whole %t: %q", tokens, generated(engines), whole, answer)
	}
	if shown.String() != answer {
		t.Errorf("shown %q, returned %q", shown.String(), answer)
	}
}

// An awkward network is no error: bytes come one at a time, lines end in CRLF,
// comments stand between the events.
func TestAwkwardStream(t *testing.T) {
	client, engines := newFleet(t)
	spoil(t, "split_bytes=1; crlf=true; comment_every=2", engines...)
	answer, err := client.Ask(t.Context(), "Hello", func(string) {})
	if _, whole := sim.CheckText(answer); err != nil || !whole {
		t.Errorf("%q, %v", answer, err)
	}
}

// The engine resets the connection in the middle of its answer. What came is
// kept and is known not to be all; the router cannot hide this.
func TestResetInTheMiddle(t *testing.T) {
	client, engines := newFleet(t)
	spoil(t, "reset_after_events=5", engines...)
	answer, err := client.Ask(t.Context(), "Hello", func(string) {})
	if !errors.Is(err, ErrIncomplete) {
		t.Fatalf("%q, %v; want ErrIncomplete", answer, err)
	}
	if tokens, whole := sim.CheckText(answer); tokens == 0 || !whole {
		t.Errorf("kept %q: %d tokens, whole %t", answer, tokens, whole)
	}
}

// An engine that fails before its answer is the router's to deal with: the
// client does not notice.
func TestOneEngineIsDown(t *testing.T) {
	client, engines := newFleet(t)
	spoil(t, "reset_headers=true", engines[0])
	for range 4 {
		if _, err := client.Ask(t.Context(), "Hello", func(string) {}); err != nil {
			t.Error(err)
		}
	}
	if n := engines[0].Stats().GenerationTokens; n != 0 {
		t.Errorf("the engine that is down made %d tokens", n)
	}
}

// When all are overloaded the client is told when to come again.
func TestOverloaded(t *testing.T) {
	client, engines := newFleet(t)
	spoil(t, "script=429 7", engines...)
	_, err := client.Ask(t.Context(), "Hello", func(string) {})
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok || refused.Status != http.StatusTooManyRequests || refused.RetryAfter < time.Second || refused.RetryAfter > 7*time.Second {
		t.Errorf("%+v; want 429 and when to come again", err)
	}
}

func TestUnknownModel(t *testing.T) {
	client, _ := newFleet(t)
	client.Model = "gpt-oss"
	_, err := client.Ask(t.Context(), "Hello", func(string) {})
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok || refused.Code != "model_not_found" || !strings.Contains(refused.Message, "gpt-oss") {
		t.Errorf("%+v; want a refusal that names the model", err)
	}
}
