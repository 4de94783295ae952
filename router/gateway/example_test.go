package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/gateway"
)

// A gateway in front of one engine, mounted in a server of the program's own.
func Example() {
	engineConfig := sim.InstantConfig()
	engineConfig.Model = "org/chat-8b"
	engine, err := sim.New(engineConfig, sim.Deps{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = engine.Close() }()
	engineServer := httptest.NewServer(engine)
	defer engineServer.Close()

	cfg := gateway.DefaultConfig()
	cfg.Models = []catalog.Model{{Name: "org/chat-8b", Aliases: []string{"chat"}}}
	cfg.Endpoints = []gateway.Endpoint{{Spec: endpoint.Spec{
		ID: "engine-1", URL: engineServer.URL, Models: []endpoint.Model{{Name: "org/chat-8b"}},
	}}}
	gw, err := gateway.New(cfg, gateway.Deps{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error)
	go func() { ended <- gw.Run(ctx) }()
	server := httptest.NewServer(gw)

	res, err := http.Post(server.URL+"/v1/chat/completions", "application/json", //nolint:noctx // an example
		strings.NewReader(`{"model":"chat","messages":[{"role":"user","content":"Hello"}],"max_tokens":5,"stream":true}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	fmt.Println(res.Status, strings.Count(string(body), "data: "), "events,", strings.HasSuffix(string(body), "data: [DONE]\n\n"), err)

	http.DefaultClient.CloseIdleConnections()
	server.Close()
	cancel()
	fmt.Println(<-ended)
	_ = gw.Reload(gateway.DefaultConfig()) // drops the connections to the engine
	// Output:
	// 200 OK 7 events, true <nil>
	// <nil>
}
