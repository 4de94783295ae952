package discover_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmgw/llmgw/fleet/discover"
	"github.com/llmgw/llmgw/fleet/discover/discovertest"
)

// source lists what it is told to.
type source struct {
	mu      sync.Mutex
	listing discover.Listing // guarded by mu
	err     error            // guarded by mu
	takes   time.Duration    // guarded by mu
}

func (s *source) set(err error, takes time.Duration, candidates ...discover.Candidate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listing.Candidates, s.err, s.takes = candidates, err, takes
}

func (s *source) List(ctx context.Context) (discover.Listing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-ctx.Done():
		return discover.Listing{}, context.Cause(ctx)
	case <-time.After(s.takes):
	}
	return discover.Listing{Candidates: slices.Clone(s.listing.Candidates), Never: s.listing.Never}, s.err
}

// world is an agent with its surroundings, in a bubble.
type world struct {
	cfg     discover.Config
	source  *source
	engines *discovertest.Engines
	control *discovertest.ControlPlane
	log     *logged
	reg     *prometheus.Registry
	start   time.Time
}

// inWorld has an agent of these candidates run in a bubble while do goes on.
func inWorld(t *testing.T, candidates []discover.Candidate, change func(*world), do func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			cfg: discover.DefaultConfig(), source: &source{}, engines: &discovertest.Engines{},
			control: discovertest.NewControlPlane("sk-geheim"), log: &logged{}, reg: prometheus.NewRegistry(), start: time.Now(),
		}
		w.source.set(nil, 0, candidates...)
		if change != nil {
			change(w)
		}
		client, err := discover.NewClient(
			discover.ClientConfig{ControlURL: "https://control.example:7443", Token: "sk-geheim"},
			discover.ClientDeps{Transport: discovertest.Transport(w.control)},
		)
		if err != nil {
			t.Fatal(err)
		}
		agent, err := discover.New(w.cfg, discover.Deps{
			Sources: []discover.Source{w.source}, Registrar: client, Transport: w.engines, Random: rand.New(rand.NewPCG(1, 2)),
			Logger: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})), Registerer: w.reg,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- agent.Run(ctx) }()
		synctest.Wait()
		do(t, w)
		select {
		case err := <-ended:
			t.Fatalf("Run ended by itself: %v", err)
		default:
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// pass has time go on.
func (w *world) pass(d time.Duration) {
	time.Sleep(d) // in a bubble
	synctest.Wait()
}

func at(port int) discover.Candidate {
	return discover.Candidate{BaseURL: fmt.Sprintf("http://10.0.0.1:%d", port), Node: "gold", Prefix: []string{"gold"}, Origin: "port scan"}
}

const first = "http://10.0.0.1:8000"

func TestAgentRegisters(t *testing.T) {
	inWorld(t, []discover.Candidate{at(8000), at(8001), at(8002)}, func(w *world) {
		w.cfg.Engine = "vllm"
		w.engines.Set(first, discovertest.Models("nvidia/Qwen3.6-35B", "other"))
		w.engines.Set("http://10.0.0.1:8001", discovertest.Answer{Body: "<html>"})
	}, func(t *testing.T, w *world) {
		w.pass(time.Minute)
		// R-PRV-46: the first line within a minute, then one each interval.
		w.pass(9*time.Minute + 10*time.Second)
		got := w.control.Providers()
		if len(got) != 1 {
			t.Fatalf("registered %v", got)
		}
		want := discover.Registration{APIBase: first + "/v1", Node: "gold", Name: "gold-nvidia-qwen3.6-35b-8000", Engine: "vllm", TTLSeconds: 90}
		if diff := cmp.Diff(want, got[first].Registration); diff != "" {
			t.Error(diff)
		}
		if got[first].Lapses != 0 {
			t.Errorf("%d lapses", got[first].Lapses)
		}
		lines := w.log.lines("msg=registered", "provider=gold-nvidia-qwen3.6-35b-8000", "kind=dynamic leased=true")
		if n := len(got[first].Beats); n != 21 || len(lines) != n {
			t.Errorf("%d beats and %d lines in 610 s, want 21: one each 30 s", n, len(lines))
		}
		if since := got[first].Beats[0].Sub(w.start); since > time.Minute {
			t.Errorf("the first after %v", since)
		}
		// What is silent takes its deadline, and is looked at each minute.
		if n := w.engines.Asked("http://10.0.0.1:8002"); n != 11 {
			t.Errorf("looked %d times, want 11", n)
		}
		metrics := `
# HELP llmgw_discover_registrations_total Registrations of engines, by what came of it: ok, unauthorized, refused, unavailable.
# TYPE llmgw_discover_registrations_total counter
llmgw_discover_registrations_total{outcome="ok"} 21
# HELP llmgw_discover_probes_total Candidates that were asked for their models, by what came of it: engine, silent, locked, loading, no_engine, forbidden.
# TYPE llmgw_discover_probes_total counter
llmgw_discover_probes_total{outcome="engine"} 11
llmgw_discover_probes_total{outcome="no_engine"} 11
llmgw_discover_probes_total{outcome="silent"} 11
`
		if err := testutil.GatherAndCompare(w.reg, strings.NewReader(metrics), "llmgw_discover_registrations_total", "llmgw_discover_probes_total"); err != nil {
			t.Error(err)
		}
	})
}

// R-PRV-50: scans that take minutes let no lease lapse.
func TestSlowScanLetsNoLeaseLapse(t *testing.T) {
	var all []discover.Candidate
	for port := 8000; port < 9000; port++ {
		all = append(all, at(port))
	}
	inWorld(t, all, func(w *world) {
		w.engines.Set(first, discovertest.Models("m"))
	}, func(t *testing.T, w *world) {
		w.pass(30 * time.Minute)
		// 999 silent ones, 32 at once, 5 s each.
		if n := w.engines.Asked(first); n < 10 || n > 13 {
			t.Errorf("%d scans in 30m, want one each 160 s", n)
		}
		p := w.control.Providers()[first]
		if p.Lapses != 0 || len(p.Beats) < 50 {
			t.Errorf("%d lapses, %d beats", p.Lapses, len(p.Beats))
		}
		for i := 1; i < len(p.Beats); i++ {
			if gap := p.Beats[i].Sub(p.Beats[i-1]); gap != 30*time.Second {
				t.Fatalf("beat %d came after %v", i, gap)
			}
		}
		if w.engines.AtOnce() != 32 {
			t.Errorf("%d at once, want 32", w.engines.AtOnce())
		}
	})
}

// R-DSC-25: 330 candidates, half of them silent, with the defaults.
func TestManyCandidates(t *testing.T) {
	var all []discover.Candidate
	for port := range 330 {
		all = append(all, at(8000+port))
	}
	tests := []struct {
		name  string
		fails time.Duration
		want  time.Duration
	}{
		{"take no connection", discover.DefaultConfig().Probe.DialTimeout, 13 * time.Second},
		// Six rounds of 5 s, in which the others go along.
		{"take one and say nothing", 0, 31 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, all, func(w *world) {
				w.engines.FailAfter(tt.fails)
				for i, c := range all {
					if i%2 == 0 {
						a := discovertest.Models("m")
						a.Takes = 20 * time.Millisecond
						w.engines.Set(c.BaseURL, a)
					}
				}
			}, func(t *testing.T, w *world) {
				w.pass(tt.want)
				got := w.control.Providers()
				if len(got) != 165 {
					t.Fatalf("%d registered after %v, want 165", len(got), tt.want)
				}
				t.Logf("registered after %v", got[first].Beats[0].Sub(w.start))
				w.pass(10 * time.Minute)
				for base, p := range w.control.Providers() {
					if p.Lapses != 0 {
						t.Errorf("%s: %d lapses", base, p.Lapses)
					}
				}
			})
		})
	}
}

