package sim

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/engines/kvevents"
)

// blockIndex is an exact index of one engine's blocks, from its events alone.
// Blocks are found by what they hold and what they follow, as a reader does who
// knows nothing of the engine's hashes.
type blockIndex struct {
	mu     sync.Mutex
	blocks map[uint64]block
	after  map[block]uint64
}

type block struct {
	parent uint64 // 0 at the beginning
	tokens string
	extra  string
}

func newBlockIndex() *blockIndex {
	return &blockIndex{blocks: make(map[uint64]block), after: make(map[block]uint64)}
}

func (x *blockIndex) Apply(b *kvevents.Batch) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range b.Events {
		switch e.Kind {
		case kvevents.KindStored:
			parent := e.Parent
			for i, h := range e.Hashes {
				held := block{parent: parent, tokens: fmt.Sprint(e.Tokens[i*e.BlockSize : (i+1)*e.BlockSize])}
				if len(e.Extra) > 0 {
					held.extra = string(e.Extra[i])
				}
				x.blocks[h], x.after[held] = held, h
				parent = h
			}
		case kvevents.KindRemoved:
			for _, h := range e.Hashes {
				delete(x.after, x.blocks[h])
				delete(x.blocks, h)
			}
		case kvevents.KindCleared:
			clear(x.blocks)
			clear(x.after)
		}
	}
}

func (x *blockIndex) Reset(int, kvevents.Reason) {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.blocks)
	clear(x.after)
}

// lookup returns how many whole blocks of a prompt are cached.
func (x *blockIndex) lookup(salt string, tokens []uint32, blockSize int) (hit int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var parent uint64
	for ; (hit+1)*blockSize <= len(tokens); hit++ {
		want := block{parent: parent, tokens: fmt.Sprint(tokens[hit*blockSize : (hit+1)*blockSize])}
		if hit == 0 && salt != "" {
			want.extra = string(kvevents.NewExtraKeys(salt))
		}
		h, ok := x.after[want]
		if !ok {
			break
		}
		parent = h
	}
	return hit
}

func (x *blockIndex) hashes() []uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Sorted(maps.Keys(x.blocks))
}

// cached returns the hashes of the core's cached blocks.
func (c *Core) cachedHashes() []uint64 { return slices.Sorted(maps.Keys(c.pool.byHash)) }

// An index that knows only the events holds, after every step, exactly the
// blocks that the core can find, under any load: prompts with common beginnings
// and salts, a cache too small for them, preemptions, clients that leave, and
// caches that are cleared.
func TestCacheEventsTellTheCache(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := InstantConfig()
		cfg.KVEvents.Enabled = true
		cfg.BlockSize = rapid.IntRange(1, 5).Draw(t, "block size")
		cfg.MaxModelLen = 40
		cfg.NumGPUBlocks = 40/cfg.BlockSize + rapid.IntRange(1, 20).Draw(t, "more blocks")
		cfg.MaxNumSeqs = rapid.IntRange(1, 6).Draw(t, "sequences")
		cfg.MaxNumBatchedTokens = cfg.MaxNumSeqs + rapid.IntRange(0, 30).Draw(t, "more tokens")
		c, err := NewCore(cfg)
		if err != nil {
			t.Fatal(err)
		}
		encoding := rapid.SampledFrom([]kvevents.Encoding{kvevents.Array, kvevents.Map}).Draw(t, "encoding")
		x := newBlockIndex()
		now := time.Unix(0, 0)
		var live []*Sequence
		var asked []Request
		step := func() {
			batch, _ := c.Step(now)
			now = now.Add(time.Millisecond)
			told, err := kvevents.Decode(kvevents.Append(nil, &kvevents.Batch{Events: batch.CacheEvents}, encoding))
			if err != nil {
				t.Fatalf("what is told cannot be read: %v", err)
			}
			x.Apply(told)
			if diff := cmp.Diff(c.cachedHashes(), x.hashes()); diff != "" {
				t.Fatalf("cached blocks and index differ (-core +index):\n%s", diff)
			}
			for _, r := range asked {
				hit := 0
				for hit < len(r.Blocks) {
					if _, ok := c.pool.find(r.Blocks[hit]); !ok {
						break
					}
					hit++
				}
				if got := x.lookup(r.CacheSalt, r.Tokens[:len(r.Blocks)*cfg.BlockSize], cfg.BlockSize); got != hit {
					t.Fatalf("the index finds %d blocks of a prompt, the core %d", got, hit)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"submit": func(t *rapid.T) {
				n := rapid.IntRange(1, 30).Draw(t, "tokens")
				total := rapid.IntRange(n, 40).Draw(t, "with output")
				shared := rapid.IntRange(0, n).Draw(t, "shared")
				own := rapid.IntRange(0, 3).Draw(t, "own")
				salt := rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "salt")
				r := Request{PromptTokens: n, OutputTokens: total - n, CacheSalt: salt}
				for i := range total {
					token := uint32(i)
					if i >= shared {
						token += uint32(1000 * own)
					}
					r.Tokens = append(r.Tokens, token)
				}
				r.Blocks = BlockHashes(fnv(salt), r.Tokens, cfg.BlockSize)
				live = append(live, c.Submit(now, r))
				asked = append(asked, r)
			},
			"step": func(*rapid.T) { step() },
			"steps": func(*rapid.T) {
				for range 10 {
					step()
				}
			},
			"abort": func(t *rapid.T) {
				if len(live) > 0 {
					c.Abort(rapid.SampledFrom(live).Draw(t, "whom"))
				}
			},
			"clear": func(*rapid.T) { c.ClearPrefixCache() },
		})
		for range 1000 {
			if c.Idle() {
				break
			}
			step()
		}
		step()
	})
}

