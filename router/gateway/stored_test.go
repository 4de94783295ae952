package gateway_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/router/routertest"
)

const responsesPath = "/v1/responses"

// keeper is an engine that keeps its responses, or says so: their IDs are its
// name and a number.
type keeper struct {
	*rawEngine
	last atomic.Value // string: method, path and body of the last request
}

func newKeeper(t testing.TB, name string) *keeper {
	k := &keeper{}
	k.rawEngine = newRaw(t, func(x *exchange) {
		k.last.Store(x.req.Method + " " + x.req.URL.Path + " " + string(x.body))
		id := fmt.Sprintf("resp_%s_%d", name, x.n)
		response := `{"id":"` + id + `","object":"response","status":"completed","output":[],"usage":{"input_tokens":7,"output_tokens":2,"total_tokens":9}}`
		if !strings.Contains(string(x.body), `"stream":true`) {
			x.write(document(200, response))
			return
		}
		x.write(eventHead() +
			chunk("event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\""+id+"\"},\"sequence_number\":0}\n\n") +
			chunk("event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":"+response+",\"sequence_number\":1}\n\n") + lastChunk)
	})
	return k
}

func (k *keeper) got() string { s, _ := k.last.Swap("").(string); return s }

// decisions keeps the pins of decisions.
type decisions struct{ pin atomic.Value }

func (d *decisions) Record(o *router.Outcome) {
	if o.Decision != nil {
		d.pin.Store(o.Decision.Explain().Pin)
	}
}

func continued(id string) string {
	return `{"model":"m","input":"x","previous_response_id":"` + id + `"}`
}

// A request that goes on from a stored response goes to the engine that has it,
// however much better another one looks.
func TestPreviousResponse(t *testing.T) {
	for name, body := range map[string]string{
		"document": `{"model":"m","input":"x"}`, "stream": `{"model":"m","input":"x","stream":true}`,
		"stored by its word": `{"model":"m","input":"x","store":true}`,
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newKeeper(t, "a"), newKeeper(t, "b")
			cfg := config(first(at("a", a.url)), at("b", b.url))
			d := &decisions{}
			f := newFleet(t, cfg, func(deps *gateway.Deps) { deps.Recorder = d })
			if got := f.do("POST", responsesPath, body); got.status != 200 || !strings.Contains(got.body, "resp_a_1") {
				t.Fatalf("got %d %s", got.status, got.body)
			}
			if err := f.gw.Reload(config(at("a", a.url), first(at("b", b.url)))); err != nil {
				t.Fatal(err)
			}
			for i := 2; i < 5; i++ {
				if got := f.do("POST", responsesPath, continued(fmt.Sprintf("resp_a_%d", i-1))); got.status != 200 || !strings.Contains(got.body, fmt.Sprintf("resp_a_%d", i)) {
					t.Fatalf("got %d %s", got.status, got.body)
				}
				f.eventually("the decision shows its pin", func() bool { return d.pin.Load() == "a" })
			}
			if got := f.do("POST", responsesPath, body); !strings.Contains(got.body, "resp_b_1") {
				t.Errorf("without a pin: got %d %s", got.status, got.body)
			}
			if known := f.metric("llmgw_router_response_pins"); known != 5 {
				t.Errorf("%v responses are known; want 5", known)
			}
			f.idle()
		})
	}
}

