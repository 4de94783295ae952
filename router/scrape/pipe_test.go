package scrape_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/sim/simtest"
	"github.com/llmgw/llmgw/engines/vllm"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/scrape"
)

// A real client and server, over pipes: an engine that stops in the middle of
// its page costs its own measurement only, and is measured again when it wakes.
func TestOverRealHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		wedged := false
		var network simtest.Network
		listener, err := network.Listen("a:80")
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			stop := wedged
			mu.Unlock()
			_, _ = w.Write([]byte(vllmPage[:20]))
			_ = http.NewResponseController(w).Flush()
			if stop {
				<-r.Context().Done()
				return
			}
			_, _ = w.Write([]byte(vllmPage[20:]))
		})}
		served := make(chan struct{})
		go func() { defer close(served); _ = server.Serve(listener) }()
		transport := &http.Transport{DialContext: network.Dial}

		set, err := endpoint.NewSet(endpoint.DefaultConfig(), endpoint.Deps{})
		if err != nil {
			t.Fatal(err)
		}
		if err := set.Replace([]endpoint.Spec{spec("a", engines.Auto)}); err != nil {
			t.Fatal(err)
		}
		s, err := scrape.New(scrape.DefaultConfig(), scrape.Deps{
			Set:       set,
			Contracts: []engines.MetricContract{vllm.Metrics()},
			Client:    func(*endpoint.Endpoint) scrape.Doer { return &http.Client{Transport: transport} },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()

		wait(time.Second)
		e := set.Snapshot().All()[0]
		first := e.Load()
		if first == nil || first.Running != engines.Read(3) {
			t.Fatalf("load %+v", first)
		}
		mu.Lock()
		wedged = true
		mu.Unlock()
		wait(10 * time.Second)
		if age := time.Since(e.Load().At); age < 8*time.Second {
			t.Errorf("a page that never ended made a measurement of age %v", age)
		}
		mu.Lock()
		wedged = false
		mu.Unlock()
		wait(5 * time.Second)
		if age := time.Since(e.Load().At); age > 3*time.Second {
			t.Errorf("the measurement is %v old after the engine woke", age)
		}

		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		transport.CloseIdleConnections()
		_ = server.Close()
		<-served
	})
}
