package gateway_test

import (
	"strings"
	"testing"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router/gateway"
)

// A replica serves its model with its secret, but only while the model is
// declared; another start of it is another endpoint, and one that stays keeps what
// it has when others come.
func TestSetReplicas(t *testing.T) {
	shown := make(chan string, 10)
	e := newRaw(t, func(x *exchange) {
		shown <- x.req.Header.Get("Authorization")
		x.write("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
	})
	cfg := config()
	cfg.Models = []catalog.Model{{Name: "m", Aliases: []string{"alias"}}}
	f := newFleet(t, cfg)
	replica := gateway.Replica{
		ID: "m-1", Start: "s1", Model: "m", Served: "m", Address: strings.TrimPrefix(e.url, "http://"), Secret: "of this generation", Engine: engines.Sim,
	}
	set := func(replicas ...gateway.Replica) {
		t.Helper()
		if err := f.gw.SetReplicas(replicas); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(model string) answer { return f.do("POST", chatPath, `{"model":"`+model+`","messages":[]}`) }
	if got := ask("m"); got.status != 503 {
		t.Errorf("before there is one: %d %s", got.status, got.body)
	}
	other := replica
	other.ID, other.Model = "n-1", "n"
	set(replica, other)
	if got := ask("alias"); got.status != 200 {
		t.Errorf("with one: %d %s", got.status, got.body)
	}
	if got := <-shown; got != "Bearer of this generation" {
		t.Errorf("the engine was shown %q", got)
	}
	if got := ask("n"); got.status != 404 {
		t.Errorf("a model that is not declared: %d %s", got.status, got.body)
	}
	if err := f.gw.SetModels([]catalog.Model{{Name: "n"}}); err != nil {
		t.Fatal(err)
	}
	if got := ask("n"); got.status != 200 {
		t.Errorf("once it is declared: %d %s", got.status, got.body)
	}
	if got := ask("m"); got.status != 404 {
		t.Errorf("a model that left: %d %s", got.status, got.body)
	}
	bad := replica
	bad.Address = ""
	if err := f.gw.SetReplicas([]gateway.Replica{bad}); err == nil || !strings.Contains(err.Error(), `replica "m-1"`) {
		t.Errorf("without an address: %v", err)
	}
	if got := ask("n"); got.status != 200 {
		t.Errorf("after what was refused: %d %s", got.status, got.body)
	}
	set()
	if got := ask("n"); got.status != 503 {
		t.Errorf("after all are gone: %d %s", got.status, got.body)
	}
}
