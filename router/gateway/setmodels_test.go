package gateway_test

import (
	"io"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/placement/catalog"
)

// Models are replaced while a stream runs: it ends on what it began with, the next
// request is answered by the new ones, and the endpoint keeps its connections.
func TestSetModels(t *testing.T) {
	release := make(chan struct{})
	e := newRaw(t, func(x *exchange) {
		x.write(eventHead() + chunk(delta("h")))
		<-release
		x.write(chunk(delta("i")) + chunk(doneEvent) + lastChunk)
	})
	cfg := config(at("e", e.url))
	cfg.Models = []catalog.Model{{Name: "m"}}
	f := newFleet(t, cfg)
	set := func(models ...catalog.Model) {
		t.Helper()
		if err := f.gw.SetModels(models); err != nil {
			t.Fatal(err)
		}
	}
	set(catalog.Model{Name: "m", Aliases: []string{"other"}})
	res, err := f.send(t.Context(), "POST", chatPath, strings.NewReader(strings.Replace(streamBody, `"m"`, `"other"`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != 200 {
		t.Fatalf("a request by a new alias is answered %d", res.StatusCode)
	}
	if _, err := io.ReadFull(res.Body, make([]byte, len(delta("h")))); err != nil {
		t.Fatal(err)
	}
	set(catalog.Model{Name: "m"})
	if got := f.metric("llmgw_endpoint_inflight_requests", "endpoint=e"); got != 1 {
		t.Errorf("%v are in flight: the endpoint is another one", got)
	}
	if got := f.do("POST", chatPath, `{"model":"other","messages":[]}`); got.status != 404 || got.code() != "model_not_found" {
		t.Errorf("by the alias that is gone: %d %s", got.status, got.body)
	}
	if err := f.gw.SetModels([]catalog.Model{{Name: "m", RoutingProfile: "fastest"}}); err == nil || !strings.Contains(err.Error(), "models[0].routing_profile") {
		t.Errorf("an unknown profile: %v", err)
	}
	if err := f.gw.CheckModel(&catalog.Model{RoutingProfile: "fastest"}); err == nil || !strings.HasPrefix(err.Error(), `routing_profile: "fastest" is no routing profile; want one of `) {
		t.Errorf("%v", err)
	}
	close(release)
	rest, err := io.ReadAll(res.Body)
	if err != nil || string(rest) != delta("i")+doneEvent {
		t.Errorf("the stream went on with %q, %v", rest, err)
	}
}
