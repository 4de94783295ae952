package scrape_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/vllm"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/scrape"
)

// doerFunc stands for an engine here.
type doerFunc func(*http.Request) (*http.Response, error)

func (f doerFunc) Do(req *http.Request) (*http.Response, error) { return f(req) }

func Example() {
	set, err := endpoint.NewSet(endpoint.DefaultConfig(), endpoint.Deps{})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = set.Replace([]endpoint.Spec{{ID: "a", URL: "http://10.0.0.5:8000", Models: []endpoint.Model{{Name: "m"}}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := scrape.New(scrape.DefaultConfig(), scrape.Deps{
		Set:       set,
		Contracts: []engines.MetricContract{vllm.Metrics()},
		Client: func(*endpoint.Endpoint) scrape.Doer {
			return doerFunc(func(req *http.Request) (*http.Response, error) {
				fmt.Println(req.Method, req.URL)
				page := "vllm:num_requests_running 3\nvllm:num_requests_waiting 0\n"
				return &http.Response{StatusCode: 200, Body: &last{strings.NewReader(page), cancel}}, nil
			})
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Run(ctx))
	load := set.Snapshot().All()[0].Load()
	fmt.Println(load.Engine, load.Running, load.Waiting, load.KVUsedRatio)
	// Output:
	// GET http://10.0.0.5:8000/metrics
	// <nil>
	// vllm 3 0 unknown
}

// last ends the example after the first page.
type last struct {
	io.Reader
	end func()
}

func (l *last) Close() error { l.end(); return nil }
