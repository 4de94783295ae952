package kvevents_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmgw/llmgw/engines/kvevents"
)

// follow runs a subscriber of e in the bubble until the test's end.
func follow(t *testing.T, e *engine, replay bool, edit func(*kvevents.Config, *kvevents.Deps)) (*kvevents.Subscriber, *record) {
	t.Helper()
	cfg := kvevents.DefaultConfig()
	cfg.Endpoint = "tcp://10.0.0.7:5557"
	if replay {
		cfg.ReplayEndpoint = "tcp://10.0.0.7:5558"
	}
	r := new(record)
	deps := kvevents.Deps{Handler: r, Dial: e.dial}
	if edit != nil {
		edit(&cfg, &deps)
	}
	s, err := kvevents.New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		e.serving.Wait()
	})
	synctest.Wait()
	return s, r
}

// again lets the subscriber connect again after its pause.
func again() {
	time.Sleep(time.Second) // virtual
	synctest.Wait()
}

func TestSubscriber(t *testing.T) {
	tests := []struct {
		name     string
		noReplay bool
		kept     []batch // what replay has when the subscriber comes
		run      func(e *engine)
		want     string // sequences, ' for those of another process, and resets
		asked    []uint64
		complete bool
	}{
		{"in order", true, nil, func(e *engine) { e.send(span(0, 0, 3)...) }, "0 1 2 3", nil, true},
		{"in the middle", true, nil, func(e *engine) { e.send(span(0, 5, 6)...) }, "5 6", nil, false},
		{
			"in the middle, filled", false, span(0, 0, 4), func(e *engine) { e.send(batch{5, 0}) },
			"0 1 2 3 4 5",
			[]uint64{0},
			true,
		},
		{
			"in the middle, partly filled", false, span(0, 3, 4), func(e *engine) { e.send(batch{5, 0}) },
			"3 4 5",
			[]uint64{0},
			false,
		},
		{"gap", true, nil, func(e *engine) { e.send(batch{0, 0}, batch{3, 0}, batch{4, 0}) }, "0 gap 3 4", nil, false},
		{"gap, filled", false, nil, func(e *engine) {
			e.set(span(0, 0, 3))
			e.send(batch{0, 0}, batch{3, 0}, batch{4, 0})
		}, "0 1 2 3 4", []uint64{0, 1}, true},
		{"gap, replay has not the newest", false, nil, func(e *engine) {
			e.set(span(0, 0, 2))
			e.send(batch{0, 0}, batch{3, 0}, batch{4, 0})
		}, "0 1 2 3 4", []uint64{0, 1}, true},
		{"gap, replay runs ahead", false, nil, func(e *engine) {
			e.set(span(0, 0, 6))
			e.send(batch{0, 0}, batch{3, 0})
			e.send(span(0, 4, 7)...)
		}, "0 1 2 3 4 5 6 7", []uint64{0, 1}, true},
		{"gap, replay too old", false, nil, func(e *engine) {
			e.set(span(0, 3, 5))
			e.send(batch{0, 0}, batch{5, 0}, batch{6, 0})
		}, "0 too_old 3 4 5 6", []uint64{0, 1}, false},
		{"gap, replay has a hole", false, nil, func(e *engine) {
			e.set([]batch{{1, 0}, {3, 0}})
			e.send(batch{0, 0}, batch{4, 0})
		}, "0 1 gap 3 4", []uint64{0, 1}, false},
		{"gap, replay stops short", false, nil, func(e *engine) {
			e.set(span(0, 1, 1))
			e.send(batch{0, 0}, batch{4, 0})
		}, "0 1 gap 4", []uint64{0, 1}, false},
		{"gap, replay hangs", false, nil, func(e *engine) {
			e.set(span(0, 1, 1))
			e.hang = true
			e.send(batch{0, 0}, batch{4, 0})
			time.Sleep(10 * time.Second) // virtual; the replay's timeout is 5 s
			synctest.Wait()
		}, "0 1 gap 4", []uint64{0, 1}, false},
		{"gap, replay says the same for ever", false, nil, func(e *engine) {
			e.set(span(0, 1, 1))
			e.more = func(last int64) (int64, time.Duration) { return last, 0 }
			e.send(batch{0, 0}, batch{4, 0}, batch{5, 0})
		}, "0 1 gap 4 5", []uint64{0, 1}, false},
		{"gap, replay counts on for ever", false, nil, func(e *engine) {
			e.set(span(0, 1, 1))
			e.more = func(last int64) (int64, time.Duration) { return last + 1, 4 * time.Second }
			e.send(batch{0, 0}, batch{4, 0})
			time.Sleep(time.Minute) // virtual; ten times the replay's timeout is less
			synctest.Wait()
			e.send(span(0, 5, 15)...)
		}, "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15", []uint64{0, 1}, true},
		{"numbers begin again on one connection", false, nil, func(e *engine) {
			e.send(span(0, 0, 2)...)
			e.set(span(1, 0, 1))
			e.send(batch{1, 1}, batch{2, 1})
		}, "0 1 2 restart 0' 1' 2'", []uint64{0, 0}, true},
		{"an event that cannot be read", true, nil, func(e *engine) {
			e.send(batch{0, 0})
			e.raw(nil, number8(1), []byte{0x93, 1})
			e.send(batch{2, 0})
		}, "0 malformed 2", nil, false},
		{"no batch", true, nil, func(e *engine) {
			e.send(batch{0, 0})
			e.raw([]byte("what"))
			e.raw(nil, number8(-1), nil)
			e.raw(nil, []byte{1}, nil)
			e.send(batch{1, 0})
		}, "0 malformed malformed malformed 1", nil, false},
		{"connection lost", true, nil, func(e *engine) {
			e.send(span(0, 0, 1)...)
			e.kick()
			again()
			e.send(span(0, 2, 3)...)
		}, "0 1 disconnected 2 3", nil, false},
		{"connection lost, filled", false, nil, func(e *engine) {
			e.send(span(0, 0, 1)...)
			e.set(span(0, 0, 3))
			e.kick()
			again()
			e.send(batch{4, 0})
		}, "0 1 2 3 4", []uint64{0, 1}, true},
		{"connection lost, nothing new", false, nil, func(e *engine) {
			e.send(span(0, 0, 1)...)
			e.set(span(0, 0, 1))
			e.kick()
			again()
			e.send(batch{2, 0})
		}, "0 1 2", []uint64{0, 1}, true},
		{"connection lost, replay gone too", false, nil, func(e *engine) {
			e.send(span(0, 0, 1)...)
			e.hang = true
			e.kick()
			time.Sleep(10 * time.Second) // virtual
			synctest.Wait()
			e.send(batch{2, 0})
			time.Sleep(10 * time.Second)
			synctest.Wait()
		}, "0 1 gap 2", []uint64{0, 1, 0}, false},
		{"connection lost, replay too old", false, nil, func(e *engine) {
			e.send(span(0, 0, 1)...)
			e.set(span(0, 2, 3))
			e.kick()
			again()
			e.send(batch{4, 0})
		}, "0 1 too_old 2 3 4", []uint64{0, 1}, false},
		{"restarted, has told nothing yet", false, nil, func(e *engine) {
			e.send(span(0, 0, 1)...)
			e.kick()
			again()
			e.send(batch{0, 1})
		}, "0 1 restart 0'", []uint64{0, 1, 0}, true},
		{"restarted, has told less", false, nil, func(e *engine) {
			e.send(span(0, 0, 3)...)
			e.set(span(1, 0, 1))
			e.kick()
			again()
			e.send(batch{2, 1})
		}, "0 1 2 3 restart 0' 1' 2'", []uint64{0, 3, 0}, true},
		{"restarted, has told more", false, nil, func(e *engine) {
			e.send(span(0, 0, 1)...)
			e.set(span(1, 0, 3))
			e.kick()
			again()
			e.send(batch{4, 1})
		}, "0 1 restart 0' 1' 2' 3' 4'", []uint64{0, 1, 0}, true},
		{"restarted without replay", true, nil, func(e *engine) {
			e.send(span(0, 0, 3)...)
			e.kick()
			again()
			e.send(span(1, 0, 1)...)
		}, "0 1 2 3 disconnected 0' 1'", nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &engine{t: t, kept: tt.kept}
				s, r := follow(t, e, !tt.noReplay, nil)
				tt.run(e)
				if got := r.String(); got != tt.want {
					t.Errorf("handler was told\n%s, want\n%s", got, tt.want)
				}
				e.mu.Lock()
				defer e.mu.Unlock()
				if !slices.Equal(e.asked, tt.asked) {
					t.Errorf("replay was asked for %v, want %v", e.asked, tt.asked)
				}
				if st := s.Status(0); !st.Connected || st.Complete != tt.complete {
					t.Errorf("status %+v, want connected, complete %v", st, tt.complete)
				}
			})
		})
	}
}

