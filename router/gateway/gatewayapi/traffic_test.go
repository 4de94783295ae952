package gatewayapi_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/fleet/console"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/router/gateway/gatewayapi"
)

// What the console is told is what went through the gateway.
func TestTraffic(t *testing.T) {
	arrived, goOn := make(chan struct{}), make(chan struct{})
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(string(body), "hold"):
			close(arrived)
			<-goOn
		case strings.Contains(string(body), "refuse"):
			http.Error(w, `{"error":{"message":"no"}}`, http.StatusBadRequest)
			return
		case strings.Contains(string(body), "cut"):
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "{")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"x","object":"chat.completion","model":"m","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":7,"total_tokens":10}}`)
	}))
	defer engine.Close()
	cfg := gateway.DefaultConfig()
	cfg.Admission.Core.Enabled = true
	cfg.Models = []catalog.Model{{Name: "m"}, {Name: "unserved"}}
	cfg.Endpoints = []gateway.Endpoint{{Spec: endpoint.Spec{ID: "a", URL: engine.URL, Models: []endpoint.Model{{Name: "m"}}}}}
	g, err := gateway.New(cfg, gateway.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	traffic := gatewayapi.Traffic{Gateway: g}
	if got := traffic.Traffic(); len(got.Models) > 0 || len(got.Pools) > 0 || !got.HasPools {
		t.Errorf("before any request: %+v", got)
	}
	front := httptest.NewServer(g)
	defer front.Close()
	ask := func(model, say string) {
		body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]}`, model, say)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, front.URL+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body) // of what is cut there is no end
		_ = resp.Body.Close()
	}
	ask("m", "hello")
	ask("m", "refuse")
	ask("m", "cut")
	ask("unserved", "hello")
	ask("made-up", "hello")
	held := make(chan struct{})
	go func() {
		defer close(held)
		ask("m", "hold")
	}()
	<-arrived
	got := traffic.Traffic()
	close(goOn)
	<-held
	by := map[string]console.ModelTraffic{}
	for _, m := range got.Models {
		by[m.Model] = m
	}
	want := map[string]console.ModelTraffic{
		"m":        {Model: "m", Requests: 3, Failed: 1, Refused: 1, OutputTokens: 7, HasTokens: true, InFlight: 1, HasInFlight: true},
		"unserved": {Model: "unserved", Requests: 1, Failed: 1, HasInFlight: true},
		"":         {Requests: 1, Refused: 1},
	}
	if diff := cmp.Diff(want, by); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(got.Pools) == 0 {
		t.Fatal("no pool")
	}
	for _, p := range got.Pools {
		if p.Name == "m" && (p.Leases != 1 || len(p.Bands) == 0 || !p.HasSaturation) {
			t.Errorf("pool of m: %+v", p)
		}
	}
}

// Reading is what a page and a sample cost; nothing on the way of a request counts for
// it.
func BenchmarkTraffic(b *testing.B) {
	const models = 500
	cfg := gateway.DefaultConfig()
	cfg.Admission.Core.Enabled = true
	for i := range models {
		cfg.Models = append(cfg.Models, catalog.Model{Name: fmt.Sprintf("m%d", i)})
	}
	g, err := gateway.New(cfg, gateway.Deps{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range models {
		r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(fmt.Sprintf(`{"model":"m%d","messages":[]}`, i)))
		r.Header.Set("Content-Type", "application/json")
		g.ServeHTTP(httptest.NewRecorder(), r)
	}
	traffic := gatewayapi.Traffic{Gateway: g}
	if n := len(traffic.Traffic().Models); n != models {
		b.Fatalf("%d models; want %d", n, models)
	}
	b.Run(fmt.Sprintf("models=%d", models), func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			traffic.Traffic()
		}
	})
}
