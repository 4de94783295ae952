package kvevents_test

import (
	"context"
	"errors"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines/kvevents"
	"github.com/llmgw/llmgw/engines/kvevents/internal/zmtp"
)

// publish serves a publisher on loopback until the test's end.
func publish(t *testing.T, edit func(*kvevents.PublisherConfig)) (p *kvevents.Publisher, events, replay string) {
	t.Helper()
	cfg := kvevents.DefaultPublisherConfig()
	if edit != nil {
		edit(&cfg)
	}
	p, err := kvevents.NewPublisher(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	var lns [2]net.Listener
	for i := range lns {
		if lns[i], err = kvevents.Listen(t.Context(), "tcp://127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Serve(ctx, lns[0], lns[1]) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return p, "tcp://" + lns[0].Addr().String(), "tcp://" + lns[1].Addr().String()
}

// until waits for a condition, for as long as the test may take.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not seen within a minute: %s", what)
		}
	}
}

// sequences is a handler that passes on the numbers of batches, -1 for resets.
type sequences struct {
	ch chan int64

	mu     sync.Mutex
	events []kvevents.Event // of the last batch
}

func (s *sequences) Apply(b *kvevents.Batch) {
	s.mu.Lock()
	s.events = slices.Clone(b.Events)
	s.mu.Unlock()
	s.ch <- b.Sequence
}
func (s *sequences) Reset(int, kvevents.Reason) { s.ch <- -1 }

func subscribe(t *testing.T, events, replay string) (*kvevents.Subscriber, *sequences) {
	t.Helper()
	cfg := kvevents.DefaultConfig()
	cfg.Endpoint, cfg.ReplayEndpoint = events, replay
	cfg.MinBackoff = time.Millisecond
	h := &sequences{ch: make(chan int64, 100000)}
	s, err := kvevents.New(cfg, kvevents.Deps{Handler: h})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return s, h
}

func (s *sequences) want(t *testing.T, from, to int64) {
	t.Helper()
	for seq := from; seq <= to; seq++ {
		select {
		case got := <-s.ch:
			if got != seq {
				t.Fatalf("told of batch %d, want %d", got, seq)
			}
		case <-time.After(time.Minute):
			t.Fatalf("not told of batch %d within a minute", seq)
		}
	}
}

// What a publisher sends arrives at every subscriber, whole and in order, and
// one that comes late catches up.
func TestPublisher(t *testing.T) {
	for _, enc := range []kvevents.Encoding{kvevents.Array, kvevents.Map} {
		t.Run(enc.String(), func(t *testing.T) {
			p, events, replay := publish(t, func(c *kvevents.PublisherConfig) { c.Encoding, c.Topic = enc, "kv@a" })
			event := stored(kvevents.Event{
				Hashes: []uint64{1, big}, Parent: 9, HasParent: true, Tokens: make([]uint32, 2*300), BlockSize: 300,
				Extra: []kvevents.ExtraKeys{kvevents.NewExtraKeys("salt"), nil},
			})
			first, h1 := subscribe(t, events, replay)
			until(t, "a subscriber", func() bool { return p.Subscribers() == 1 && first.Status(0).Connected })
			for i := range int64(200) {
				if seq := p.Publish(time.Unix(1, 0), -1, []kvevents.Event{event}); seq != i {
					t.Fatalf("batch %d, want %d", seq, i)
				}
			}
			h1.want(t, 0, 199)
			h1.mu.Lock()
			if !reflect.DeepEqual(h1.events, []kvevents.Event{event}) {
				t.Errorf("told of %+v, published %+v", h1.events, event)
			}
			h1.mu.Unlock()
			_, h2 := subscribe(t, events, replay)
			h2.want(t, 0, 199)
			until(t, "two subscribers", func() bool { return p.Subscribers() == 2 })
			p.Publish(time.Now(), 0, nil)
			h1.want(t, 200, 200)
			h2.want(t, 200, 200)
			if n := p.Dropped(); n != 0 {
				t.Errorf("%d batches were lost", n)
			}
		})
	}
}