// A clear makes what is known whole again.
func TestSubscriberClearedIsComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{t: t}
		s, r := follow(t, e, false, nil)
		e.send(batch{7, 0})
		if s.Status(0).Complete {
			t.Error("complete in the middle")
		}
		e.raw([]byte("t"), number8(8), kvevents.Append(nil, &kvevents.Batch{
			EngineRank: 2, Events: []kvevents.Event{{Kind: kvevents.KindCleared}},
		}, kvevents.Map))
		if st := s.Status(0); !st.Complete || st.Sequence != 8 {
			t.Errorf("status %+v after a clear", st)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.last.Topic != "t" || r.last.EngineRank != 2 {
			t.Errorf("batch %+v", r.last)
		}
	})
}

// While an engine is away it is tried again, ever more rarely, and its loss shows.
func TestSubscriberConnectsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{t: t}
		var dials atomic.Int32
		s, r := follow(t, e, false, func(_ *kvevents.Config, d *kvevents.Deps) {
			dial := d.Dial
			d.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				dials.Add(1)
				return dial(ctx, network, address)
			}
		})
		e.send(batch{0, 0})
		e.mu.Lock()
		e.refuse = true
		e.mu.Unlock()
		e.kick()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if s.Status(0).Connected {
			t.Error("connected to an engine that refuses")
		}
		if n := dials.Load(); n < 100 || n > 200 { // every 5 s, give or take a quarter
			t.Errorf("%d tries in 10 minutes", n)
		}
		e.mu.Lock()
		e.refuse = false
		e.mu.Unlock()
		time.Sleep(7 * time.Second)
		synctest.Wait()
		e.send(batch{1, 0})
		if got := r.String(); got != "0 disconnected 1" {
			t.Errorf("handler was told %s", got)
		}
	})
}