// R-PRV-43: what loads for ten minutes is looked at until it serves.
func TestLoadingModelIsWaitedFor(t *testing.T) {
	inWorld(t, []discover.Candidate{at(8000)}, nil, func(t *testing.T, w *world) {
		w.pass(5 * time.Minute)
		w.engines.Set(first, discovertest.Answer{Status: 503})
		w.pass(5 * time.Minute)
		w.engines.Set(first, discovertest.Models()) // serves nothing
		w.pass(5 * time.Minute)
		if n := w.control.Requests(); n != 0 {
			t.Fatalf("%d registrations of what serves nothing", n)
		}
		if n := len(w.log.lines("no engine answers yet")); n != 1 {
			t.Errorf("that nothing answers is said %d times", n)
		}
		w.engines.Set(first, discovertest.Models("m"))
		w.pass(time.Minute + time.Second)
		if len(w.control.Providers()) != 1 {
			t.Error("not registered within a scan")
		}
	})
}

// What is gone is not renewed; what comes back is.
func TestGoneIsNotRenewed(t *testing.T) {
	inWorld(t, []discover.Candidate{at(8000), at(8001)}, func(w *world) {
		w.engines.Set(first, discovertest.Models("m"))
		w.engines.Set("http://10.0.0.1:8001", discovertest.Models("m"))
	}, func(t *testing.T, w *world) {
		w.pass(95 * time.Second)
		w.engines.Remove(first)
		w.pass(60 * time.Second) // a scan, and its deadline
		before := len(w.control.Providers()[first].Beats)
		w.pass(10 * time.Minute)
		if after := len(w.control.Providers()[first].Beats); after != before {
			t.Errorf("renewed %d times after it was gone", after-before)
		}
		if w.control.Providers()["http://10.0.0.1:8001"].Lapses != 0 || len(w.log.lines("engine gone", first)) != 1 {
			t.Error("the other one suffers, or nothing is said")
		}
		w.engines.Set(first, discovertest.Models("m"))
		w.pass(time.Minute + time.Second)
		if after := len(w.control.Providers()[first].Beats); after == before {
			t.Error("not registered again")
		}
	})
}

