package sim_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines/kvevents"
	"github.com/llmgw/llmgw/engines/sim"
)

// endpoints is a log handler that passes on where KV events are published.
type endpoints struct {
	slog.Handler
	found chan [2]string
}

func (h endpoints) Handle(_ context.Context, r slog.Record) error {
	var at [2]string
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "endpoint":
			at[0] = a.Value.String()
		case "replay_endpoint":
			at[1] = a.Value.String()
		}
		return true
	})
	if r.Level == slog.LevelInfo && at[0] != "" {
		h.found <- at
	}
	return nil
}

// told is a handler that passes on the events' kinds.
type told struct {
	once sync.Once
	done chan *kvevents.Batch
}

func (h *told) Apply(b *kvevents.Batch) {
	h.once.Do(func() {
		c := *b
		c.Events = append([]kvevents.Event(nil), b.Events...)
		for i := range c.Events {
			c.Events[i].Tokens = append([]uint32(nil), b.Events[i].Tokens...)
		}
		h.done <- &c
	})
}
func (h *told) Reset(int, kvevents.Reason) {}

// Serve publishes where the configuration says, for as long as it serves.
func TestServeKVEvents(t *testing.T) {
	cfg := sim.InstantConfig()
	cfg.KVEvents.Enabled = true
	cfg.KVEvents.Endpoint, cfg.KVEvents.ReplayEndpoint = "tcp://127.0.0.1:0", "tcp://127.0.0.1:0"
	cfg.KVEvents.Topic = "kv@here@sim-8b"
	h := endpoints{slog.DiscardHandler, make(chan [2]string, 1)}
	e, err := sim.New(cfg, sim.Deps{Logger: slog.New(allLevels{h})})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- e.Serve(ctx, ln) }()
	at := <-h.found
	call(t, e, "POST", "/v1/completions", `{"prompt":"`+strings.Repeat("word ", 40)+`","max_tokens":1}`)
	sub := kvevents.DefaultConfig()
	sub.Endpoint, sub.ReplayEndpoint, sub.Topic = at[0], at[1], "kv@here"
	r := &told{done: make(chan *kvevents.Batch, 1)}
	s, err := kvevents.New(sub, kvevents.Deps{Handler: r})
	if err != nil {
		t.Fatal(err)
	}
	reading, stop := context.WithCancel(t.Context())
	read := make(chan error, 1)
	go func() { read <- s.Run(reading) }()
	select {
	case b := <-r.done:
		if len(b.Events) != 1 || b.Events[0].Kind != kvevents.KindStored || b.EngineRank != 0 || b.Sequence != 0 {
			t.Errorf("told %+v", b)
		}
		if want := sim.Tokenize(nil, strings.Repeat("word ", 40))[:32]; len(b.Events) == 1 && !slices.Equal(b.Events[0].Tokens[:32], want) {
			t.Errorf("told of the tokens %v, want %v", b.Events[0].Tokens, want)
		}
	case <-time.After(time.Minute):
		t.Error("nothing was told within a minute")
	}
	stop()
	cancel()
	if err := errors.Join(<-read, <-served); err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("tcp", strings.TrimPrefix(at[0], "tcp://")); err == nil {
		t.Error("the endpoint is still open")
		_ = c.Close()
	}
}

// allLevels enables what a discarding handler would not take.
type allLevels struct{ endpoints }

func (allLevels) Enabled(context.Context, slog.Level) bool { return true }

// An endpoint that cannot be had ends Serve with the key that names it.
func TestServeKVEventsFails(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for _, key := range []string{"endpoint", "replay_endpoint"} {
		cfg := sim.InstantConfig()
		cfg.KVEvents.Enabled, cfg.KVEvents.Endpoint = true, "tcp://127.0.0.1:0"
		if key == "endpoint" {
			cfg.KVEvents.Endpoint = "tcp://" + taken.Addr().String()
		} else {
			cfg.KVEvents.ReplayEndpoint = "tcp://" + taken.Addr().String()
		}
		e, err := sim.New(cfg, sim.Deps{})
		if err != nil {
			t.Fatal(err)
		}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		err = e.Serve(t.Context(), ln)
		if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "kv_events."+key+": ") {
			t.Errorf("Serve: %v, want kv_events.%s in use", err, key)
		}
		if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the listener was left open: %v", err)
		}
	}
	e := newEngine(t, sim.InstantConfig())
	if err := e.ServeKVEvents(t.Context(), taken, nil); err == nil || !strings.Contains(err.Error(), "enable_kv_cache_events") {
		t.Errorf("ServeKVEvents of an engine that tells nothing: %v", err)
	}
}
