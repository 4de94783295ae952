package gateway_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/router/openai"
	"github.com/llmgw/llmgw/router/schedule"
)

// keys knows callers by their key.
type keys map[string]string

func (k keys) Identify(r *http.Request) (router.Identity, error) {
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	tenant, ok := k[key]
	if !ok {
		return router.Identity{}, openai.Unauthorized("The key is not known. Ask the operator for one.")
	}
	return router.Identity{Tenant: tenant}, nil
}

// ledger writes down what each request was.
type ledger struct{}

func (ledger) Record(o *router.Outcome) {
	tokens, known := o.Usage.CompletionTokens.Get()
	fmt.Printf("%q %s %d, tokens %d %t\n", o.Identity.Tenant, o.Result, o.Status, tokens, known)
}

// Callers with keys, and a record of what each used, by two of the five hooks.
func ExampleDeps() {
	engine, err := sim.New(sim.InstantConfig(), sim.Deps{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = engine.Close() }()
	server := httptest.NewServer(engine)
	defer server.Close()

	cfg := gateway.DefaultConfig()
	cfg.Endpoints = []gateway.Endpoint{{Spec: endpoint.Spec{
		ID: "engine-1", URL: server.URL, Models: []endpoint.Model{{Name: "sim-8b"}},
	}}}
	gw, err := gateway.New(cfg, gateway.Deps{Caller: keys{"secret": "anna"}, Recorder: ledger{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, key := range []string{"guess", "secret"} {
		r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions",
			strings.NewReader(`{"model":"sim-8b","messages":[{"role":"user","content":"Hello"}],"max_tokens":5}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+key)
		gw.ServeHTTP(httptest.NewRecorder(), r)
	}
	_ = gw.Reload(gateway.DefaultConfig()) // drops the connections to the engine
	// Output:
	// "" refused 401, tokens 0 false
	// "anna" ok 200, tokens 5 true
}

// Engines come and go while requests run.
func ExampleGateway_Reload() {
	cfg := gateway.DefaultConfig()
	gw, err := gateway.New(cfg, gateway.Deps{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(errors.Is(gw.Ready(), gateway.ErrNoEndpoint))

	spec := endpoint.Spec{ID: "gpu-1", URL: "http://10.0.0.5:8000", Models: []endpoint.Model{{Name: "qwen-32b"}}}
	cfg.Endpoints = []gateway.Endpoint{{Spec: spec}}
	fmt.Println(gw.Reload(cfg), gw.Ready())

	spec.ID = "gpu 2"
	cfg.Endpoints = append(cfg.Endpoints, gateway.Endpoint{Spec: spec})
	fmt.Println(gw.Reload(cfg)) // and nothing has changed
	fmt.Println(gw.Ready())
	// Output:
	// true
	// <nil> <nil>
	// gateway: endpoints[1].id: "gpu 2" has spaces or what cannot be printed; want neither
	// <nil>
}

// A profile of one's own begins as a built-in one: it decides as chat does, but
// draws by score in place of taking the best. Models ask for it by
// routing_profile.
func ExampleConfig_Profile() {
	cfg := gateway.DefaultConfig()
	lottery, ok := cfg.Profile(schedule.Chat)
	if !ok {
		return
	}
	lottery.Name, lottery.Picker = "lottery", schedule.WeightedRandom{}
	cfg.Models = []catalog.Model{{Name: "qwen-32b", RoutingProfile: "lottery"}}

	_, err := gateway.New(cfg, gateway.Deps{})
	fmt.Println(err)
	_, err = gateway.New(cfg, gateway.Deps{Profiles: []schedule.Profile{lottery}})
	fmt.Println(err)
	// Output:
	// gateway: models[0].routing_profile: "lottery" is no routing profile; want one of chat, batch, long-context, debug
	// <nil>
}
