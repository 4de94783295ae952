package provider_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/fleet/provider"
)

// local is a configuration that names loopback, where tests serve.
func local() provider.Config {
	cfg := provider.DefaultConfig()
	cfg.AllowCIDRs = append(cfg.AllowCIDRs, netip.MustParsePrefix("127.0.0.0/8"))
	return cfg
}

func serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

func says(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }
}

func TestAsk(t *testing.T) {
	p := provider.NewProber(local())
	for name, tt := range map[string]struct {
		body string
		want []provider.Listed
	}{
		"vLLM": {
			`{"object":"list","data":[{"id":"b","object":"model","owned_by":"vllm","max_model_len":32768},{"id":"a","owned_by":"vllm"},{"id":"a"}]}`,
			[]provider.Listed{{Name: "a", OwnedBy: "vllm"}, {Name: "b", OwnedBy: "vllm", ContextTokens: new(int64(32768))}},
		},
		"llama.cpp":      {`{"models":[{"name":"x"}],"object":"list","data":[{"id":"q.gguf","owned_by":"llamacpp","meta":{"n_ctx_train":4096}}]}`, []provider.Listed{{Name: "q.gguf", OwnedBy: "llamacpp", ContextTokens: new(int64(4096))}}},
		"OpenRouter":     {`{"data":[{"id":"x/y","context_length":1e6,"pricing":{}}]}`, []provider.Listed{{Name: "x/y", ContextTokens: new(int64(1_000_000))}}},
		"Together":       {` [{"id":"x/y","context_length":8192}]`, []provider.Listed{{Name: "x/y", ContextTokens: new(int64(8192))}}},
		"loading":        {`{"object":"list","data":[]}`, nil},
		"Ollama's null":  {`{"object":"list","data":null}`, nil},
		"nonsense in it": {`{"data":[{"id":"a","owned_by":7,"max_model_len":-1,"meta":null},{"id":"` + strings.Repeat("x", 300) + `"},{"id":"b","max_model_len":"12","meta":"x"},{"id":"c\u0000"}]}`, []provider.Listed{{Name: "a"}, {Name: "b"}}},
	} {
		got, err := p.Ask(t.Context(), provider.Target{BaseURL: serve(t, says(tt.body))})
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
}

func TestAskCredential(t *testing.T) {
	var got http.Header
	var path string
	at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got, path = r.Header, r.URL.String()
		fmt.Fprint(w, `{"data":[]}`)
	})
	p := provider.NewProber(local())
	for vendor, want := range map[string]string{"": "Authorization: Bearer " + canary, "anthropic": "X-Api-Key: " + canary} {
		if _, err := p.Ask(t.Context(), provider.Target{BaseURL: at, Vendor: vendor, Public: true, Secret: secret(t, canary)}); err != nil {
			t.Fatal(err)
		}
		name, value, _ := strings.Cut(want, ": ")
		if got.Get(name) != value || vendor == "anthropic" && (got.Get("Authorization") != "" || got.Get("Anthropic-Version") == "" || path != "/v1/models?limit=1000") {
			t.Errorf("%q: %v, %s", vendor, got, path)
		}
	}
}