// One scan that an engine misses, e.g. while it is busy, does not end its lease.
func TestOneMissKeepsTheLease(t *testing.T) {
	inWorld(t, []discover.Candidate{at(8000)}, func(w *world) {
		w.engines.Set(first, discovertest.Models("m"))
	}, func(t *testing.T, w *world) {
		for range 10 {
			w.pass(61 * time.Second)
			w.engines.Remove(first)
			w.pass(59 * time.Second)
			w.engines.Set(first, discovertest.Models("m"))
		}
		if p := w.control.Providers()[first]; p.Lapses != 0 {
			t.Errorf("%d lapses", p.Lapses)
		}
	})
}

// A changed model changes the name, on the next heartbeat.
func TestRenames(t *testing.T) {
	inWorld(t, []discover.Candidate{at(8000)}, func(w *world) {
		w.engines.Set(first, discovertest.Models("a"))
	}, func(t *testing.T, w *world) {
		w.pass(time.Minute - time.Second)
		w.engines.Set(first, discovertest.Models("b"))
		w.pass(31 * time.Second)
		if p := w.control.Providers()[first]; p.Name != "gold-b-8000" || len(p.Beats) < 3 {
			t.Errorf("%+v", p)
		}
		if len(w.log.lines("engine changed", "before=gold-a-8000", "provider=gold-b-8000")) != 1 {
			t.Error("nothing is said")
		}
	})
}

// Nothing that a control plane does ends the agent, and it is left alone more and
// more.
func TestRegistrationFails(t *testing.T) {
	tests := []struct {
		name  string
		fault discovertest.Fault
		in10m [2]int // requests, from and to
		back  time.Duration
	}{
		{"unknown key", discovertest.Fault{Status: 401}, [2]int{8, 14}, 5 * time.Minute},
		{"broken", discovertest.Fault{Status: 500}, [2]int{20, 50}, 31 * time.Second},
		{"busy", discovertest.Fault{Status: 429, RetryAfter: "120"}, [2]int{5, 6}, 121 * time.Second},
		{"away for a year", discovertest.Fault{Status: 503, RetryAfter: "60000"}, [2]int{2, 3}, 5 * time.Minute},
		{"refuses", discovertest.Fault{Status: 422}, [2]int{20, 41}, 31 * time.Second},
		{"redirects", discovertest.Fault{Status: 302}, [2]int{20, 50}, 31 * time.Second},
		{"hangs", discovertest.Fault{Hang: true}, [2]int{15, 35}, 41 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, []discover.Candidate{at(8000)}, func(w *world) {
				w.engines.Set(first, discovertest.Models("m"))
				w.control.SetFault(func(int) discovertest.Fault { return tt.fault })
			}, func(t *testing.T, w *world) {
				w.pass(10 * time.Minute)
				if n := w.control.Requests(); n < tt.in10m[0] || n > tt.in10m[1] {
					t.Errorf("%d requests in 10m, want %v", n, tt.in10m)
				}
				if n := len(w.log.lines("registration failed", "level=WARN", "retry_in=")); n != w.control.Requests() && n != w.control.Requests()-1 {
					t.Errorf("%d of %d failures are said", n, w.control.Requests())
				}
				w.control.SetFault(nil)
				w.pass(tt.back)
				if len(w.control.Providers()) != 1 {
					t.Errorf("not back after %v", tt.back)
				}
				w.pass(time.Minute)
				if n := len(w.control.Providers()[first].Beats); n < 2 {
					t.Errorf("%d beats", n)
				}
				if len(w.log.lines("geheim")) != 0 {
					t.Error("the log holds the token")
				}
			})
		})
	}
}

