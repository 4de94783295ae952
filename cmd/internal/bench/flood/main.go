// Flood measures, in real time, what a flood of low priority does to requests of
// high priority: 500 bronze clients that ask again as soon as they are answered,
// against one simulated engine that runs 16 requests at once, behind the gateway,
// without admission and with it. It prints a table, takes about a minute, and stays
// on the loopback interface:
//
//	go run ./cmd/internal/bench/flood
//	go run ./cmd/internal/bench/flood -max-running 0    # the engine is found out
//
// docs/explanation/admission.md says how to read the table.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/gateway"
)

// flood is the load and what it goes to.
type flood struct {
	seats, maxRunning, clients int
	window, warmup             time.Duration
}

// felt is what came of one run.
type felt struct {
	platinum []time.Duration // sorted
	bronze   int64
	failed   int64
}

func main() {
	f := flood{}
	flag.IntVar(&f.seats, "seats", 16, "requests that the engine runs at once")
	flag.IntVar(&f.maxRunning, "max-running", 16, "endpoints[].max_running; 0 says nothing")
	flag.IntVar(&f.clients, "clients", 500, "bronze clients")
	flag.DurationVar(&f.window, "d", 20*time.Second, "measured time of each run")
	flag.DurationVar(&f.warmup, "warmup", 5*time.Second, "flood before it")
	flag.Parse()
	if err := f.table(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "flood:", err)
		os.Exit(1)
	}
}

// table runs idle, off and on, and prints a line for each.
func (f flood) table(out io.Writer) error {
	var idle time.Duration
	fmt.Fprintln(out, "| admission | platinum answers | p50 | p99 | of idle | bronze answers | failed |")
	fmt.Fprintln(out, "| --- | --- | --- | --- | --- | --- | --- |")
	for _, run := range []struct {
		name      string
		clients   int
		admission bool
	}{{"no other load", 0, true}, {"off", f.clients, false}, {"on", f.clients, true}} {
		got, err := f.run(run.clients, run.admission)
		if err != nil {
			return err
		}
		if len(got.platinum) == 0 {
			return fmt.Errorf("%s: no platinum request was answered; give it more time with -d", run.name)
		}
		at := func(share float64) time.Duration { return got.platinum[int(share*float64(len(got.platinum)-1))] }
		if idle == 0 {
			idle = at(.99)
		}
		fmt.Fprintf(out, "| %s | %d | %v | %v | %.2f | %d | %d |\n", run.name, len(got.platinum),
			at(.5).Round(time.Millisecond), at(.99).Round(time.Millisecond), float64(at(.99))/float64(idle), got.bronze, got.failed)
	}
	return nil
}

// run floods one engine behind one gateway, both of its own.
func (f flood) run(clients int, admission bool) (felt, error) {
	ctx, stop := context.WithCancel(context.Background())
	var servers, crowd sync.WaitGroup
	defer servers.Wait()
	defer stop()

	engineConfig := sim.DefaultConfig()
	engineConfig.Model, engineConfig.MaxNumSeqs = "m", f.seats
	engine, err := sim.New(engineConfig, sim.Deps{})
	if err != nil {
		return felt{}, err
	}
	var listen net.ListenConfig
	at, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return felt{}, err
	}
	servers.Go(func() { _ = engine.Serve(ctx, at) })

	cfg := gateway.DefaultConfig()
	cfg.Admission.Core.Enabled = admission
	cfg.Admission.Core.QueueTTL = time.Hour // the flood never gives up
	cfg.Endpoints = []gateway.Endpoint{{Spec: endpoint.Spec{
		ID: "engine", URL: "http://" + at.Addr().String(), Models: []endpoint.Model{{Name: "m"}}, MaxRunning: f.maxRunning,
	}}}
	gw, err := gateway.New(cfg, gateway.Deps{})
	if err != nil {
		return felt{}, err
	}
	servers.Go(func() { _ = gw.Run(ctx) })
	front, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return felt{}, err
	}
	server := &http.Server{Handler: gw, ReadHeaderTimeout: time.Minute}
	servers.Go(func() { _ = server.Serve(front) })
	defer func() { _ = server.Close() }()

	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients + 10}}
	defer client.CloseIdleConnections()
	ask := func(ctx context.Context, band string, tokens int) (time.Duration, error) {
		begin := time.Now()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+front.Addr().String()+"/v1/chat/completions", strings.NewReader(fmt.Sprintf(
			`{"model":"m","ignore_eos":true,"max_tokens":%d,"messages":[{"role":"user","content":"Hello"}]}`, tokens)))
		if err != nil {
			return 0, err
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Llmgw-Band", band)
		res, err := client.Do(r)
		if err != nil {
			return 0, err
		}
		defer func() { _ = res.Body.Close() }()
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			return 0, err
		}
		if res.StatusCode != http.StatusOK {
			return 0, fmt.Errorf("status %d", res.StatusCode)
		}
		return time.Since(begin), nil
	}

	var bronze, failed atomic.Int64
	for i := range clients {
		crowd.Go(func() {
			for ctx.Err() == nil {
				switch _, err := ask(ctx, "bronze", 20+i%41); {
				case ctx.Err() != nil:
				case err != nil:
					failed.Add(1)
				default:
					bronze.Add(1)
				}
			}
		})
	}
	if clients > 0 {
		time.Sleep(f.warmup)
	}
	bronze.Store(0)
	var mu sync.Mutex
	var got felt
	var platinum sync.WaitGroup
	for end := time.Now().Add(f.window); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		platinum.Go(func() {
			took, err := ask(ctx, "platinum", 20)
			if err != nil {
				failed.Add(1)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			got.platinum = append(got.platinum, took)
		})
	}
	got.bronze = bronze.Load()
	platinum.Wait() // those that stand behind the flood included
	stop()
	crowd.Wait()
	got.failed = failed.Load()
	slices.Sort(got.platinum)
	return got, nil
}
