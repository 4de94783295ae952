package sim_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/enginetest"
	"github.com/llmgw/llmgw/engines/exposition"
	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/engines/sim/gang"
	"github.com/llmgw/llmgw/engines/sim/simtest"
)

func TestAdapter(t *testing.T) { enginetest.Run(t, sim.Adapter{}) }

// Whoever has the command itself starts itself.
func TestAdapterExecutable(t *testing.T) {
	shard := engines.Shard{
		Profile: engines.Profile{Engine: engines.Sim, ServedNames: []string{"m"}, CPU: true},
		Bind:    "127.0.0.1", Dir: "/run/shard", Ports: map[string]int{engines.PortHTTP: 8000},
	}
	for profile, want := range map[string]string{"": "/usr/bin/llmgw", "/opt/llmgw": "/opt/llmgw"} {
		shard.Profile.Executable = profile
		l, err := sim.Adapter{Executable: "/usr/bin/llmgw"}.Launch(t.Context(), shard)
		if err != nil || l.Engine.Executable != want {
			t.Errorf("profile %q starts %q, %v; want %q", profile, l.Engine.Executable, err, want)
		}
	}
}

// The engine's page tells everything that its contract names.
func TestContract(t *testing.T) {
	page := call(t, newEngine(t, sim.InstantConfig()), "GET", "/metrics", "").Body.Bytes()
	load, err := exposition.Read(page, sim.Metrics())
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]engines.Reading{
		"running": load.Running, "waiting": load.Waiting, "KV": load.KVUsedRatio, "queries": load.PrefixQueryTokens,
		"hits": load.PrefixHitTokens, "preemptions": load.Preemptions, "capacity": load.KVCapacityTokens,
	} {
		if _, known := r.Get(); !known {
			t.Errorf("%s is unknown", name)
		}
	}
}

// meant returns the phases and reasons that the rules see in a log, each once
// where it repeats.
func meant(t *testing.T, log string) (out []string) {
	t.Helper()
	l, err := sim.Adapter{}.Launch(t.Context(), engines.Shard{
		Profile: engines.Profile{Engine: engines.Sim, ServedNames: []string{"m"}, CPU: true},
		Bind:    "127.0.0.1", Dir: "/run/shard", Ports: map[string]int{engines.PortHTTP: 8000},
	})
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(log) {
		for _, r := range l.Logs {
			m := regexp.MustCompile(r.Match).FindStringSubmatchIndex(strings.TrimSuffix(line, "\n"))
			if m == nil {
				continue
			}
			out = append(out, r.Phase.String()+": "+string(regexp.MustCompile(r.Match).ExpandString(nil, r.Reason, line, m)))
			break
		}
	}
	return out
}

// What a rank logs from its first line to its last is understood.
func TestLogRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		cfg := sim.InstantConfig()
		cfg.LoadTime = 4 * time.Second
		e, err := sim.New(cfg, sim.Deps{Logger: logger})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		var network simtest.Network
		ln, err := network.Listen("leader:29500")
		if err != nil {
			t.Fatal(err)
		}
		var workers [2]*gang.Session
		for rank := range 2 {
			go func() {
				time.Sleep(time.Duration(rank) * time.Second)
				s, err := gang.Join(t.Context(), gang.Member{Ranks: 3, Rank: rank + 1}, func(ctx context.Context) (net.Conn, error) {
					return network.Dial(ctx, "tcp", "leader:29500")
				}, gang.Options{})
				if err != nil {
					t.Error(err)
				}
				workers[rank] = s
			}()
		}
		leader, err := gang.Lead(t.Context(), gang.Member{Ranks: 3}, ln, gang.Options{Logger: logger})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		workers[0].Close()
		<-leader.Done()
		log.WriteString("llmgw: " + leader.Err().Error() + "\n")
		leader.Close()
		workers[1].Close()

		want := []string{
			"rendezvous: waits for ranks 1, 2", "rendezvous: waits for ranks 2",
			"loading: all ranks are there", "loading: ",
			"loading: weights: 25%", "loading: weights: 50%", "loading: weights: 75%", "loading: weights: 100%",
			"loading: weights read in 3.00 s", "warming: the KV cache has room for 409600 tokens", "warming: warmed up in 1.00 s",
			"failed: a rank is lost: rank 1 closed its connection",
		}
		if got := meant(t, log.String()); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

func TestLogRulesOfFailures(t *testing.T) {
	for line, want := range map[string]string{
		"llmgw: sim: torch.OutOfMemoryError: CUDA out of memory, as faults.fail_load asks":                                                                                      "failed: the model does not fit on the card",
		"llmgw: sim: to serve at least one request with the model's max seq len (8) more KV cache is needed, as faults.fail_load asks; the estimated maximum model length is 4": "failed: the KV cache has no room for one request of the whole context",
		"llmgw: gang: refused by the leader: this is generation 7, not 6":                                                                                                       "failed: the leader refused the rank: this is generation 7, not 6",
		"llmgw: gang: ranks are missing: 1, 3 of 4 have not joined: waited for 10m0s":                                                                                           "failed: ranks 1, 3 have not joined",
		"llmgw: gang: ranks are missing: the leader was not reached (nobody listens there): waited for 1s":                                                                      "failed: the gang has not gathered: the leader was not reached (nobody listens there): waited for 1s",
		"llmgw: sim: listen tcp 127.0.0.1:1: bind: address already in use; choose another port with --listen, 0 takes a free one":                                               "failed: the port is taken",
		"llmgw: sim: crashed, as faults.crash_after asks":                                                                                                                       "failed: the engine crashed",
		"llmgw: unknown flag --colour": "failed: unknown flag --colour",
		`time=2026-11-30T08:04:24Z level=INFO msg="Waiting for the leader" err="connection refused"`:                "rendezvous: looks for the leader",
		`time=2026-11-30T08:04:24Z level=WARN msg="A rank has left before all were there" rank=2 err=EOF missing=2`: "rendezvous: waits for ranks 2",
		"A simulated engine serves m at http://127.0.0.1:8000":                                                      "listening: ",
		`time=2026-11-30T08:04:24Z level=INFO msg="[shutdown] told to end" signal=terminated`:                       "stopping: finishes what runs",
	} {
		if got := meant(t, line); len(got) != 1 || got[0] != want {
			t.Errorf("%s\nmeans %q; want %q", line, got, want)
		}
	}
}
