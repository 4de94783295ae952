package gateway_test

import (
	"strings"
	"testing"
)

const denial = `{"error":{"message":"The model m does not exist.","type":"NotFoundError","param":null,"code":404}}`

// An engine that does not know the model which its entry lists is a mistake of
// the operator: another engine may know it, the log says what to do, and no
// breaker opens.
func TestEngineThatDeniesItsModel(t *testing.T) {
	bad := newRaw(t, func(x *exchange) { x.write(document(404, denial)) })
	other := newRaw(t, good)
	f := newFleet(t, config(first(at("bad", bad.url)), at("good", other.url)))
	for range 5 {
		if got := f.chat(); got.status != 200 || got.body != completion {
			t.Fatalf("got %d %s; want the other engine's answer", got.status, got.body)
		}
	}
	if n := strings.Count(f.log.String(), "as upstream"); n != 1 {
		t.Errorf("%d lines name the mistake; want 1:\n%s", n, f.log.String())
	}
	if bad.calls.Load() < 4 {
		t.Errorf("the engine was asked %d times; its breaker must not open for that", bad.calls.Load())
	}

	alone := newFleet(t, config(at("bad", bad.url)))
	if got := alone.chat(); got.status != 404 || got.code() != "model_not_found" {
		t.Errorf("got %d %s; want the engine's own 404", got.status, got.body)
	}
}

// A 404 for the path is the same at every engine and not worth a second try.
func TestEngineWithoutThePath(t *testing.T) {
	answer := func(x *exchange) { x.write(document(404, `{"detail":"Not Found"}`)) }
	one, two := newRaw(t, answer), newRaw(t, answer)
	f := newFleet(t, config(at("one", one.url), at("two", two.url)))
	if got := f.chat(); got.status != 404 || got.code() == "" {
		t.Errorf("got %d %s; want a 404 with a code", got.status, got.body)
	}
	if n := one.calls.Load() + two.calls.Load(); n != 1 {
		t.Errorf("%d engines were asked; want 1", n)
	}
}

// An engine that wants a key which nobody configured speaks for itself, and the
// log tells the operator, who alone can mend it.
func TestEngineWantsAKey(t *testing.T) {
	e := newRaw(t, func(x *exchange) {
		x.write(document(401, `{"error":{"message":"Unauthorized","type":"x","code":401}}`))
	})
	f := newFleet(t, config(at("e", e.url)))
	if got := f.chat(); got.status != 401 {
		t.Errorf("got %d %s; want 401", got.status, got.body)
	}
	if !strings.Contains(f.log.String(), "set key_env or key_file") {
		t.Errorf("the log does not say what to do:\n%s", f.log.String())
	}
}

func TestPathsOfABaseURLGoneWrong(t *testing.T) {
	e := newRaw(t, good)
	f := newFleet(t, config(at("e", e.url)))
	for _, tt := range []struct{ method, path, want string }{
		{"POST", "/v1/v1/chat/completions", "does not end in /v1"},
		{"GET", "/v1/v1/models", "does not end in /v1"},
		{"POST", "/openai/deployments/m/chat/completions?api-version=2024-10-21", "not the one for Azure"},
		{"POST", "/v1/deployments/m/chat/completions?api-version=2024-10-21", "not the one for Azure"},
		{"POST", "/openai/v1/chat/completions", "a base URL that ends in /v1"},
		{"GET", "/v1/files", "unknown_url"},
	} {
		got := f.do(tt.method, tt.path, chatBody)
		if got.status != 404 || !strings.Contains(got.body, tt.want) {
			t.Errorf("%s %s: got %d %s; want 404 with %q", tt.method, tt.path, got.status, got.body, tt.want)
		}
	}
	if e.calls.Load() != 0 {
		t.Error("an engine was asked")
	}
}
