// Command custom-scorer routes by price: a scorer of its own prefers machines
// that are paid for already to those that are rented, as long as they are not
// much busier. It sends one request and prints why it went where it went.
//
//	go run ./examples/custom-scorer
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/router/schedule"
)

func main() {
	if err := run(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(out io.Writer) error {
	engine, err := sim.New(sim.InstantConfig(), sim.Deps{})
	if err != nil {
		return err
	}
	defer func() { _ = engine.Close() }()
	server := httptest.NewServer(engine)
	defer server.Close()

	cfg := gateway.DefaultConfig()
	cfg.Models = []catalog.Model{{Name: "sim-8b", RoutingProfile: "thrifty"}}
	cfg.Endpoints = []gateway.Endpoint{at("rented-1", "cloud", server.URL), at("own-1", "cellar", server.URL)}
	profile, err := thrifty(cfg)
	if err != nil {
		return err
	}
	gw, err := gateway.New(cfg, gateway.Deps{Profiles: []schedule.Profile{profile}, Recorder: printer{out}})
	if err != nil {
		return err
	}
	request := httptest.NewRequest(http.MethodPost, "/v1/chat/completions",
		strings.NewReader(`{"model":"sim-8b","messages":[{"role":"user","content":"Hello"}]}`))
	gw.ServeHTTP(httptest.NewRecorder(), request)
	cfg.Endpoints = nil
	return gw.Reload(cfg) // closes the connections to the engine
}

// thrifty is the built-in profile for chats with one more scorer. Weight 3 is
// as much as queue and cache together: a free machine is left for a rented one
// when it has many more requests, not before.
func thrifty(cfg gateway.Config) (schedule.Profile, error) {
	p, ok := cfg.Profile(schedule.Chat)
	if !ok {
		return p, fmt.Errorf("no profile %q", schedule.Chat)
	}
	p.Name = "thrifty"
	prices := map[string]float64{"cellar": 0, "cloud": 0.6}
	p.Scorers = append(p.Scorers, schedule.Weighted{Scorer: cheapest{prices, 0.2}, Weight: 3})
	return p, nil
}

func at(id, pool, url string) gateway.Endpoint {
	return gateway.Endpoint{Spec: endpoint.Spec{ID: id, Pool: pool, URL: url, Models: []endpoint.Model{{Name: "sim-8b"}}}}
}

// printer is told of every request and prints its decision.
type printer struct{ out io.Writer }

func (p printer) Record(o *router.Outcome) {
	fmt.Fprintf(p.out, "%d from %s\n  %s\n", o.Status, o.Endpoint,
		strings.ReplaceAll(o.Decision.Explain().String(), "; ", "\n  "))
}
