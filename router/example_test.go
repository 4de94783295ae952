package router_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/proxy"
	"github.com/llmgw/llmgw/router/routertest"
	"github.com/llmgw/llmgw/router/schedule"
)

// A router put together from its parts; package gateway does this, and more.
func Example() {
	engineConfig := sim.InstantConfig()
	engineConfig.Model = "org/chat-8b"
	engine, err := sim.New(engineConfig, sim.Deps{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = engine.Close() }()
	server := httptest.NewServer(engine)
	defer server.Close()

	relay, err := proxy.New(proxy.DefaultConfig(), proxy.Deps{})
	if err != nil {
		fmt.Println(err)
		return
	}
	endpoints, err := endpoint.NewSet(endpoint.DefaultConfig(), endpoint.Deps{Attach: func(e *endpoint.Endpoint) any {
		target, err := relay.NewTarget(proxy.TargetConfig{URL: e.Spec().URL})
		if err != nil {
			return nil
		}
		return target
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := endpoints.Replace([]endpoint.Spec{{ID: "e1", URL: server.URL, Models: []endpoint.Model{{Name: "org/chat-8b"}}}}); err != nil {
		fmt.Println(err)
		return
	}
	scoring := schedule.DefaultConfig()
	scoring.StaleAfter = 10 * time.Second
	scheduler, err := schedule.New(scoring, schedule.Deps{})
	if err != nil {
		fmt.Println(err)
		return
	}
	log := &routertest.Log{}
	rt, err := router.New(router.DefaultConfig(), router.Deps{
		Proxy: relay, Endpoints: endpoints, Scheduler: scheduler, Recorder: log,
		Models: &routertest.Catalog{Models: []router.Model{{Name: "org/chat-8b"}}, Aliases: map[string]string{"chat": "org/chat-8b"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions",
		strings.NewReader(`{"model":"chat","messages":[{"role":"user","content":"Hello"}],"max_tokens":5}`))
	w := httptest.NewRecorder()
	rt.ServeHTTP(w, r)

	o := log.Outcomes()[0]
	tokens, known := o.Usage.CompletionTokens.Get()
	fmt.Println(w.Code, o.Model, o.Endpoint, o.Result, tokens, known)
	_ = endpoints.Replace(nil)
	// Output: 200 org/chat-8b e1 ok 5 true
}
