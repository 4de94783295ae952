package gateway_test

import (
	"testing"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router/gateway"
)

// What is reserved by the prices of one catalog is paid by them, whatever is loaded
// while the request runs: a dearer price does not break a budget that had room for
// it, and one that goes away does not make it free.
func TestReloadLeavesPricesAlone(t *testing.T) {
	t.Parallel()
	dear := priced("m")
	dear.Prices = []catalog.Price{{Input: 1000 * dear.Prices[0].Input, Output: new(1000 * *dear.Prices[0].Output)}}
	for name, models := range map[string][]catalog.Model{
		"dearer": {dear}, "without a price": {{Name: "m"}}, "without the model": nil,
	} {
		t.Run(name, func(t *testing.T) {
			running, hold := make(chan struct{}), make(chan struct{})
			e := newRaw(t, func(x *exchange) { close(running); <-hold; good(x) })
			cfg := config(at("e", e.url))
			cfg.Models = []catalog.Model{priced("m")}
			g := newGoverned(t, cfg, nil)
			id, text := g.key(auth.Spec{Budget: auth.FormatAmount(worst(chatBody)) + "/day"})
			answered := make(chan answer, 1)
			go func() { answered <- g.do("POST", chatPath, chatBody, bearer(text)...) }()
			<-running
			cfg.Models = models
			if models == nil {
				cfg.Endpoints = []gateway.Endpoint{at("e", e.url, "another")}
			}
			if err := g.gw.Reload(cfg); err != nil {
				t.Error(err)
			}
			close(hold)
			if a := <-answered; a.status != 200 {
				t.Fatalf("%d %s", a.status, a.body)
			}
			g.idle()
			rows := g.rows(id)
			if len(rows) != 1 || rows[0].CostNanos == nil || rows[0].Tokens.Output == nil {
				t.Fatalf("rows %+v", rows)
			}
			if want := 1000**rows[0].Tokens.Input + 2000**rows[0].Tokens.Output; *rows[0].CostNanos != want {
				t.Errorf("it cost %d; want %d, as when it began", *rows[0].CostNanos, want)
			}
			g.balanced(id, 1)
		})
	}
}
