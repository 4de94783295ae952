// Command embed-router is a program of its own that serves models beside its
// own pages: llmgw is one more http.Handler in its server. The engines run in
// this process, too, where yours would be URLs of vLLM or llama.cpp.
//
//	go run ./examples/embed-router
//	curl http://127.0.0.1:8080/v1/models
//
// The gateway gets every path that the program has no page for: /v1/…, the same
// without /v1 for clients whose base URL lacks it, and /tokenize. What it does
// not serve it answers with 404 in the shape of the API.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/gateway"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:8080")
	if err == nil {
		err = run(ctx, l)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run serves on l until ctx is done, and then what is under way to its end.
func run(ctx context.Context, l net.Listener) error {
	work, end := context.WithCancel(context.WithoutCancel(ctx)) // outlives the last request
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()

	cfg := gateway.DefaultConfig()
	for _, id := range []string{"engine-1", "engine-2"} {
		engine, err := sim.New(sim.DefaultConfig(), sim.Deps{})
		if err != nil {
			return err
		}
		el, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		wg.Go(func() { _ = engine.Serve(work, el) })
		cfg.Endpoints = append(cfg.Endpoints, gateway.Endpoint{Spec: endpoint.Spec{
			ID: id, URL: "http://" + el.Addr().String(), Models: []endpoint.Model{{Name: "sim-8b"}},
		}})
	}
	gw, err := gateway.New(cfg, gateway.Deps{Logger: slog.Default()})
	if err != nil {
		return err
	}
	wg.Go(func() { _ = gw.Run(work) }) // watches the engines

	mux := http.NewServeMux()
	mux.Handle("/", gw)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "A page of this program's own. Models are at /v1/models.")
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	drained := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		patience, cancel := context.WithTimeout(work, time.Minute)
		defer cancel()
		drained <- server.Shutdown(patience)
	})
	slog.Info("serving", "url", "http://"+l.Addr().String(), "models", "sim-8b")
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-drained
}
