package sim_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/engines/sim/simtest"
)

// logged returns an engine and what it has logged so far.
func logged(t *testing.T, cfg sim.Config) (*sim.Engine, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	e, err := sim.New(cfg, sim.Deps{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.MessageKey {
				return a
			}
			return slog.Attr{}
		},
	}))})
	if err != nil {
		t.Fatal(err)
	}
	return e, &log
}

func TestLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := sim.InstantConfig()
		cfg.LoadTime = 40 * time.Second
		e, log := logged(t, cfg)
		begun := time.Now()
		if err := e.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took != cfg.LoadTime {
			t.Errorf("loading took %v; want %v", took, cfg.LoadTime)
		}
		want := `msg="Starting to load model sim-8b..."
msg="Loading safetensors checkpoint shards: 25% Completed | 1/4"
msg="Loading safetensors checkpoint shards: 50% Completed | 2/4"
msg="Loading safetensors checkpoint shards: 75% Completed | 3/4"
msg="Loading safetensors checkpoint shards: 100% Completed | 4/4"
msg="Loading weights took 30.00 seconds"
msg="GPU KV cache size: 409600 tokens"
msg="init engine (profile, create kv cache, warmup model) took 10.00 s"
`
		if diff := cmp.Diff(want, log.String()); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}

		ctx, cancel := context.WithTimeout(t.Context(), 35*time.Second)
		defer cancel()
		if err := e.Load(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("told to stop, it says %v", err)
		}
	})
}

func TestLoadFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for fault, want := range map[string]string{
			"memory":  "out of memory",
			"context": "the estimated maximum model length is 65536",
			"hang":    "told to stop",
		} {
			cfg := sim.InstantConfig()
			cfg.Faults.FailLoad, cfg.LoadTime = fault, 8*time.Second
			e := newEngine(t, cfg)
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, errors.New("told to stop"))
			begun := time.Now()
			err := e.Load(ctx)
			cancel()
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want %s", fault, err, want)
			}
			if took := time.Since(begun); (took == time.Hour) != (fault == "hang") {
				t.Errorf("%s took %v", fault, took)
			}
		}
		if e := newEngine(t, sim.InstantConfig()); e.SetFaults(sim.Faults{FailLoad: "weather"}) == nil {
			t.Error("a fault that does not exist is accepted")
		}
	})
}

// An engine crashes at its time, whether it serves or not, and the time can be
// changed while it does.
func TestCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, lives := range []func(*sim.Engine) error{
			func(e *sim.Engine) error { return e.Idle(t.Context()) },
			func(e *sim.Engine) error {
				ln, err := new(simtest.Network).Listen("engine:80")
				if err != nil {
					return err
				}
				return e.Serve(t.Context(), ln)
			},
		} {
			cfg := sim.InstantConfig()
			cfg.Faults.CrashAfter = time.Minute
			for _, later := range []time.Duration{0, time.Hour} {
				e := newEngine(t, cfg)
				begun := time.Now()
				want := time.Minute
				if later > 0 {
					want = 30*time.Second + later
					time.AfterFunc(30*time.Second, func() { _ = e.SetFaults(sim.Faults{CrashAfter: later}) })
				}
				if err := lives(e); !errors.Is(err, sim.ErrCrashed) {
					t.Errorf("it ends with %v", err)
				}
				if got := time.Since(begun); got != want {
					t.Errorf("it crashed after %v; want %v", got, want)
				}
			}
		}
	})
}

// With a shutdown timeout an answer under way ends by itself, and nobody new
// gets in; without, or when it is over, the answer is cut.
func TestShutdownTimeout(t *testing.T) {
	for _, tt := range []struct {
		timeout time.Duration
		whole   bool
		within  time.Duration
	}{
		{0, false, time.Second},
		{2 * time.Second, false, 3 * time.Second},
		{time.Hour, true, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg := sim.DefaultConfig()
			cfg.ShutdownTimeout = tt.timeout
			e := newEngine(t, cfg)
			var network simtest.Network
			ln, err := network.Listen("engine:80")
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			served := make(chan error, 1)
			go func() { served <- e.Serve(ctx, ln) }()
			c := &http.Client{Transport: &http.Transport{DialContext: network.Dial, DisableKeepAlives: true}}
			resp, err := post(t.Context(), c, "http://engine/v1/completions", // takes 6.5 s
				`{"prompt":"a","max_tokens":1000,"ignore_eos":true,"stream":true}`, "")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			begun := time.Now()
			stop()
			synctest.Wait()
			if _, err := network.Dial(t.Context(), "tcp", "engine:80"); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("timeout %v: somebody new gets in: %v", tt.timeout, err)
			}
			body, err := io.ReadAll(resp.Body)
			if whole := err == nil && strings.HasSuffix(string(body), "data: [DONE]\n\n"); whole != tt.whole {
				t.Errorf("timeout %v: whole is %t, %v; want %t", tt.timeout, whole, err, tt.whole)
			}
			if err := <-served; err != nil {
				t.Error(err)
			}
			if took := time.Since(begun); took > tt.within {
				t.Errorf("timeout %v: it took %v to end", tt.timeout, took)
			}
		})
	}
}
