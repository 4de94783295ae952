package gateway_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/storage"
)

// What keys, limits, a budget and accounting add to a short request: the engine
// answers at once, over a socket.
func BenchmarkGoverned(b *testing.B) {
	cfg := config(at("e", newEngine(b, mixedEngine).url))
	cfg.Models = []catalog.Model{priced("m")}
	quiet := func(d *gateway.Deps) { d.Logger, d.Recorder, d.Charger, d.Admitter = nil, nil, nil, nil }
	rate, many := int64(1e12), int64(1e6)
	serve := func(b *testing.B, h http.Handler, text string) {
		b.ReportAllocs()
		for b.Loop() {
			w := &client{header: http.Header{}}
			h.ServeHTTP(w, (&http.Request{
				Method: "POST", URL: &url.URL{Path: chatPath}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
				Header: http.Header{"Authorization": {"Bearer " + text}}, Body: io.NopCloser(strings.NewReader(chatBody)), ContentLength: int64(len(chatBody)),
			}).WithContext(b.Context()))
			if w.status != http.StatusOK {
				b.Fatal(w.status)
			}
		}
	}
	b.Run("keys=none", func(b *testing.B) { serve(b, newFleet(b, cfg, quiet).gw, "") })
	for name, spec := range map[string]auth.Spec{
		"keys=bare":    {},
		"keys=limited": {Limits: storage.Limits{RequestsPerMinute: &rate, TokensPerMinute: &rate, Concurrency: &many}, Budget: "100000/day"},
	} {
		b.Run(name, func(b *testing.B) {
			g := newGoverned(b, cfg, nil, quiet)
			_, text := g.key(spec)
			serve(b, g.gw.Protect(g.gw, auth.DefaultExempt()), text)
		})
		// Without what SQLite takes of the same cores to keep the rows.
		b.Run(name+"/unkept", func(b *testing.B) {
			g := newGoverned(b, cfg, nil, quiet)
			_, text := g.key(spec)
			if a := g.do("POST", chatPath, chatBody, bearer(text)...); a.status != http.StatusOK {
				b.Fatal(a.status)
			}
			g.usage()
			serve(b, g.gw.Protect(g.gw, auth.DefaultExempt()), text)
		})
	}
}
