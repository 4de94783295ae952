package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/llmgw/llmgw/cmd/internal/app"
	config "github.com/llmgw/llmgw/cmd/internal/config/server"
	"github.com/llmgw/llmgw/cmd/internal/storedsn"
	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/gateway"
)

// catalogServer is a server with a real data plane.
type catalogServer struct {
	t      *testing.T
	at     Addresses
	client *api.Client
	log    *locked
	stop   func()
}

// runModels runs a server until stop, or the end of the test.
func runModels(t *testing.T, cfg config.Config) *catalogServer {
	t.Helper()
	r := &catalogServer{t: t, log: new(locked)}
	ctx, cancel := context.WithCancel(t.Context())
	serving, ended := make(chan Addresses, 1), make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{Config: cfg, Logger: slog.New(slog.NewTextHandler(r.log, nil)), Serving: func(at Addresses) { serving <- at }})
	}()
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v\n%s", err, r.log.String())
		}
	}
	t.Cleanup(r.stop)
	select {
	case r.at = <-serving:
	case err := <-ended:
		stopped = true
		t.Fatalf("it does not serve: %v\n%s", err, r.log.String())
	}
	var err error
	if r.client, err = api.NewClient(api.ClientConfig{URL: "http://" + r.at.Admin}); err != nil {
		t.Fatal(err)
	}
	r.chat("m") // which waits until the store was opened
	return r
}

func (r *catalogServer) add(definition string) error {
	_, err := r.client.Models.AddModel(r.t.Context(), &apipb.AddModelRequest{Definition: definition})
	return err
}

// chat is the status of a request for a model.
func (r *catalogServer) chat(model string) int {
	r.t.Helper()
	body, _ := json.Marshal(map[string]any{"model": model, "messages": []any{}})
	resp, err := http.Post("http://"+r.at.Client+"/v1/chat/completions", "application/json", strings.NewReader(string(body)))
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode
}

// modelsConfig is a server on an engine of its own, whose model is called m.
func modelsConfig(t *testing.T) config.Config {
	t.Helper()
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/v1/models" {
			_, _ = w.Write([]byte(`{"object":"list","data":[{"id":"m","object":"model"}]}`))
			return
		}
		_, _ = w.Write([]byte(`{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`))
	}))
	t.Cleanup(engine.Close)
	cfg := testConfig()
	cfg.Auth.Enabled = false
	cfg.Store.DSN = storedsn.DSN("sqlite:" + filepath.Join(t.TempDir(), "llmgw.db"))
	cfg.Gateway.Endpoints = []gateway.Endpoint{{Spec: endpoint.Spec{ID: "e", URL: engine.URL, Models: []endpoint.Model{{Name: "m"}}}}}
	return cfg
}

// A model that is added is answered for at once, and after a restart; what the
// configuration says later wins, and the server starts.
func TestAddedModels(t *testing.T) {
	cfg := modelsConfig(t)
	s := runModels(t, cfg)
	if got := s.chat("new"); got != 404 {
		t.Errorf("before: %d", got)
	}
	if err := s.add("name: new\nfallbacks: [m2]\n"); connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), `definition:2: fallbacks[0]: "m2" is no model`) {
		t.Errorf("a fallback that is not there: %v", err)
	}
	if err := s.add("name: m2\naliases: [m]\n"); err != nil {
		t.Fatal(err)
	}
	if got := s.chat("m2"); got != 200 {
		t.Errorf("by a name that was added: %d", got)
	}
	if err := s.add("name: run\nsource: m\nprofile: {engine: sim}\n"); connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "agent_listen") {
		t.Errorf("a model to run where nothing can be: %v", err)
	}
	if err := s.add("name: slow\nrouting_profile: slowest\n"); connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "definition:2: routing_profile: ") {
		t.Errorf("an unknown routing profile: %v", err)
	}
	s.stop()

	s = runModels(t, cfg)
	if got := s.chat("m2"); got != 200 {
		t.Errorf("after a restart: %d", got)
	}
	s.stop()

	cfg.Gateway.Models = []catalog.Model{{Name: "m"}}
	s = runModels(t, cfg)
	if got, aside := s.chat("m"), s.chat("m2"); got != 200 || aside != 404 {
		t.Errorf("with a configuration that has the name: %d, and %d of what is set aside", got, aside)
	}
	if !strings.Contains(s.log.String(), `msg="a model that was added is set aside`) {
		t.Errorf("the log does not say so:\n%s", s.log.String())
	}
	if _, err := s.client.Models.RemoveModel(t.Context(), &apipb.RemoveModelRequest{Name: "m2"}); err != nil {
		t.Error(err)
	}
}

// A model with a profile makes a control plane of the server, on this machine alone;
// one in the store when it starts again.
func TestProfileMakesAControlPlane(t *testing.T) {
	cfg := modelsConfig(t)
	cfg.AgentListen = ":0"
	profile := "name: run\nsource: m\nprofile: {engine: sim, options: {speed: \"10\"}}\n"
	cfg.Gateway.Models = []catalog.Model{{Name: "a", Source: "a", Profile: &engines.Profile{Engine: engines.Sim}}}
	s := runModels(t, cfg)
	if !strings.HasPrefix(s.at.Agents, "127.0.0.1:") {
		t.Errorf("agents dial %q", s.at.Agents)
	}
	if got := s.chat("a"); got != 503 {
		t.Errorf("a model that nothing runs: %d", got)
	}
	if err := s.add(strings.Replace(profile, "speed", "haste", 1)); connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "definition:3: profile.options: haste is not known; want one of ") {
		t.Errorf("an option that the adapter does not know: %v", err)
	}
	if err := s.add(profile); err != nil {
		t.Fatal(err)
	}
	s.stop()

	cfg.Gateway.Models = nil
	s = runModels(t, cfg)
	if s.at.Agents == "" {
		t.Errorf("no control plane with a model to run in the store:\n%s", s.log.String())
	}
	if _, err := s.client.Nodes.ListNodes(t.Context(), &apipb.ListNodesRequest{}); err != nil {
		t.Error(err)
	}
	if _, err := s.client.Models.RemoveModel(t.Context(), &apipb.RemoveModelRequest{Name: "run"}); err != nil {
		t.Error(err)
	}
	s.stop()

	if s = runModels(t, cfg); s.at.Agents != "" {
		t.Error("a control plane for nothing")
	}
}

// A reload changes the configuration's models and leaves those that were added.
func TestReconfigure(t *testing.T) {
	cfg := modelsConfig(t)
	s := runModels(t, cfg)
	if err := s.add("name: added\nfallbacks: []\n"); err != nil {
		t.Fatal(err)
	}
	s.stop()

	plane := newFakePlane(nil)
	k, err := newKeeper(cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.store.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = k.store.Close() }()
	m, err := newModels(cfg, k, plane, new(fitter), &adapters{Asked: app.NewAsked(app.Adapters(), nil)}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	cfg.Gateway.Models = []catalog.Model{{Name: "z"}}
	if err := reconfigure(m, plane)(cfg); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, model := range plane.reloaded[0].Gateway.Models {
		names = append(names, model.Name)
	}
	if strings.Join(names, " ") != "z added" {
		t.Errorf("reloaded with %v", names)
	}
}