// What nobody knows goes on only where there is no choice.
func TestPreviousResponseUnknown(t *testing.T) {
	a, b := newKeeper(t, "a"), newKeeper(t, "b")
	f := newFleet(t, config(at("a", a.url)))
	if got := f.do("POST", responsesPath, continued("resp_x")); got.status != 200 || a.got() != "POST /v1/responses "+continued("resp_x") {
		t.Errorf("the only engine: got %d %s", got.status, got.body)
	}
	if err := f.gw.Reload(config(at("a", a.url), at("b", b.url))); err != nil {
		t.Fatal(err)
	}
	calls := a.calls.Load()
	for _, body := range []string{
		continued("resp_x"), `{"model":"m","previous_response_id":7}`, `{"model":"m","previous_response_id":""}`,
		`{"model":"m","previous_response_id":"\u0000"}`,
	} {
		got := f.do("POST", responsesPath, body)
		if got.status != 400 || got.code() != "previous_response_not_found" || !strings.Contains(got.body, "whole conversation") {
			t.Errorf("%s: got %d %s", body, got.status, got.body)
		}
	}
	if a.calls.Load() != calls || b.calls.Load() != 0 {
		t.Error("an engine was asked")
	}
	// Nothing there to go on from, and paths that are not stateful.
	for path, body := range map[string]string{
		responsesPath: `{"model":"m","previous_response_id":null}`, chatPath: continued("resp_x"),
	} {
		if got := f.do("POST", path, body); got.status != 200 {
			t.Errorf("%s %s: got %d %s", path, body, got.status, got.body)
		}
	}
	if known, unknown := f.metric("llmgw_router_stored_lookups_total", "result=known"), f.metric("llmgw_router_stored_lookups_total", "result=unknown"); known != 0 || unknown != 5 {
		t.Errorf("%v known and %v unknown look-ups; want 0, 5", known, unknown)
	}
	f.idle()
}