// A reader on the wire knows an engine's cache to the block, whether it was
// there from the beginning or came late, and after the cache was cleared.
func TestKVEventsOnTheWire(t *testing.T) {
	for _, encoding := range []string{"array", "map"} {
		t.Run(encoding, func(t *testing.T) {
			cfg := InstantConfig()
			cfg.KVEvents.Enabled, cfg.KVEvents.Encoding = true, encoding
			cfg.MaxModelLen, cfg.NumGPUBlocks = 1024, 96 // blocks are evicted
			e, err := New(cfg, Deps{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = e.Close() }()
			events, replay := serveKVEvents(t, e)
			early := readKVEvents(t, events, replay)
			var clients sync.WaitGroup
			for i := range 8 {
				clients.Go(func() {
					for j := range 12 {
						prompt := strings.Repeat("a common beginning ", 20) + strings.Repeat(fmt.Sprint("and ", i%4, " "), 10*j)
						complete(t, e, fmt.Sprintf(`{"model":"sim-8b","prompt":%q,"max_tokens":60,"cache_salt":%q}`, prompt, []string{"", "s"}[j%2]))
					}
				})
			}
			clients.Wait()
			late := readKVEvents(t, events, replay)
			same := func(what string) {
				t.Helper()
				e.mu.Lock()
				want := e.core.cachedHashes()
				e.mu.Unlock()
				for name, x := range map[string]*blockIndex{"early": early, "late": late} {
					for deadline := time.Now().Add(time.Minute); !slices.Equal(x.hashes(), want); time.Sleep(time.Millisecond) {
						if time.Now().After(deadline) {
							t.Fatalf("%s: the %s reader does not know the cache (-core +index):\n%s", what, name, cmp.Diff(want, x.hashes()))
						}
					}
				}
			}
			e.mu.Lock()
			if n := len(e.core.cachedHashes()); n < 50 {
				t.Errorf("only %d blocks are cached", n)
			}
			e.mu.Unlock()
			same("after the load")
			// What the index finds for a prompt's tokens is what the engine
			// then takes from its cache.
			prompt := strings.Repeat("a common beginning ", 20) + strings.Repeat("and 1 ", 110)
			tokens := Tokenize(nil, prompt)
			hit := min(early.lookup("", tokens, cfg.BlockSize), (len(tokens)-1)/cfg.BlockSize)
			body := complete(t, e, fmt.Sprintf(`{"model":"sim-8b","prompt":%q,"max_tokens":1}`, prompt))
			if want := fmt.Sprintf(`"cached_tokens":%d`, hit*cfg.BlockSize); hit == 0 || !strings.Contains(body, want) {
				t.Errorf("the index found %d blocks; the engine answers %s", hit, body)
			}
			same("after one more")
			e.ClearPrefixCache()
			same("after a clear")
			if n := len(early.hashes()); n != 0 {
				t.Errorf("%d blocks after a clear", n)
			}
		})
	}
}

func complete(t *testing.T, e *Engine, body string) string {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/completions", bytes.NewReader([]byte(body)))
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func serveKVEvents(t *testing.T, e *Engine) (events, replay string) {
	t.Helper()
	var lns [2]net.Listener
	for i := range lns {
		var err error
		if lns[i], err = kvevents.Listen(t.Context(), "tcp://127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	background(t, func(ctx context.Context) error { return e.ServeKVEvents(ctx, lns[0], lns[1]) })
	return "tcp://" + lns[0].Addr().String(), "tcp://" + lns[1].Addr().String()
}

func readKVEvents(t *testing.T, events, replay string) *blockIndex {
	t.Helper()
	cfg := kvevents.DefaultConfig()
	cfg.Endpoint, cfg.ReplayEndpoint = events, replay
	x := newBlockIndex()
	s, err := kvevents.New(cfg, kvevents.Deps{Handler: x})
	if err != nil {
		t.Fatal(err)
	}
	background(t, s.Run)
	return x
}

// background runs f until the test's end.
func background(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
