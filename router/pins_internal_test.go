package router

import (
	"fmt"
	"testing"
	"time"
)

func TestPins(t *testing.T) {
	now := time.Unix(1e9, 0)
	p := pins{limit: 3, ttl: time.Hour}
	at := func(endpoint string) pin { return pin{endpoint: endpoint, model: "m", tenant: "t"} }
	want := func(id, endpoint string) {
		t.Helper()
		if got, ok := p.find(now, id); got.endpoint != endpoint || ok != (endpoint != "") {
			t.Errorf("%s is at %q, %v; want %q", id, got.endpoint, ok, endpoint)
		}
	}
	for i := range 3 {
		p.learn(now, fmt.Sprint("r", i), at(fmt.Sprint("e", i)))
	}
	p.learn(now, "", at("e"))
	want("", "")
	want("r0", "e0")
	p.learn(now, "r3", at("e3")) // r1 was not asked for longest
	want("r1", "")
	want("r0", "e0")
	if known, evicted := p.counts(); known != 3 || evicted != 1 {
		t.Errorf("%d known, %d evicted; want 3, 1", known, evicted)
	}
	p.forget("r0")
	p.forget("nobody")
	want("r0", "")
	p.learn(now, "r3", at("e9")) // the same caller again
	want("r3", "e9")
	p.learn(now, "r2", at("e2")) // last used now
	p.learn(now, "r2", pin{endpoint: "x", tenant: "another"})
	want("r2", "") // neither's
	p.learn(now, "r2", at("e2"))
	want("r2", "")

	now = now.Add(50 * time.Minute)
	want("r3", "e9") // and so for another hour
	now = now.Add(50 * time.Minute)
	want("r2", "")
	want("r3", "e9")
	now = now.Add(2 * time.Hour)
	p.learn(now, "r3", pin{endpoint: "x", tenant: "another"}) // it is nobody's any more
	want("r3", "x")
	for i := range 5 {
		now = now.Add(2 * time.Hour)
		p.learn(now, fmt.Sprint("s", i), at("e"))
	}
	if known, evicted := p.counts(); known != 3 || evicted != 1 {
		t.Errorf("%d known, %d evicted; want 3, 1: what had expired is no loss", known, evicted)
	}

	none := pins{ttl: time.Hour}
	none.learn(now, "r", at("e"))
	if _, ok := none.find(now, "r"); ok {
		t.Error("a limit of 0 remembers")
	}
}

func TestStoredPaths(t *testing.T) {
	for _, tt := range []struct{ method, path, id, label string }{
		{"GET", "/v1/responses/resp_1", "resp_1", "/v1/responses/{id}"},
		{"DELETE", "/v1/responses/resp_1", "resp_1", "/v1/responses/{id}"},
		{"POST", "/v1/responses/resp_1/cancel", "resp_1", "/v1/responses/{id}/cancel"},
		{"GET", "/v1/responses/resp_1/input_items", "resp_1", "/v1/responses/{id}/input_items"},
		{"POST", "/v1/responses/compact", "", ""},
		{"POST", "/v1/responses/resp_1", "", ""},
		{"POST", "/v1/responses/resp_1/Cancel", "", ""},
		{"POST", "/v1/responses/resp~1/cancel", "", ""},
		{"GET", "/v1/responses/", "", ""},
		{"GET", "/v1/responses/resp_1/", "", ""},
		{"GET", "/v1/responses/resp_1/other", "", ""},
		{"GET", "/v1/responses/resp_1/input_items/more", "", ""},
		{"PUT", "/v1/responses/resp_1", "", ""},
		{"GET", "/v1/responses", "", ""},
		{"GET", "/v1/responses/a b", "", ""},
	} {
		if id, label, ok := stored(tt.method, tt.path); id != tt.id || label != tt.label || ok != (tt.id != "") {
			t.Errorf("%s %s: %q, %q, %v", tt.method, tt.path, id, label, ok)
		}
	}
}