// Only those get a topic who asked for it.
func TestPublisherTopics(t *testing.T) {
	p, events, _ := publish(t, func(c *kvevents.PublisherConfig) { c.Topic = "kv@a@model" })
	open := func(prefixes ...string) *zmtp.Conn {
		t.Helper()
		c, err := net.Dial("tcp", strings.TrimPrefix(events, "tcp://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		z, err := zmtp.Handshake(c, zmtp.Sub, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for _, prefix := range prefixes {
			if err := z.Subscribe(prefix); err != nil {
				t.Fatal(err)
			}
		}
		return z
	}
	open("other", "kv@b")
	wants := open("other", "kv@a")
	until(t, "one who wants it", func() bool { return p.Subscribers() == 1 })
	p.Publish(time.Now(), 0, nil)
	frames, err := wants.Read()
	if err != nil || len(frames) != 3 || string(frames[0]) != "kv@a@model" || string(frames[1]) != string(number8(0)) {
		t.Fatalf("got %q, %v", frames, err)
	}
	// It cancels, by ZMTP 3.0's message.
	if err := wants.Write([]byte("\x00kv@a")); err != nil {
		t.Fatal(err)
	}
	until(t, "nobody who wants it", func() bool { return p.Subscribers() == 0 })
}

// A subscriber that does not read costs a bounded queue and nothing else. When
// it reads again it sees the gap and has the rest replayed.
func TestPublisherNeverBlocks(t *testing.T) {
	p, events, replay := publish(t, func(c *kvevents.PublisherConfig) { c.HWM = 8 })
	gate := make(chan struct{})
	cfg := kvevents.DefaultConfig()
	cfg.Endpoint, cfg.ReplayEndpoint = events, replay
	h := &gated{gate: gate, sequences: sequences{ch: make(chan int64, 10000)}}
	s, err := kvevents.New(cfg, kvevents.Deps{Handler: h})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	defer func() { cancel(); <-done }()
	until(t, "a subscriber", func() bool { return p.Subscribers() == 1 && s.Status(0).Connected })
	large := stored(kvevents.Event{Hashes: make([]uint64, 100), Tokens: make([]uint32, 100*256), BlockSize: 256})
	for i := range large.Tokens {
		large.Tokens[i] = 100_000 // five bytes each
	}
	n := int64(0)
	for p.Dropped() == 0 { // beyond what the sockets hold
		n = p.Publish(time.Now(), 0, []kvevents.Event{large})
	}
	close(gate)
	// One more, so that the gap shows.
	until(t, "the end of the replay", func() bool {
		n = p.Publish(time.Now(), 0, nil)
		return s.Status(0).Sequence >= n-1
	})
	h.want(t, 0, n-1)
}

type gated struct {
	sequences
	gate chan struct{}
}

func (g *gated) Apply(b *kvevents.Batch) {
	<-g.gate
	g.sequences.Apply(b)
}

// Replay keeps as much as was asked for.
func TestPublisherReplayBounds(t *testing.T) {
	payload := len(kvevents.Append(nil, &kvevents.Batch{}, kvevents.Map))
	for _, tt := range []struct {
		name         string
		steps, bytes int
		want         int64 // the first it has of 1000
	}{
		{"steps", 300, 1 << 20, 700},
		{"bytes", 5000, 10 * payload, 990},
		{"none", 0, 1 << 20, 1000},
		{"all", 5000, 1 << 20, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, events, replay := publish(t, func(c *kvevents.PublisherConfig) { c.BufferSteps, c.BufferBytes = tt.steps, tt.bytes })
			for range 1000 {
				p.Publish(time.Unix(0, 0), 0, nil)
			}
			s, h := subscribe(t, events, replay)
			until(t, "a subscriber", func() bool { return p.Subscribers() == 1 && s.Status(0).Connected })
			p.Publish(time.Unix(0, 0), 0, nil)
			h.want(t, tt.want, 1000)
		})
	}
}

// Peers that say nonsense, or nothing, are got rid of and disturb nobody.
func TestPublisherHostilePeers(t *testing.T) {
	p, events, replay := publish(t, nil)
	greeting := func(rest string) string {
		g := make([]byte, 64)
		g[0], g[9], g[10] = 0xff, 0x7f, 3
		copy(g[12:], "NULL")
		return string(g) + rest
	}
	ready := "\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB"
	for name, text := range map[string]string{
		"http":          "GET / HTTP/1.1\r\n\r\n",
		"old":           strings.Replace(greeting(ready), "\x7f\x03", "\x7f\x01", 1),
		"other socket":  greeting(strings.Replace(ready, "SUB", "REP", 1)),
		"message first": greeting("\x00\x01x"),
		"huge frame":    greeting(ready + "\x02\x7f\xff\xff\xff\xff\xff\xff\xff"),
		"bad flags":     greeting(ready + "\xf0\x00"),
		"bad command":   greeting(ready + "\x04\x02\x09x"),
		"bad ping":      greeting(ready + "\x04\x05\x04PING"),
		"no end":        greeting(ready + strings.Repeat("\x01\x00", 1000)),
	} {
		for _, address := range []string{events, replay} {
			c, err := net.Dial("tcp", strings.TrimPrefix(address, "tcp://"))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = c.Write([]byte(text))
			_ = c.SetReadDeadline(time.Now().Add(time.Minute))
			b := make([]byte, 1024)
			for err == nil {
				_, err = c.Read(b)
			}
			if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
				t.Errorf("%s: the connection stays", name)
			}
			_ = c.Close()
		}
	}
	_, h := subscribe(t, events, replay)
	until(t, "a subscriber", func() bool { return p.Subscribers() == 1 })
	p.Publish(time.Now(), 0, nil)
	h.want(t, 0, 0)
}

// A listener that fails ends Serve, and the connections with it.
func TestPublisherServeFails(t *testing.T) {
	p, err := kvevents.NewPublisher(kvevents.DefaultPublisherConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := kvevents.Listen(t.Context(), "tcp://127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- p.Serve(t.Context(), ln, nil) }()
	subscribe(t, "tcp://"+ln.Addr().String(), "")
	until(t, "a subscriber", func() bool { return p.Subscribers() == 1 })
	_ = ln.Close()
	if err := <-served; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve: %v, want that the listener is closed", err)
	}
	if n := p.Subscribers(); n != 0 {
		t.Errorf("%d subscribers after the end", n)
	}
}

func TestPublisherConfigValidate(t *testing.T) {
	for want, edit := range map[string]func(*kvevents.PublisherConfig){
		"topic: 256 bytes are too many": func(c *kvevents.PublisherConfig) { c.Topic = strings.Repeat("x", 256) },
		"encoding: 0 is none":           func(c *kvevents.PublisherConfig) { c.Encoding = 0 },
		"buffer_steps: -1 is negative":  func(c *kvevents.PublisherConfig) { c.BufferSteps = -1 },
		"buffer_bytes: -1 is negative":  func(c *kvevents.PublisherConfig) { c.BufferBytes = -1 },
		"hwm: 0 is too small":           func(c *kvevents.PublisherConfig) { c.HWM = 0 },
	} {
		cfg := kvevents.DefaultPublisherConfig()
		edit(&cfg)
		if _, err := kvevents.NewPublisher(cfg, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewPublisher: %v, want %q", err, want)
		}
	}
}