// What is not stored is not remembered.
func TestNotStored(t *testing.T) {
	a, b := newKeeper(t, "a"), newKeeper(t, "b")
	f := newFleet(t, config(first(at("a", a.url)), at("b", b.url)))
	if got := f.do("POST", responsesPath, `{"model":"m","input":"x","store":false}`); got.status != 200 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	if got := f.do("POST", responsesPath, continued("resp_a_1")); got.status != 400 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if got := f.do("GET", responsesPath+"/resp_a_1", ""); got.status != 404 {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

// An engine that is gone for good is a 400, one that is away for a moment is not:
// and no other one is asked in its place.
func TestPreviousResponseAway(t *testing.T) {
	var down atomic.Bool
	a := newRaw(t, func(x *exchange) {
		if down.Load() {
			_ = x.Close()
			return
		}
		x.write(document(200, `{"id":"resp_a","object":"response"}`))
	})
	b := newKeeper(t, "b")
	fallback := newKeeper(t, "fallback")
	cfg := config(first(at("a", a.url)), at("b", b.url), at("f", fallback.url, "other"))
	cfg.Models = []catalog.Model{{Name: "m", Fallbacks: []string{"other"}}, {Name: "other"}}
	cfg.Router.Breaker.FailureThreshold = 1
	f := newFleet(t, cfg)
	if got := f.do("POST", responsesPath, `{"model":"m","input":"x"}`); got.status != 200 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	down.Store(true)
	if got := f.do("POST", responsesPath, continued("resp_a")); got.status != 502 || got.code() != "upstream_failed" {
		t.Errorf("it breaks off: got %d %s", got.status, got.body)
	}
	got := f.do("POST", responsesPath, continued("resp_a"))
	if got.status != 503 || got.header.Get("Retry-After") == "" || !strings.Contains(got.body, "stored response") {
		t.Errorf("its breaker is open: got %d %s", got.status, got.body)
	}
	if got := f.do("GET", responsesPath+"/resp_a", ""); got.status != 503 {
		t.Errorf("its breaker is open: got %d %s", got.status, got.body)
	}
	cfg.Endpoints = cfg.Endpoints[1:]
	if err := f.gw.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	if got := f.do("POST", responsesPath, continued("resp_a")); got.status != 400 || got.code() != "previous_response_not_found" {
		t.Errorf("it is gone: got %d %s", got.status, got.body)
	}
	if got := f.do("GET", responsesPath+"/resp_a", ""); got.status != 404 {
		t.Errorf("it is gone: got %d %s", got.status, got.body)
	}
	if b.calls.Load() != 0 || fallback.calls.Load() != 0 {
		t.Error("another engine was asked")
	}
	f.idle()
}

// What a fallback stored is there when the model's own engines are back.
func TestPreviousResponseOfAFallback(t *testing.T) {
	a, b, fallback := newKeeper(t, "a"), newKeeper(t, "b"), newKeeper(t, "f")
	cfg := config(at("f", fallback.url, "other"))
	cfg.Models = []catalog.Model{{Name: "m", Fallbacks: []string{"other"}}, {Name: "other"}}
	f := newFleet(t, cfg)
	if got := f.do("POST", responsesPath, `{"model":"m","input":"x"}`); got.status != 200 || !strings.Contains(got.body, "resp_f_1") {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	cfg.Endpoints = append(cfg.Endpoints, at("a", a.url), at("b", b.url))
	if err := f.gw.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	if got := f.do("POST", responsesPath, continued("resp_f_1")); got.status != 200 || !strings.Contains(got.body, "resp_f_2") {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

// A response is its caller's, and so is its ID.
func TestStoredResponsesOfOthers(t *testing.T) {
	a, b := newKeeper(t, "a"), newKeeper(t, "b")
	f := newFleet(t, config(first(at("a", a.url)), at("b", b.url)), func(d *gateway.Deps) {
		d.Caller = routertest.Callers{"k1": {Tenant: "one"}, "k2": {Tenant: "two"}, "k3": {Tenant: "one", MayUse: func(string) bool { return false }}}
	})
	as := func(key string) []string { return []string{"Authorization", "Bearer " + key} }
	if got := f.do("POST", responsesPath, `{"model":"m","input":"x"}`, as("k1")...); got.status != 200 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	calls := a.calls.Load()
	if got := f.do("POST", responsesPath, continued("resp_a_1"), as("k2")...); got.status != 400 || got.code() != "previous_response_not_found" {
		t.Errorf("another goes on from it: %d %s", got.status, got.body)
	}
	for _, key := range []string{"k2", "k3"} {
		for method, path := range map[string]string{"GET": "", "DELETE": "", "POST": "/cancel"} {
			if got := f.do(method, responsesPath+"/resp_a_1"+path, "", as(key)...); got.status != 404 || got.code() != "response_not_found" {
				t.Errorf("%s %s of another: %d %s", method, path, got.status, got.body)
			}
		}
	}
	if a.calls.Load() != calls {
		t.Error("an engine was asked")
	}
	if got := f.do("GET", responsesPath+"/resp_a_1", "", as("k1")...); got.status != 200 {
		t.Errorf("its own: %d %s", got.status, got.body)
	}
	f.idle()
}

// What the router does not know, be it forgotten, deleted or never told, may be
// another's: even where there is one engine only nobody goes on from it by name.
func TestPreviousResponseOfNobody(t *testing.T) {
	for name, pins := range map[string]int{"none are remembered": 0, "it was forgotten": 2, "it was deleted": 1000} {
		t.Run(name, func(t *testing.T) {
			a := newKeeper(t, "a")
			cfg := config(at("a", a.url))
			cfg.Router.Core.ResponsePins = pins
			f := newFleet(t, cfg, func(d *gateway.Deps) {
				d.Caller = routertest.Callers{"A": {Tenant: "A"}, "B": {Tenant: "B"}, "nobody": {}}
			})
			as := func(key string) []string { return []string{"Authorization", "Bearer " + key} }
			if got := f.do("POST", responsesPath, `{"model":"m","input":"my secret"}`, as("A")...); got.status != 200 {
				t.Fatalf("got %d %s", got.status, got.body)
			}
			if pins == 1000 {
				if got := f.do("DELETE", responsesPath+"/resp_a_1", "", as("A")...); got.status != 200 {
					t.Fatalf("got %d %s", got.status, got.body)
				}
			}
			for range 3 {
				if got := f.do("POST", responsesPath, `{"model":"m","input":"x"}`, as("B")...); got.status != 200 {
					t.Fatalf("got %d %s", got.status, got.body)
				}
			}
			calls := a.calls.Load()
			for _, key := range []string{"A", "B", "nobody"} {
				if got := f.do("POST", responsesPath, continued("resp_a_1"), as(key)...); got.status != 400 || got.code() != "previous_response_not_found" {
					t.Errorf("%s goes on from it: %d %s", key, got.status, got.body)
				}
			}
			if a.calls.Load() != calls {
				t.Error("the engine was asked")
			}
			f.idle()
		})
	}
}

// Every way into the Responses API asks whose it is that a request goes on from.
func TestStoredResponsesOfOthersElsewhere(t *testing.T) {
	a := newKeeper(t, "a")
	f := newFleet(t, config(at("a", a.url)), func(d *gateway.Deps) {
		d.Caller = routertest.Callers{"A": {Tenant: "A"}, "B": {Tenant: "B"}}
	})
	as := func(key string) []string { return []string{"Authorization", "Bearer " + key} }
	if got := f.do("POST", responsesPath, `{"model":"m","input":"my secret"}`, as("A")...); got.status != 200 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	a.got()
	calls := a.calls.Load()
	type test struct {
		path, body string
		status     int
		code       string
	}
	var tests []test
	for _, path := range []string{responsesPath, "/v1/responses/input_tokens", "/v1/responses/compact", "/responses/compact"} {
		tests = append(tests,
			test{path, continued("resp_a_1"), 400, "previous_response_not_found"},
			test{path, `{"model":"m","Previous_Response_ID":"resp_a_1"}`, 400, "previous_response_not_found"},
			test{path, `{"model":"m","previous_response_id":["resp_a_1"]}`, 400, "previous_response_not_found"},
			test{path, `{"model":"m","previous_response_id":"resp_a_1","previous_response_id":null}`, 400, "invalid_request"},
			test{path, `{"model":"m","conversation":"conv_a"}`, 400, "unsupported_parameter"},
			test{path, `{"model":"m","conversation":{"id":"conv_a"}}`, 400, "unsupported_parameter"},
			test{path, `{"model":"m","background":true}`, 400, "unsupported_parameter"},
		)
	}
	for _, path := range []string{
		"/v1/responses/resp_a_1", "/v1/responses/resp_a_1/Cancel", "/v1/responses/resp_a_1/input_items", "/v1/responses/resp~a/cancel",
		"/v1/responses/resp%5Fa_1/Cancel", "/v1/responses/", "/v1/Responses", "/v1/RESPONSES/resp_a_1/cancel", "/v1/responses/compact/x", "/responses/resp_a_1",
		"/v1/conversations/conv_a/items", "/v1/threads/t/messages", "/v1/files/f/content", "/v1/batches",
	} {
		tests = append(tests, test{path, continued("resp_a_1"), 404, "unknown_url"})
	}
	tests = append(tests, test{"/v1/responses/resp_a_1/cancel", `{"model":"m"}`, 404, "response_not_found"})
	for _, tt := range tests {
		if got := f.do("POST", tt.path, tt.body, as("B")...); got.status != tt.status || got.code() != tt.code {
			t.Errorf("POST %s %s: got %d %s; want %d %s", tt.path, tt.body, got.status, got.body, tt.status, tt.code)
		}
	}
	if a.calls.Load() != calls {
		t.Errorf("the engine got %s", a.got())
	}
	for _, path := range []string{"/v1/responses/input_tokens", "/v1/responses/compact"} {
		if got := f.do("POST", path, continued("resp_a_1"), as("A")...); got.status != 200 || a.got() != "POST "+path+" "+continued("resp_a_1") {
			t.Errorf("POST %s of its own: got %d %s", path, got.status, got.body)
		}
	}
	f.idle()
}

// Who may not use the model of a response does not go on from it by another one.
func TestPreviousResponseOfAnotherModel(t *testing.T) {
	a := newKeeper(t, "a")
	f := newFleet(t, config(at("a", a.url, "m", "secret")), func(d *gateway.Deps) {
		d.Caller = routertest.Callers{"all": {Tenant: "A"}, "m only": {Tenant: "A", MayUse: routertest.Only("m")}}
	})
	if got := f.do("POST", responsesPath, `{"model":"secret","input":"x"}`, "Authorization", "Bearer all"); got.status != 200 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	for key, want := range map[string]int{"m only": 400, "all": 200} {
		if got := f.do("POST", responsesPath, continued("resp_a_1"), "Authorization", "Bearer "+key); got.status != want {
			t.Errorf("%s: got %d %s; want %d", key, got.status, got.body, want)
		}
	}
	f.idle()
}

// Where nobody is told apart and nothing is counted, an engine that is alone may
// keep what it likes.
func TestResponsesWithoutCallers(t *testing.T) {
	a := newKeeper(t, "a")
	cfg := config(at("a", a.url))
	cfg.Admission.Core.Enabled = false
	f := newFleet(t, cfg, func(d *gateway.Deps) { d.Charger, d.Admitter = nil, nil })
	for _, body := range []string{`{"model":"m","conversation":"conv_a"}`, `{"model":"m","background":true}`, continued("resp_x")} {
		if got := f.do("POST", responsesPath, body); got.status != 200 || a.got() != "POST "+responsesPath+" "+body {
			t.Errorf("%s: got %d %s", body, got.status, got.body)
		}
	}
	b := newKeeper(t, "b")
	if err := f.gw.Reload(config(at("a", a.url), at("b", b.url))); err != nil {
		t.Fatal(err)
	}
	if got := f.do("POST", responsesPath, `{"model":"m","conversation":"conv_a"}`); got.status != 400 || got.code() != "unsupported_parameter" {
		t.Errorf("with two engines: got %d %s", got.status, got.body)
	}
}

// An ID that two tenants got is neither's: the engine has one response under it,
// and whose cannot be told.
func TestStoredResponseIDsTakenTwice(t *testing.T) {
	a := newRaw(t, func(x *exchange) { x.write(document(200, `{"id":"resp_next","object":"response"}`)) })
	f := newFleet(t, config(at("a", a.url)), func(d *gateway.Deps) {
		d.Caller = routertest.Callers{"A": {Tenant: "A"}, "B": {Tenant: "B"}}
	})
	for _, key := range []string{"B", "A", "B"} {
		if got := f.do("POST", responsesPath, `{"model":"m","input":"x"}`, "Authorization", "Bearer "+key); got.status != 200 {
			t.Fatalf("got %d %s", got.status, got.body)
		}
	}
	for _, key := range []string{"A", "B"} {
		if got := f.do("GET", responsesPath+"/resp_next", "", "Authorization", "Bearer "+key); got.status != 404 {
			t.Errorf("%s gets it: %d %s", key, got.status, got.body)
		}
		if got := f.do("POST", responsesPath, continued("resp_next"), "Authorization", "Bearer "+key); got.status != 400 {
			t.Errorf("%s goes on from it: %d %s", key, got.status, got.body)
		}
	}
	if a.calls.Load() != 3 {
		t.Errorf("the engine was asked %d times; want 3", a.calls.Load())
	}
	f.idle()
}

// A stored response is shown, cancelled and deleted where it is; its tokens have
// been counted.
func TestStoredResponse(t *testing.T) {
	a, b := newKeeper(t, "a"), newKeeper(t, "b")
	at1 := first(at("a", a.url))
	at1.Models[0].Upstream = "another-name"
	f := newFleet(t, config(at1, at("b", b.url)))
	if got := f.do("POST", responsesPath, `{"model":"m","input":"x"}`); got.status != 200 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	f.next()
	a.got()
	for _, tt := range []struct{ method, path, label string }{
		{"GET", "/v1/responses/resp_a_1", "/v1/responses/{id}"},
		{"GET", "/responses/resp_a_1", "/v1/responses/{id}"},
		{"GET", "/v1/responses/resp_a_1/input_items", "/v1/responses/{id}/input_items"},
		{"POST", "/v1/responses/resp_a_1/cancel", "/v1/responses/{id}/cancel"},
		{"DELETE", "/v1/responses/resp_a_1", "/v1/responses/{id}"},
	} {
		got := f.do(tt.method, tt.path, "")
		if want := tt.method + " /v1" + strings.TrimPrefix(tt.path, "/v1") + " "; got.status != 200 || a.got() != want {
			t.Errorf("%s %s: got %d %s", tt.method, tt.path, got.status, got.body)
		}
		if o := f.next(); o.Result != router.ResultOK || o.Path != tt.label || o.Model != "m" || o.Endpoint != "a" || o.HasUsage {
			t.Errorf("%s %s: recorded %+v", tt.method, tt.path, o)
		}
	}
	for _, tt := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/v1/responses/resp_a_1", 404}, // it was deleted
		{"GET", "/v1/responses/resp_z", 404},
		{"GET", "/v1/responses/resp_a_1/other", 404},
		{"PUT", "/v1/responses/resp_a_1", 404},
		{"GET", "/v1/responses/..%2fmodels", 404},
		{"GET", "/v1/responses", 405},
		{"POST", "/v1/responses/compact", 400}, // for an engine, if it names a model
	} {
		if got := f.do(tt.method, tt.path, ""); got.status != tt.status || got.code() == "" {
			t.Errorf("%s %s: got %d %s; want %d", tt.method, tt.path, got.status, got.body, tt.status)
		}
	}
	if b.calls.Load() != 0 {
		t.Error("another engine was asked")
	}
	f.idle()
}

// The memory is bounded.
func TestStoredResponsesAreBounded(t *testing.T) {
	a, b := newKeeper(t, "a"), newKeeper(t, "b")
	cfg := config(first(at("a", a.url)), at("b", b.url))
	cfg.Router.Core.ResponsePins = 2
	f := newFleet(t, cfg)
	for range 5 {
		if got := f.do("POST", responsesPath, `{"model":"m","input":"x"}`); got.status != 200 {
			t.Fatalf("got %d %s", got.status, got.body)
		}
	}
	if known, evicted := f.metric("llmgw_router_response_pins"), f.metric("llmgw_router_response_pins_evicted_total"); known != 2 || evicted != 3 {
		t.Errorf("%v known, %v evicted; want 2, 3", known, evicted)
	}
	if got := f.do("POST", responsesPath, continued("resp_a_3")); got.status != 400 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if got := f.do("POST", responsesPath, continued("resp_a_5")); got.status != 200 {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

// Two engines that keep their responses carry conversations on as one would.
func TestConversations(t *testing.T) {
	f := newFleet(t, config(at("a", newSim(t, nil).url), at("b", newSim(t, nil).url)))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			id, tokens := "", 0
			for i := range 6 {
				body := fmt.Sprintf(`{"model":"m","input":"and then?","max_output_tokens":5,"stream":%v`, i%2 == 0)
				if id != "" {
					body += `,"previous_response_id":"` + id + `"`
				}
				got := f.do("POST", responsesPath, body+"}")
				doc := got.body
				if i%2 == 0 {
					all := events(t, got.body)
					doc = strings.TrimSuffix(strings.TrimPrefix(all[len(all)-1].data, `{"response":`), "}")
				}
				var r struct {
					ID    string
					Usage struct {
						Input int `json:"input_tokens"`
					}
				}
				if err := json.NewDecoder(strings.NewReader(doc)).Decode(&r); err != nil || got.status != 200 || r.ID == "" {
					t.Errorf("turn %d: got %d %s, %v", i, got.status, got.body, err)
					return
				}
				if r.Usage.Input <= tokens {
					t.Errorf("turn %d has %d tokens after %d", i, r.Usage.Input, tokens)
				}
				id, tokens = r.ID, r.Usage.Input
			}
		})
	}
	wg.Wait()
	f.idle()
}
