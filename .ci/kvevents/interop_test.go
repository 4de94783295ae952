// Package kvevents_test holds engines/kvevents and the simulated engine's events
// against libzmq and msgspec, which engines use. Run it with .ci/kvevents/run,
// which installs them; the directory is hidden from ./... because of that.
package kvevents_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines/kvevents"
	"github.com/llmgw/llmgw/engines/sim"
)

// What the tests are run with.
var python = flag.String("python", "", "Python interpreter that has pyzmq and msgspec")

func TestMain(m *testing.M) {
	flag.Parse()
	if *python == "" {
		fmt.Fprintln(os.Stderr, "-python is needed after -args; .ci/kvevents/run gives it")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// peer is a running peer.py.
type peer struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Scanner

	stop func()
}

func startPeer(t *testing.T, args ...string) *peer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	cmd := exec.CommandContext(ctx, *python, append([]string{"peer.py"}, args...)...)
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, in: in, out: bufio.NewScanner(out)}
	p.out.Buffer(nil, 16<<20)
	p.stop = sync.OnceFunc(func() {
		cancel()
		_ = cmd.Wait() // killed
	})
	t.Cleanup(p.stop)
	return p
}

// reply is what peer.py may answer.
type reply struct {
	Events, Replay string
	Next           int64
	Lost           int
	Ready          bool
	First          int64
	Blocks         []string
	Seen           []int64
	Tokens         int
}

func (p *peer) read() (r reply) {
	p.t.Helper()
	if !p.out.Scan() {
		p.t.Fatalf("peer.py ended: %v", p.out.Err())
	}
	if err := json.Unmarshal(p.out.Bytes(), &r); err != nil {
		p.t.Fatal(err)
	}
	return r
}

func (p *peer) do(command string, n any) reply {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, command, n); err != nil {
		p.t.Fatal(err)
	}
	return p.read()
}

// reader is a handler that keeps what it is told.
type reader struct {
	mu     sync.Mutex
	seen   []int64
	blocks map[uint64]bool
	last   kvevents.Batch
	resets []kvevents.Reason
}

func (r *reader) Apply(b *kvevents.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, b.Sequence)
	for _, e := range b.Events {
		for _, h := range e.Hashes {
			r.blocks[h] = e.Kind == kvevents.KindStored
		}
		if e.Kind == kvevents.KindCleared {
			clear(r.blocks)
		}
	}
	r.last = *b
}

func (r *reader) Reset(_ int, reason kvevents.Reason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.blocks)
	r.seen, r.resets = nil, append(r.resets, reason)
}

// until waits for the batch number n.
func (r *reader) until(t *testing.T, n int64) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		r.mu.Lock()
		seen := slices.Clone(r.seen)
		r.mu.Unlock()
		if len(seen) > 0 && seen[len(seen)-1] == n {
			for i, seq := range seen {
				if seq != int64(i) {
					t.Fatalf("batches %v; want each once from 0 on", seen)
				}
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("batch %d has not come; those that did: %v", n, seen)
		}
	}
}

func follow(t *testing.T, events, replay string) (*kvevents.Subscriber, *reader) {
	t.Helper()
	cfg := kvevents.DefaultConfig()
	cfg.Endpoint, cfg.ReplayEndpoint, cfg.Topic = events, replay, "kv@"
	r := &reader{blocks: make(map[uint64]bool)}
	s, err := kvevents.New(cfg, kvevents.Deps{Handler: r})
	if err != nil {
		t.Fatal(err)
	}
	background(t, s.Run)
	return s, r
}

func background(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not seen: %s", what)
		}
	}
}