// Ranks have ports and sequences of their own.
func TestSubscriberRanks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engines := []*engine{{t: t}, {t: t}, {t: t}}
		_, r := follow(t, engines[0], false, func(c *kvevents.Config, d *kvevents.Deps) {
			c.Ranks = 3
			d.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				i := slices.Index([]string{"10.0.0.7:5557", "10.0.0.7:5558", "10.0.0.7:5559"}, address)
				return engines[i].dial(ctx, network, "x:5557")
			}
		})
		t.Cleanup(func() {
			for _, e := range engines {
				e.serving.Wait()
			}
		})
		engines[0].send(batch{0, 0})
		engines[2].send(batch{0, 0})
		engines[1].send(batch{0, 0}, batch{1, 0})
		engines[0].send(batch{1, 0})
		if got, want := r.String(), "0 2:0 1:0 1:1 1"; got != want {
			t.Errorf("handler was told %s, want %s", got, want)
		}
	})
}

// Subscribers share the metrics of a registerer.
func TestSubscriberMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		with := func(_ *kvevents.Config, d *kvevents.Deps) { d.Registerer = reg }
		first, second := &engine{t: t}, &engine{t: t}
		follow(t, first, true, with)
		follow(t, second, false, with)
		first.send(batch{0, 0}, batch{2, 0})
		second.send(batch{0, 0})
		second.raw(nil, number8(1), []byte{1})
		err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP llmgw_kvevents_batches_total Batches of KV-cache events that were applied or could not be read.
