package calibrate_test

import (
	"math"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/engines/sim/calibrate"
	"github.com/llmgw/llmgw/engines/sim/simtest"
)

func TestMain(m *testing.M) {
	// A server of net/http that gives up a connection lingers on it for half a
	// second, longer than goleak waits.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// serve returns a client of h; both end with the test.
func serve(t *testing.T, h http.Handler) *http.Client {
	t.Helper()
	var network simtest.Network
	ln, err := network.Listen("engine:80")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h}
	var running sync.WaitGroup
	running.Go(func() { _ = srv.Serve(ln) })
	tr := &http.Transport{DialContext: network.Dial, MaxIdleConnsPerHost: 1000}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		_ = srv.Close()
		running.Wait()
	})
	return &http.Client{
		Transport:     tr,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func config() calibrate.Config {
	cfg := calibrate.DefaultConfig()
	cfg.URL = "http://engine/v1/"
	cfg.Seed = 1
	return cfg
}

// simulated runs a calibration of a simulated engine under virtual time.
func simulated(t *testing.T, engine sim.Config, cfg calibrate.Config) (*calibrate.Report, error) {
	t.Helper()
	e, err := sim.New(engine, sim.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return calibrate.Run(t.Context(), cfg, calibrate.Deps{Client: serve(t, e)})
}

// A calibration of an engine whose parameters are known finds them.
func TestRecoversParameters(t *testing.T) {
	small := sim.DefaultConfig() // a llama.cpp on a processor
	small.MaxNumSeqs, small.MaxNumBatchedTokens = 4, 512
	small.MaxModelLen, small.PrefixCaching = 3000, false
	small.Timing = sim.Timing{
		Step: 12 * time.Millisecond, PerSequence: 3 * time.Millisecond, Request: 4 * time.Millisecond,
		PrefillTokensPerSecond: 900, AttentionPairsPerSecond: 2e6, KVReadTokensPerSecond: 400_000,
	}
	large := sim.DefaultConfig()
	large.MaxNumBatchedTokens = 2048
	odd := small
	odd.MaxNumSeqs = 13
	odd.PrefixCaching, odd.BlockSize, odd.NumGPUBlocks = true, 1, 50_000
	type engine struct {
		name   string
		engine sim.Config
		api    calibrate.API
		slots  bool // are found
	}
	engines := []engine{
		{"processor", small, calibrate.Chat, true},
		{"8B on one H100", large, calibrate.Completions, false},
	}
	if !raced {
		engines = append(engines, engine{"13 sequences", odd, calibrate.Chat, true})
	}
	for _, tt := range engines {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config()
				cfg.API, cfg.Repeats, cfg.MaxConcurrency = tt.api, 3, 16
				r, err := simulated(t, tt.engine, cfg)
				if err != nil {
					t.Fatal(err)
				}
				if testing.Verbose() {
					_ = r.WriteYAML(t.Output())
				}
				got, want := r.Model.Apply(sim.DefaultConfig()), tt.engine
				near := func(name string, got, want, tolerance float64) {
					t.Helper()
					if math.Abs(got/want-1) > tolerance {
						t.Errorf("%s: %v, want %v ± %.0f %%", name, got, want, 100*tolerance)
					}
				}
				near("step", got.Timing.Step.Seconds(), want.Timing.Step.Seconds(), 0.1)
				near("per_sequence", got.Timing.PerSequence.Seconds(), want.Timing.PerSequence.Seconds(), 0.1)
				near("request", got.Timing.Request.Seconds(), want.Timing.Request.Seconds(), 0.15)
				near("prefill", got.Timing.PrefillTokensPerSecond, want.Timing.PrefillTokensPerSecond, 0.1)
				near("attention", got.Timing.AttentionPairsPerSecond, want.Timing.AttentionPairsPerSecond, 0.15)
				near("kv_read", got.Timing.KVReadTokensPerSecond, want.Timing.KVReadTokensPerSecond, 0.15)
				near("max_num_batched_tokens", float64(got.MaxNumBatchedTokens), float64(want.MaxNumBatchedTokens), 0.001)
				near("max_model_len", float64(got.MaxModelLen), float64(want.MaxModelLen), 0.001)
				if got.PrefixCaching {
					near("block_size", float64(got.BlockSize), float64(want.BlockSize), 0.001)
				}
				near("token ratio", r.Model.TokenRatio, 1, 0.001)
				if got.PrefixCaching != want.PrefixCaching {
					t.Errorf("prefix caching: %v, want %v", got.PrefixCaching, want.PrefixCaching)
				}
				switch {
				case tt.slots && (r.Model.MaxNumSeqs == nil || *r.Model.MaxNumSeqs != want.MaxNumSeqs):
					t.Errorf("max_num_seqs: %v, want %d", r.Model.MaxNumSeqs, want.MaxNumSeqs)
				case !tt.slots && r.Model.MaxNumSeqs != nil:
					t.Errorf("max_num_seqs: %d, want unknown", *r.Model.MaxNumSeqs)
				}
				if r.Check == nil {
					t.Fatal("no check was made")
				}
				if off := math.Abs(r.Check.TTFT.Ratio()); off > 0.1 {
					t.Errorf("check: TTFT is off by %.2f", off)
				}
				if off := math.Abs(r.Check.Interval.Ratio()); off > 0.1 {
					t.Errorf("check: interval is off by %.2f", off)
				}
				if err := got.Validate(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