// One failure does not let a lease lapse.
func TestOneFailureKeepsTheLease(t *testing.T) {
	inWorld(t, []discover.Candidate{at(8000)}, func(w *world) {
		w.engines.Set(first, discovertest.Models("m"))
		w.control.SetFault(func(n int) discovertest.Fault {
			switch n % 3 {
			case 0:
				return discovertest.Fault{Status: 502}
			case 1:
				return discovertest.Fault{Hang: n > 1}
			}
			return discovertest.Fault{}
		})
	}, func(t *testing.T, w *world) {
		w.pass(time.Hour)
		if p := w.control.Providers()[first]; p.Lapses != 0 || len(p.Beats) < 60 {
			t.Errorf("%d lapses, %d beats", p.Lapses, len(p.Beats))
		}
	})
}

// R-PRV-12: what an operator added stays as it is, and every line says so.
func TestStatic(t *testing.T) {
	inWorld(t, []discover.Candidate{at(8000)}, func(w *world) {
		w.engines.Set(first, discovertest.Models("m"))
		w.control.AddStatic(first, "mine")
	}, func(t *testing.T, w *world) {
		w.pass(5 * time.Minute)
		if n := len(w.log.lines("msg=registered", "provider=mine", "kind=static leased=false")); n < 10 || n != len(w.log.lines("msg=registered")) {
			t.Errorf("%d lines say it", n)
		}
	})
}

