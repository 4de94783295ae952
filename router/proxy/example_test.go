package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"

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