// What is no list of models is an error that says so in our words and not in theirs.
func TestAskRefused(t *testing.T) {
	cfg := local()
	cfg.AnswerBytes, cfg.ProbeTimeout = 1<<20, 300*time.Millisecond
	p := provider.NewProber(cfg)
	var elsewhere atomic.Bool
	other := serve(t, func(http.ResponseWriter, *http.Request) { elsewhere.Store(true) })
	hang := func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	raw := func(answer string) string {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				_, _ = c.Read(make([]byte, 4096))
				_, _ = c.Write([]byte(answer))
				_ = c.Close()
			}
		}()
		return "http://" + ln.Addr().String() + "/v1"
	}
	for name, tt := range map[string]struct {
		at   string
		want provider.Reason
	}{
		"HTML":             {serve(t, says("<html>"+canary+"</html>")), provider.ReasonNoList},
		"another object":   {serve(t, says(`{"error":"`+canary+`"}`)), provider.ReasonNoList},
		"cut":              {serve(t, says(`{"data":[{"id":"`+canary)), provider.ReasonNoList},
		"data of texts":    {serve(t, says(`{"data":["`+canary+`"]}`)), provider.ReasonNoList},
		"data of nobody":   {serve(t, says(`{"data":[{"name":"`+canary+`"}]}`)), provider.ReasonNoList},
		"nothing":          {serve(t, says("")), provider.ReasonNoList},
		"deep":             {serve(t, says(strings.Repeat("[", 100_000))), provider.ReasonNoList},
		"100 MB":           {serve(t, func(w http.ResponseWriter, _ *http.Request) { pour(w, 100<<20) }), provider.ReasonTooLarge},
		"a redirect":       {serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other, http.StatusFound) }), provider.ReasonRedirect},
		"401":              {serve(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, canary, http.StatusUnauthorized) }), provider.ReasonUnauthorised},
		"loading":          {serve(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, canary, http.StatusServiceUnavailable) }), provider.ReasonStatus},
		"204":              {serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }), provider.ReasonStatus},
		"hung":             {serve(t, hang), provider.ReasonTimeout},
		"no HTTP":          {raw(canary + "\r\n\r\n"), provider.ReasonUnreached},
		"a bad head":       {raw("HTTP/1.1 200 OK\r\n" + canary + "\r\n\r\n"), provider.ReasonUnreached},
		"a long head":      {raw("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20)), provider.ReasonUnreached},
		"closed":           {raw(""), provider.ReasonUnreached},
		"refused":          {"http://127.0.0.1:1/v1", provider.ReasonUnreached},
		"no such host":     {"http://no-such-host.invalid/v1", provider.ReasonUnreached},
		"metadata":         {"http://169.254.169.254/v1", provider.ReasonAddress},
		"a public address": {"http://192.0.2.1/v1", provider.ReasonAddress},
	} {
		_, err := p.Ask(t.Context(), provider.Target{BaseURL: tt.at})
		e, ok := errors.AsType[*provider.ProbeError](err)
		if !ok || e.Reason != tt.want {
			t.Errorf("%s: %v", name, err)
		} else if strings.Contains(err.Error(), canary) || len(err.Error()) > 200 {
			t.Errorf("%s: the error repeats what was answered: %v", name, err)
		}
	}
	if elsewhere.Load() {
		t.Error("a redirect was followed")
	}
}

func pour(w http.ResponseWriter, n int) {
	part := []byte(strings.Repeat("x", 1<<16))
	for ; n > 0; n -= len(part) {
		if _, err := w.Write(part); err != nil {
			return
		}
	}
}

// A name that resolves to what must not be dialled is refused when it is dialled, and
// nothing is sent: no check before can be got round by another answer.
func TestAskRebinding(t *testing.T) {
	var asked atomic.Bool
	at := serve(t, func(http.ResponseWriter, *http.Request) { asked.Store(true) })
	p := provider.NewProber(provider.DefaultConfig())
	for _, host := range []string{"localhost", "127.0.0.1", "[::ffff:127.0.0.1]"} {
		for _, public := range []bool{false, true} {
			_, err := p.Ask(context.Background(), provider.Target{BaseURL: strings.Replace(at, "127.0.0.1", host, 1), Public: public})
			if e, ok := errors.AsType[*provider.ProbeError](err); !ok || e.Reason != provider.ReasonAddress || !errors.Is(err, provider.ErrAddress) {
				t.Errorf("%s: %v", host, err)
			}
		}
	}
	if asked.Load() {
		t.Error("loopback was asked")
	}
}

// FuzzParse: whatever is answered, it is a list by name, or an error.
func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"data":[{"id":"a"}]}`, `[{"id":"b"},{"id":"a"}]`, `{"data":null}`, `{"data":[{"id":"a","meta":{"n_ctx_train":1}}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		models, err := provider.ParseModels(body)
		if err != nil && models != nil {
			t.Fatal("models and an error")
		}
		for i, m := range models {
			if m.Name == "" || len(m.Name) > 256 || i > 0 && models[i-1].Name >= m.Name || m.ContextTokens != nil && *m.ContextTokens < 1 {
				t.Fatalf("%+v", models)
			}
		}
	})
}