// A name that is taken is a warning, said once.
func TestTakenName(t *testing.T) {
	inWorld(t, []discover.Candidate{at(8000)}, func(w *world) {
		w.engines.Set(first, discovertest.Models("m"))
		other, err := discover.NewClient(discover.ClientConfig{ControlURL: "https://control.example", Token: "sk-geheim"}, discover.ClientDeps{Transport: discovertest.Transport(w.control)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Register(t.Context(), discover.Registration{APIBase: "http://10.0.0.2:8000", Name: "gold-m-8000", TTLSeconds: 90}); err != nil {
			t.Fatal(err)
		}
	}, func(t *testing.T, w *world) {
		w.pass(5 * time.Minute)
		if n := len(w.log.lines("the control plane warns", "asked=gold-m-8000")); n != 1 {
			t.Errorf("said %d times", n)
		}
		if n := len(w.control.Providers()[first].Beats); n < 10 {
			t.Errorf("%d beats", n)
		}
	})
}

// A source that fails is not one that has nothing.
func TestSourceFails(t *testing.T) {
	inWorld(t, []discover.Candidate{at(8000), at(8001)}, func(w *world) {
		w.engines.Set(first, discovertest.Models("m"))
		w.engines.Set("http://10.0.0.1:8001", discovertest.Models("m"))
	}, func(t *testing.T, w *world) {
		w.pass(30 * time.Second)
		w.source.set(errors.New("API server is away"), 0)
		w.pass(5 * time.Minute)
		w.source.set(nil, time.Hour) // hangs until its deadline
		w.pass(5 * time.Minute)
		for base, p := range w.control.Providers() {
			if p.Lapses != 0 || len(p.Beats) < 20 {
				t.Errorf("%s: %d lapses, %d beats", base, p.Lapses, len(p.Beats))
			}
		}
		if n := len(w.log.lines("candidates cannot be listed")); n < 7 {
			t.Errorf("said %d times", n)
		}
		// What was listed before is asked, not believed.
		w.engines.Remove(first)
		w.pass(3 * time.Minute)
		before := len(w.control.Providers()[first].Beats)
		w.pass(3 * time.Minute)
		if after := len(w.control.Providers()[first].Beats); after != before {
			t.Error("renewed though it is gone")
		}
	})
}

func TestScannerChooses(t *testing.T) {
	cand := func(base, backend string) discover.Candidate {
		return discover.Candidate{BaseURL: base, Backend: backend, Prefix: []string{"prod"}}
	}
	tests := []struct {
		name       string
		candidates []discover.Candidate
		never      []netip.Prefix
		change     func(*discover.Config)
		answer     []string
		want       []string
	}{
		{"one address twice", []discover.Candidate{cand("http://10.0.0.1:8000", ""), cand("HTTP://10.0.0.1:8000/v1/", "")}, nil, nil, []string{"http://10.0.0.1:8000"}, []string{"http://10.0.0.1:8000"}},
		{"one backend, the first", []discover.Candidate{cand("http://10.0.0.1:8000", "x"), cand("http://10.0.0.1:30000", "x")}, nil, nil, []string{"http://10.0.0.1:8000", "http://10.0.0.1:30000"}, []string{"http://10.0.0.1:8000"}},
		{"one backend, what answers", []discover.Candidate{cand("http://10.0.0.1:8000", "x"), cand("http://10.0.0.1:30000", "x")}, nil, nil, []string{"http://10.0.0.1:30000"}, []string{"http://10.0.0.1:30000"}},
		{"unknown backends are several", []discover.Candidate{cand("http://10.0.0.1:8000", ""), cand("http://10.0.0.1:8001", "")}, nil, nil, []string{"http://10.0.0.1:8000", "http://10.0.0.1:8001"}, []string{"http://10.0.0.1:8000", "http://10.0.0.1:8001"}},
		{"pods and the loopback", []discover.Candidate{cand("http://10.244.0.5:8000", ""), cand("http://127.0.0.1:8000", ""), cand("http://169.254.169.254", "")}, networks("10.244.0.0/24"), nil, []string{"http://10.244.0.5:8000", "http://127.0.0.1:8000", "http://169.254.169.254"}, nil},
		{"the loopback, if it is allowed", []discover.Candidate{cand("http://127.0.0.1:8000", "")}, nil, func(c *discover.Config) { c.Allow = networks("127.0.0.0/8") }, []string{"http://127.0.0.1:8000"}, []string{"http://127.0.0.1:8000"}},
		{"no address", []discover.Candidate{cand("ftp://10.0.0.1", ""), cand("http://10.0.0.1:8000", "")}, nil, nil, []string{"http://10.0.0.1:8000"}, []string{"http://10.0.0.1:8000"}},
		{"too many", []discover.Candidate{cand("http://10.0.0.1:8000", ""), cand("http://10.0.0.1:8001", "")}, nil, func(c *discover.Config) { c.MaxCandidates = 1 }, []string{"http://10.0.0.1:8000", "http://10.0.0.1:8001"}, []string{"http://10.0.0.1:8000"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := discover.DefaultConfig()
				if tt.change != nil {
					tt.change(&cfg)
				}
				src, engines := &source{}, &discovertest.Engines{}
				src.set(nil, 0, tt.candidates...)
				src.listing.Never = tt.never
				for _, base := range tt.answer {
					engines.Set(base, discovertest.Models("m"))
				}
				// A second source forbids for the first, too, and names nothing.
				s, err := discover.NewScanner(cfg, discover.ScannerDeps{Sources: []discover.Source{discover.PortScan{}, src}, Transport: engines})
				if err != nil {
					t.Fatal(err)
				}
				found, err := s.Scan(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, f := range found {
					got = append(got, f.BaseURL)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestGivenName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := discover.DefaultConfig()
		cfg.Name = "mine"
		src, engines, log := &source{}, &discovertest.Engines{}, &logged{}
		src.set(nil, 0, at(8000), at(8001))
		engines.Set(first, discovertest.Models("m"))
		s, err := discover.NewScanner(cfg, discover.ScannerDeps{Sources: []discover.Source{src}, Transport: engines, Logger: slog.New(slog.NewTextHandler(log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		if found, err := s.Scan(t.Context()); err != nil || len(found) != 1 || found[0].Name != "mine" {
			t.Errorf("%+v, %v", found, err)
		}
		engines.Set("http://10.0.0.1:8001", discovertest.Models("m"))
		if found, err := s.Scan(t.Context()); err != nil || len(found) != 2 || found[0].Name != "gold-m-8000" || len(log.lines("the name is for one engine")) != 1 {
			t.Errorf("%+v, %v", found, err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		cancel(why)
		if _, err := s.Scan(ctx); !errors.Is(err, why) {
			t.Errorf("a scan that was cancelled: %v", err)
		}
	})
}