// Our subscriber follows a publisher of libzmq that writes with msgspec: it
// catches up, fills a gap, stays connected under heartbeats.
func TestFromLibzmq(t *testing.T) {
	for _, form := range []string{"array", "map"} {
		t.Run(form, func(t *testing.T) {
			p := startPeer(t, "pub", form)
			at := p.read()
			p.do("publish", 50) // nobody there: only replay has them
			s, r := follow(t, at.Events, at.Replay)
			r.until(t, 49)
			until(t, "connected", func() bool { return s.Status(0).Connected })
			p.do("publish", 50)
			r.until(t, 99)
			p.do("lose", 5)
			p.do("publish", 1)
			r.until(t, 105)
			if got := p.do("quiet", 1); got.Lost != 0 {
				t.Errorf("libzmq dropped us %d times, though we answer its heartbeats", got.Lost)
			}
			p.do("publish", 1)
			r.until(t, 106)
			if st := s.Status(0); !st.Complete || !st.Connected {
				t.Errorf("status %+v", st)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			if len(r.resets) > 0 {
				t.Errorf("resets for %v", r.resets)
			}
			want := []kvevents.Event{
				{
					Kind: kvevents.KindStored, Hashes: []uint64{106}, Parent: 105, HasParent: true, Tokens: []uint32{106, 100000},
					BlockSize: 2, Extra: []kvevents.ExtraKeys{kvevents.NewExtraKeys("salt")}, Medium: "GPU", HasGroup: true, Spec: "full_attention",
				},
				{
					Kind: kvevents.KindStored, Hashes: []uint64{106}, Parent: 107, HasParent: true, Tokens: counted(300),
					BlockSize: 300, LoRA: "adapter", Medium: "CPU",
				},
				{Kind: kvevents.KindRemoved, Hashes: []uint64{1<<64 - 107, 1<<64 - 1}, Medium: "GPU"},
			}
			if diff := cmp.Diff(want, r.last.Events); diff != "" || r.last.Topic != "kv@peer@model" || r.last.EngineRank != 0 {
				t.Errorf("last batch of %q, rank %d (-want +got):\n%s", r.last.Topic, r.last.EngineRank, diff)
			}
		})
	}
}

func counted(n int) (tokens []uint32) {
	for i := range n {
		tokens = append(tokens, uint32(i))
	}
	return tokens
}

// A subscriber and a replay client of libzmq read a simulated engine, and know
// the same blocks as ours.
func TestToLibzmq(t *testing.T) {
	for _, form := range []string{"array", "map"} {
		t.Run(form, func(t *testing.T) {
			cfg := sim.InstantConfig()
			cfg.MaxModelLen, cfg.NumGPUBlocks = 1024, 96
			cfg.KVEvents.Enabled, cfg.KVEvents.Encoding, cfg.KVEvents.Topic = true, form, "kv@sim@sim-8b"
			e, err := sim.New(cfg, sim.Deps{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = e.Close() })
			events, err := kvevents.Listen(t.Context(), "tcp://127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			replay, err := kvevents.Listen(t.Context(), "tcp://127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			background(t, func(ctx context.Context) error { return e.ServeKVEvents(ctx, events, replay) })
			at := []string{"tcp://" + events.Addr().String(), "tcp://" + replay.Addr().String()}
			p := startPeer(t, "sub", form, at[0], at[1])
			p.read()
			_, ours := follow(t, at[0], at[1])
			// The first batch that libzmq sees shows that it has subscribed.
			seen := make(chan reply, 1)
			go func() { seen <- p.do("read", 0) }()
			var theirs reply
			for i := 0; theirs.Seen == nil; i++ {
				complete(t, e, fmt.Sprintf("%d %s", i, strings.Repeat("hello ", 40)), "")
				select {
				case theirs = <-seen:
				case <-time.After(10 * time.Millisecond):
				}
			}
			for i := range 60 {
				complete(t, e, strings.Repeat("a common beginning ", 20)+strings.Repeat(fmt.Sprint("and ", i%7, " "), 1+10*(i%9)), []string{"", "salt"}[i%2])
			}
			// An answer ends after its events are out: replay has all.
			replayed := p.do("replay", 0)
			last := replayed.Seen[len(replayed.Seen)-1]
			ours.until(t, last)
			theirs = p.do("read", last)
			first := theirs.Seen[0]
			for i, seq := range theirs.Seen {
				if seq != first+int64(i) {
					t.Fatalf("libzmq got the batches %v; want each once, in order", theirs.Seen)
				}
			}
			if int64(len(replayed.Seen)) != last+1 || replayed.Tokens == 0 {
				t.Errorf("replay has %d batches, want %d", len(replayed.Seen), last+1)
			}
			if diff := cmp.Diff(ours.held(), replayed.Blocks); diff != "" || len(replayed.Blocks) < 20 {
				t.Errorf("%d blocks; libzmq and ours differ (-ours +libzmq):\n%s", len(replayed.Blocks), diff)
			}
			if got := p.do("request", last); got.First != last {
				t.Errorf("a REQ socket asked for %d and got %d", last, got.First)
			}
		})
	}
}

// held are the blocks that are there, as peer.py writes them.
func (r *reader) held() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var hashes []uint64
	for h, there := range r.blocks {
		if there {
			hashes = append(hashes, h)
		}
	}
	slices.Sort(hashes)
	for _, h := range hashes {
		all = append(all, strconv.FormatUint(h, 10))
	}
	return all
}

func complete(t *testing.T, e *sim.Engine, prompt, salt string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"prompt": prompt, "max_tokens": 30, "cache_salt": salt})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/completions", strings.NewReader(string(body))))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
}
