package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/llmgw/llmgw/router/proxy"
)

// A handler that sends each request to one engine.
func Example() {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s, %s\n\n", r.URL.Path, r.Header.Get("Authorization"))
		fmt.Fprint(w, "data: [DONE]\n\n")
	}))
	defer engine.Close()

	p, err := proxy.New(proxy.DefaultConfig(), proxy.Deps{})
	if err != nil {
		panic(err)
	}
	target, err := p.NewTarget(proxy.TargetConfig{URL: engine.URL, Secret: "engine-key"})
	if err != nil {
		panic(err)
	}
	defer target.Close()

	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		resp, err := p.Send(r.Context(), target, &proxy.Request{
			Method: r.Method, Path: r.URL.RequestURI(), Header: r.Header, Body: [][]byte{body}, Length: len(body),
		})
		if err != nil {
			w.WriteHeader(http.StatusBadGateway) // or try another target
			return
		}
		if _, err := resp.Relay(w, &lineTap{}, proxy.Options{}); err != nil {
			panic(http.ErrAbortHandler)
		}
	}))
	defer gateway.Close()

	answer, err := http.Post(gateway.URL+"/v1/chat/completions", "application/json", nil)
	if err != nil {
		panic(err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(os.Stdout, answer.Body)
	http.DefaultClient.CloseIdleConnections()
	// Output:
	// data: /v1/chat/completions, Bearer engine-key
	//
	// data: [DONE]
}

// An error says what happened, and so whether to try elsewhere.
func ExampleError() {
	p, err := proxy.New(proxy.DefaultConfig(), proxy.Deps{})
	if err != nil {
		panic(err)
	}
	target, err := p.NewTarget(proxy.TargetConfig{URL: "http://127.0.0.1:1"}) // where nobody listens
	if err != nil {
		panic(err)
	}
	defer target.Close()
	_, err = p.Send(context.Background(), target, &proxy.Request{Method: "GET", Path: "/health"})
	if e, ok := errors.AsType[*proxy.Error](err); ok {
		fmt.Println(e.Kind, e.Kind.Timeout())
	}
	// Output: dial false
}

// An engine at a Unix socket; the address of the URL is what Dial is given.
func ExampleTargetConfig() {
	dir, err := os.MkdirTemp("", "engine")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	socket := filepath.Join(dir, "engine.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		panic(err)
	}
	engine := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "healthy")
	}))
	_ = engine.Listener.Close()
	engine.Listener = listener
	engine.Start()
	defer engine.Close()

	p, err := proxy.New(proxy.DefaultConfig(), proxy.Deps{})
	if err != nil {
		panic(err)
	}
	target, err := p.NewTarget(proxy.TargetConfig{
		URL: "http://engine",
		Dial: func(ctx context.Context, _, addr string) (net.Conn, error) {
			fmt.Println("dial", addr)
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	})
	if err != nil {
		panic(err)
	}
	defer target.Close()
	resp, err := p.Send(context.Background(), target, &proxy.Request{Method: "GET", Path: "/health"})
	if err != nil {
		panic(err)
	}
	w := httptest.NewRecorder()
	_, err = resp.Relay(w, &lineTap{}, proxy.Options{})
	fmt.Println(w.Code, w.Body, err)
	// Output:
	// dial engine:80
	// 200 healthy <nil>
}