# TYPE llmgw_kvevents_batches_total counter
llmgw_kvevents_batches_total 4
# HELP llmgw_kvevents_connected Engines and ranks whose KV events are being followed.
# TYPE llmgw_kvevents_connected gauge
llmgw_kvevents_connected 2
# HELP llmgw_kvevents_events_total Events that engines told of their KV caches.
# TYPE llmgw_kvevents_events_total counter
llmgw_kvevents_events_total{kind="cleared"} 0
llmgw_kvevents_events_total{kind="removed"} 3
llmgw_kvevents_events_total{kind="stored"} 0
llmgw_kvevents_events_total{kind="unknown"} 0
# HELP llmgw_kvevents_replays_total Requests to engines for batches that were missed, by how they ended.
# TYPE llmgw_kvevents_replays_total counter
llmgw_kvevents_replays_total{outcome="failed"} 0
llmgw_kvevents_replays_total{outcome="filled"} 2
llmgw_kvevents_replays_total{outcome="too_old"} 0
# HELP llmgw_kvevents_resets_total Times that what was learned of an engine's KV cache was void.
# TYPE llmgw_kvevents_resets_total counter
llmgw_kvevents_resets_total{reason="disconnected"} 0
llmgw_kvevents_resets_total{reason="gap"} 1
llmgw_kvevents_resets_total{reason="malformed"} 1
llmgw_kvevents_resets_total{reason="restart"} 0
llmgw_kvevents_resets_total{reason="too_old"} 0
`), "llmgw_kvevents_batches_total", "llmgw_kvevents_connected", "llmgw_kvevents_events_total",
			"llmgw_kvevents_replays_total", "llmgw_kvevents_resets_total")
		if err != nil {
			t.Error(err)
		}
	})
}

func TestConfigValidate(t *testing.T) {
	tests := []struct {
		name string
		edit func(*kvevents.Config)
		want string // "" for none
	}{
		{"default with an endpoint", func(*kvevents.Config) {}, ""},
		{"IPv6", func(c *kvevents.Config) { c.Endpoint = "tcp://[::1]:5557" }, ""},
		{"none", func(c *kvevents.Config) { c.Endpoint = "" }, `endpoint: "" is no TCP endpoint; want tcp://HOST:PORT`},
		{"ipc", func(c *kvevents.Config) { c.Endpoint = "ipc:///x" }, `endpoint: "ipc:///x" is no TCP endpoint`},
		{"no port", func(c *kvevents.Config) { c.Endpoint = "tcp://a" }, "missing port"},
		{"port 0", func(c *kvevents.Config) { c.Endpoint = "tcp://a:0" }, "has port 0"},
		{"bad port", func(c *kvevents.Config) { c.Endpoint = "tcp://a:99999" }, `has the port "99999"`},
		{"wildcard", func(c *kvevents.Config) { c.Endpoint = "tcp://*:5557" }, "has a wildcard for its host"},
		{"replay", func(c *kvevents.Config) { c.ReplayEndpoint = "a:1" }, `replay_endpoint: "a:1"`},
		{"ranks beyond the ports", func(c *kvevents.Config) { c.Endpoint = "tcp://a:65000"; c.Ranks = 1000 }, "leaves no ports for 1000 ranks"},
		{"no rank", func(c *kvevents.Config) { c.Ranks = 0 }, "data_parallel_size: 0 is out of range"},
		{"topic", func(c *kvevents.Config) { c.Topic = strings.Repeat("x", 256) }, "topic: 256 bytes"},
		{"connect timeout", func(c *kvevents.Config) { c.ConnectTimeout = 0 }, "connect_timeout: 0s is not positive"},
		{"replay timeout", func(c *kvevents.Config) { c.ReplayTimeout = -1 }, "replay_timeout: -1ns is not positive"},
		{"backoff", func(c *kvevents.Config) { c.MinBackoff = 0 }, "min_backoff: 0s is not positive"},
		{"max backoff", func(c *kvevents.Config) { c.MaxBackoff = 1 }, "max_backoff: 1ns is less than min_backoff"},
		{"message", func(c *kvevents.Config) { c.MaxMessageBytes = 1 }, "max_message_bytes: 1 is out of range"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := kvevents.DefaultConfig()
			cfg.Endpoint = "tcp://engine:5557"
			tt.edit(&cfg)
			err := cfg.Validate()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("Validate: %v, want %q", err, tt.want)
			}
			if _, err2 := kvevents.New(cfg, kvevents.Deps{Handler: new(record)}); (err2 == nil) != (err == nil) {
				t.Errorf("New: %v, Validate: %v", err2, err)
			}
		})
	}
	cfg := kvevents.DefaultConfig()
	cfg.Endpoint = "tcp://engine:5557"
	if _, err := kvevents.New(cfg, kvevents.Deps{}); err == nil || !strings.Contains(err.Error(), "no handler") {
		t.Errorf("New without a handler: %v", err)
	}
}

func TestDecodeErrors(t *testing.T) {
	for name, payload := range map[string]string{
		"nothing":        "",
		"a map":          "\x80",
		"one element":    "\x91\x01",
		"cut off":        "\x92\x01\x91",
		"huge array":     "\x92\x01\xdd\xff\xff\xff\xff",
		"event":          "\x92\x01\x91\x01",
		"empty event":    "\x92\x01\x91\x90",
		"untyped map":    "\x92\x01\x91\x80",
		"no hashes":      "\x92\x01\x91\x91\xacBlockRemoved",
		"short hash":     "\x92\x01\x91\x92\xacBlockRemoved\x91\xc4\x01x",
		"hash a string":  "\x92\x01\x91\x92\xacBlockRemoved\x91\xa1x",
		"tokens missing": "\x92\x01\x91\x95\xabBlockStored\x91\x01\xc0\x91\x01\x02",
		"after it":       "\x92\x01\x90\x00",
		"rank":           "\x93\x01\x90\xff",
		"deep":           "\x92\x01\x91\x92\xa1x" + strings.Repeat("\x91", 30) + "\x01",
	} {
		if b, err := kvevents.Decode([]byte(payload)); !errors.Is(err, kvevents.ErrMalformed) {
			t.Errorf("%s: %+v, %v; want ErrMalformed", name, b, err)
		}
	}
}
