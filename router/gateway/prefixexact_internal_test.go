package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmgw/llmgw/engines/kvevents"
	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/openai"
	"github.com/llmgw/llmgw/router/schedule"
	"github.com/llmgw/llmgw/router/scrape"
)

// engineTokens answers questions for tokens, as a test wants it.
type engineTokens struct {
	mu     sync.Mutex
	asked  []string // paths; guarded by mu
	now    int      // guarded by mu
	most   int      // at a time; guarded by mu
	took   time.Duration
	status int
	body   string // "" is what the engine should say
}

// Do is that of scrape.Doer.
func (e *engineTokens) Do(req *http.Request) (*http.Response, error) {
	e.mu.Lock()
	e.asked = append(e.asked, req.URL.Path)
	took, status, body := e.took, e.status, e.body
	e.now++
	e.most = max(e.most, e.now)
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.now--
		e.mu.Unlock()
	}()
	if took > 0 {
		select {
		case <-time.After(took): // virtual
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
	if status == 0 {
		status = http.StatusOK
	}
	if body == "" {
		asked, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		b, err := json.Marshal(map[string]any{"token_ids": tokensOf(asked)})
		if err != nil {
			return nil, err
		}
		body = string(b)
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body))}, nil
}

func (e *engineTokens) set(took time.Duration, status int, body string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.took, e.status, e.body = took, status, body
}

func (e *engineTokens) paths() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.asked)
}

// tokensOf are the tokens of a chat: of each message its text's, between marks, and
// the beginning of an answer.
func tokensOf(body []byte) []uint32 {
	var chat struct {
		Messages []struct{ Content string }
	}
	if err := json.Unmarshal(body, &chat); err != nil {
		return nil
	}
	var out []uint32
	for _, m := range chat.Messages {
		out = append(sim.Tokenize(append(out, 1), m.Content), 2)
	}
	return append(out, 1)
}

// exactStage is a stage of endpoints that tell of their caches, in a bubble.
type exactStage struct {
	stage
	engine *engineTokens
	sinks  map[string]scrape.EventSink
	seq    map[string]int64
}

func inExactStage(t *testing.T, ids []string, test func(s *exactStage)) {
	synctest.Test(t, func(t *testing.T) {
		engine := &engineTokens{}
		client := func(*endpoint.Endpoint) (scrape.Doer, func()) { return engine, func() {} }
		cfg := DefaultConfig()
		x, err := newPrefixes(cfg.Prefix, cfg.Router.Scrape.Interval, client, slog.New(slog.DiscardHandler), nil)
		if err != nil {
			t.Fatal(err)
		}
		set, err := endpoint.NewSet(cfg.Router.Breaker, endpoint.Deps{})
		if err != nil {
			t.Fatal(err)
		}
		s := &exactStage{stage{t, x, set}, engine, map[string]scrape.EventSink{}, map[string]int64{}}
		s.replace(1, ids...)
		for _, e := range set.Snapshot().All() {
			s.sinks[e.ID()] = x.exact.open(e)
			s.sinks[e.ID()].Following(0, true)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- x.exact.run(ctx) }()
		synctest.Wait()
		test(s)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		for _, sink := range s.sinks {
			sink.Close()
		}
		if st := x.exact.index.Stats(); st.Endpoints != 0 || st.Blocks != 0 {
			t.Errorf("%+v is left", st)
		}
	})
}

// tell applies events as the endpoint's next batch.
func (s *exactStage) tell(id string, events ...kvevents.Event) {
	for i := range events {
		if events[i].Medium == "" {
			events[i].Medium = kvevents.GPU
		}
	}
	s.sinks[id].Apply(&kvevents.Batch{Sequence: s.seq[id], Time: float64(time.Now().UnixNano()) / 1e9, Events: events})
	s.seq[id]++
}

const blockTokens = 16

// stored is the event of the first so many blocks of tokens; names begin at name.
func stored(name uint64, tokens []uint32, blocks int) kvevents.Event {
	e := kvevents.Event{Kind: kvevents.KindStored, Tokens: tokens[:blocks*blockTokens], BlockSize: blockTokens}
	for i := range blocks {
		e.Hashes = append(e.Hashes, name+uint64(i))
	}
	return e
}

func removed(names ...uint64) kvevents.Event {
	return kvevents.Event{Kind: kvevents.KindRemoved, Hashes: names}
}

// chat is a request of these messages, prepared, and its tokens.
func (s *exactStage) chat(extra string, messages ...string) (*schedule.Request, []uint32) {
	s.t.Helper()
	var list []map[string]string
	for i, m := range messages {
		list = append(list, map[string]string{"role": []string{"user", "assistant"}[i%2], "content": m})
	}
	b, err := json.Marshal(list)
	if err != nil {
		s.t.Fatal(err)
	}
	body := []byte(`{"model":"m",` + extra + `"messages":` + string(b) + `}`)
	var peek openai.Peek
	if err := openai.PeekBody(body, &peek); err != nil {
		s.t.Fatal(err)
	}
	req := &schedule.Request{Model: "m", Now: time.Now(), Prompt: s.x.Prompt(chatRoute, &peek, body)}
	req.Prompt.(*prompt).Prepare(s.t.Context(), "m")
	return req, tokensOf(body)
}

// held says who holds how many blocks of a prompt, and by whose word.
func (s *exactStage) held(req *schedule.Request) string {
	s.t.Helper()
	var out []string
	p := req.Prompt.(*prompt)
	for _, h := range s.look(req) {
		exact := "?"
		if h.Exact {
			exact = ""
		}
		blocks := float64(h.Bytes) / float64(p.bytesOf) * float64(p.tokensOf) / blockTokens
		out = append(out, fmt.Sprintf("%s%.0f%s", h.Endpoint.ID(), blocks, exact))
	}
	return strings.Join(out, " ")
}

func (s *exactStage) want(what string, req *schedule.Request, want string) {
	s.t.Helper()
	if got := s.held(req); got != want {
		s.t.Errorf("%s: %q hold it, want %q", what, got, want)
	}
}

// sent sends req to an endpoint, which answers it.
func (s *exactStage) sent(req *schedule.Request, id string) {
	for _, e := range s.set.Snapshot().All() {
		if e.ID() == id {
			s.x.Picked(req, e)
			req.Prompt.(*prompt).Answered(openai.Usage{})
		}
	}
}

// What engines tell counts, and nothing else where they tell all; what is under way
// until they have told of it.
func TestEventsDecide(t *testing.T) {
	inExactStage(t, []string{"a", "b", "c"}, func(s *exactStage) {
		s.tell("a")
		s.tell("b")
		s.tell("c")
		req, toks := s.chat("", text(1))
		n := len(toks) / blockTokens
		s.want("nothing was told", req, "")
		s.sent(req, "c")
		if got := s.held(req); !strings.HasPrefix(got, "c") || !strings.HasSuffix(got, "?") || strings.Contains(got, " ") {
			t.Errorf("just sent to c, %q hold it", got)
		}
		s.tell("a", stored(100, toks, n))
		s.tell("b", stored(200, toks, 3))
		time.Sleep(underwayLinger)
		s.want("told", req, fmt.Sprintf("a%d b3", n))
		s.tell("a", removed(103))
		s.want("a has lost a block in the middle", req, "b3 a3")
		s.tell("a", kvevents.Event{Kind: kvevents.KindCleared})
		s.want("a was cleared", req, "b3")
		s.sinks["b"].Close()
		s.want("b is gone", req, "")
		s.sinks["b"] = s.x.exact.open(s.set.Snapshot().All()[1])
	})
}

// A prompt that failed is not under way, nor one whose request ended without a word
// longer than it lingers.
func TestUnderwayEnds(t *testing.T) {
	inExactStage(t, []string{"a"}, func(s *exactStage) {
		s.tell("a")
		e := s.set.Snapshot().All()[0]
		req, _ := s.chat("", text(1))
		s.x.Picked(req, e)
		req.Prompt.(*prompt).Lost()
		s.want("lost", req, "")
		s.x.Picked(req, e)
		if got := s.held(req); got == "" {
			t.Error("what is under way is not known")
		}
		req.Prompt.(*prompt).Release()
		req, _ = s.chat("", text(1))
		if got := s.held(req); got == "" {
			t.Error("what has just ended is not known")
		}
		time.Sleep(underwayLinger)
		s.want("later", req, "")
	})
}

// Where events were missed, cannot be recorded, or stop, what was sent counts as
// well; told from the beginning again, it does no more.
func TestPartlyToldCountsWhatWasSent(t *testing.T) {
	tests := []struct {
		name   string
		before func(s *exactStage) // after which not all is known
		empty  bool                // and nothing
	}{
		{"in the middle", func(s *exactStage) {
			s.sinks["a"].Reset(0, kvevents.ReasonGap)
		}, true},
		{"cannot be read", func(s *exactStage) { s.sinks["a"].Reset(0, kvevents.ReasonMalformed) }, true},
		{"started again", func(s *exactStage) { s.sinks["a"].Reset(0, kvevents.ReasonRestart) }, true},
		{"engine gone", func(s *exactStage) { s.sinks["a"].Following(0, false) }, false},
		{"contradicts itself", func(s *exactStage) {
			e := stored(900, make([]uint32, 64), 2)
			e.Tokens = e.Tokens[:5]
			s.tell("a", e)
		}, true},
		{"blocks of another size", func(s *exactStage) {
			s.tell("a", kvevents.Event{Kind: kvevents.KindStored, Hashes: []uint64{7}, Tokens: make([]uint32, 32), BlockSize: 32})
		}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inExactStage(t, []string{"a", "b"}, func(s *exactStage) {
				req, toks := s.chat("", text(1))
				s.tell("b")
				s.tell("a", stored(100, toks, 4))
				s.sent(req, "a")
				s.sent(req, "b")
				time.Sleep(underwayLinger)
				s.want("all is told", req, "a4")
				tt.before(s)
				if got := s.held(req); !strings.HasPrefix(got, "a") || !strings.HasSuffix(got, "?") {
					t.Errorf("a does not tell all; %q hold it", got)
				}
				if got := s.x.exact.index.Blocks(s.x.exact.all.Load().by[s.set.Snapshot().All()[0]].ids[0]); (got == 0) != tt.empty {
					t.Errorf("%d blocks are kept", got)
				}
				if live, rest := s.x.exact.followed(); live != 1 || rest != 1 {
					t.Errorf("%d tell all and %d a part", live, rest)
				}
				s.sinks["a"].Following(0, true)
				s.sinks["a"].Reset(0, kvevents.ReasonRestart)
				s.seq["a"] = 0
				s.tell("a", stored(500, toks, 2))
				s.want("told from the beginning", req, "a2")
			})
		})
	}
}

// What a salt or a LoRA sets apart is not taken for the same, nor what an engine has
// elsewhere or in part.
func TestExtraKeys(t *testing.T) {
	keys := func(e kvevents.Event, keys ...kvevents.ExtraKeys) kvevents.Event {
		e.Extra = keys
		return e
	}
	inExactStage(t, []string{"a", "b"}, func(s *exactStage) {
		plain, toks := s.chat("", text(1))
		salted, _ := s.chat(`"cache_salt":"s",`, text(1))
		s.tell("b")
		s.tell("a", keys(stored(100, toks, 3), kvevents.NewExtraKeys("s"), nil, nil))
		s.want("without salt", plain, "")
		s.want("with it", salted, "a3")
		s.tell("b", stored(100, toks, 2))
		s.want("without salt", plain, "b2")
		s.want("with it", salted, "a3")

		lora := stored(300, toks, 4)
		lora.LoRA = "m" // by which name the endpoints know the model
		s.tell("a", lora)
		s.want("the LoRA", plain, "a4")
		lora.Hashes = []uint64{400, 401, 402, 403}
		s.tell("b", keys(lora, kvevents.NewExtraKeys("m"), kvevents.NewExtraKeys("m"), kvevents.NewExtraKeys("m", "image"), nil))
		s.want("the LoRA", plain, "a4 b2")
	})
	inExactStage(t, []string{"a"}, func(s *exactStage) {
		req, toks := s.chat("", text(1))
		remote, sliding, empty := stored(100, toks, 3), stored(200, toks, 4), stored(300, toks, 5)
		remote.Remote = true
		sliding.HasGroup, sliding.Group, sliding.Spec = true, 1, "sliding_window"
		empty.Tokens = nil
		s.tell("a", remote, sliding, empty)
		s.want("nothing of it is a prefix here", req, "")
		full := stored(200, toks, 2)
		full.HasGroup, full.Spec = true, "full_attention"
		gone := removed(200, 201, 202, 203)
		gone.HasGroup, gone.Group = true, 1
		s.tell("a", full, gone)
		s.want("the other group's end is none of its own", req, "a2")
		offloaded := stored(600, toks, 3)
		offloaded.Medium = "CPU"
		s.tell("a", offloaded)
		s.want("offloaded", req, "a3")
	})
}

// How tokens are come by: once for each prompt, for its next turn from the one
// before, and never later than the wait.
func TestTokens(t *testing.T) {
	inExactStage(t, []string{"a"}, func(s *exactStage) {
		s.tell("a")
		m := s.x.exact.metrics
		count := func(o tokensOutcome) float64 { return testutil.ToFloat64(m.tokens[o]) }
		one, toks := s.chat("", text(1))
		if got := one.Prompt.(*prompt).tokens; !slices.Equal(got, toks) || count(tokensFetched) != 1 {
			t.Errorf("%d tokens of %d, fetched %v", len(got), len(toks), count(tokensFetched))
		}
		again, _ := s.chat(`"temperature":1,`, text(1))
		if got := again.Prompt.(*prompt).tokens; !slices.Equal(got, toks) || count(tokensKnown) != 1 || len(s.engine.paths()) != 1 {
			t.Errorf("%d tokens of %d, known %v, asked %v", len(got), len(toks), count(tokensKnown), s.engine.paths())
		}
		next, whole := s.chat("", text(1), "and so on", text(2))
		got := next.Prompt.(*prompt).tokens
		if len(got) != len(toks)-seamTokens || !slices.Equal(got, whole[:len(got)]) || count(tokensExtended) != 1 {
			t.Errorf("%d tokens of the turn before, which has %d", len(got), len(toks))
		}
		s.tell("a", stored(1, whole, len(whole)/blockTokens))
		s.want("as far as is known", next, fmt.Sprintf("a%d", len(got)/blockTokens))
		synctest.Wait() // the whole was asked for
		if got, _ := s.chat("", text(1), "and so on", text(2)); !slices.Equal(got.Prompt.(*prompt).tokens, whole) {
			t.Error("the next time not all is known")
		}
		// Of many turns the last ones are looked at.
		var long []string
		for i := range 41 {
			long = append(long, text(i))
		}
		_, _ = s.chat("", long[:39]...)
		synctest.Wait()
		if got, toks := s.chat("", long...); len(got.Prompt.(*prompt).tokens) < len(toks)*3/4 || got.Prompt.(*prompt).whole != nil {
			t.Errorf("%d tokens of a long conversation are known of %d", len(got.Prompt.(*prompt).tokens), len(toks))
		}
		if got := s.x.exact.tokens.used(); got < 1000 {
			t.Errorf("%d bytes are kept", got)
		}
	})
}

// An engine that is slow delays nobody longer than the wait, and nobody at all once it
// is known; what it says late is for the next time.
func TestSlowTokens(t *testing.T) {
	inExactStage(t, []string{"a"}, func(s *exactStage) {
		s.tell("a")
		s.engine.set(50*time.Millisecond, 0, "")
		for i := range slowAfter + 2 {
			begun := time.Now()
			req, _ := s.chat("", text(i))
			took, want := time.Since(begun), maxTokenizeWait
			if i >= slowAfter {
				want = 0
			}
			if took != want || len(req.Prompt.(*prompt).tokens) != 0 {
				t.Errorf("prompt %d was delayed by %v, and has %d tokens", i, took, len(req.Prompt.(*prompt).tokens))
			}
			time.Sleep(time.Second)
			if req, toks := s.chat("", text(i)); !slices.Equal(req.Prompt.(*prompt).tokens, toks) {
				t.Errorf("what was said of prompt %d is not known", i)
			}
		}
		s.engine.set(time.Millisecond, 0, "")
		_, _ = s.chat("", text(100))
		time.Sleep(time.Second)
		begun := time.Now()
		if req, _ := s.chat("", text(101)); len(req.Prompt.(*prompt).tokens) == 0 || time.Since(begun) != time.Millisecond {
			t.Errorf("it is fast again, and waited for %v", time.Since(begun))
		}
		// One that never answers is given up.
		s.engine.set(time.Hour, 0, "")
		_, _ = s.chat("", text(102))
		time.Sleep(2 * tokenizeTimeout)
		tk := s.x.exact.tokens
		tk.mu.Lock()
		defer tk.mu.Unlock()
		if n := len(tk.pending); n != 0 {
			t.Errorf("%d questions are open", n)
		}
	})
}

// An engine is asked one thing at a time by many who want the same, and not more than
// it may be.
func TestTokensAreAskedSparingly(t *testing.T) {
	inExactStage(t, []string{"a"}, func(s *exactStage) {
		s.tell("a")
		s.engine.set(time.Millisecond, 0, "")
		var wg sync.WaitGroup
		for i := range 60 {
			wg.Go(func() { _, _ = s.chat("", text(i%3)) })
		}
		wg.Wait()
		time.Sleep(time.Second)
		if n := len(s.engine.paths()); n > 3 || s.engine.most > askedOfOne {
			t.Errorf("%d questions, %d at a time", n, s.engine.most)
		}
		if testutil.ToFloat64(s.x.exact.metrics.tokens[tokensBusy]) == 0 {
			t.Error("nobody found it busy")
		}
	})
}

// Who cannot tokenize, fails or lies is asked now and then.
func TestBadTokenizers(t *testing.T) {
	tests := []struct {
		name   string
		status int
		body   string
		most   int // questions in ten minutes, of 200 prompts
	}{
		{"no such path", 404, "nothing", 2 * 11},
		{"not allowed", 405, "", 2 * 11},
		{"fails", 500, "", 20},
		{"refuses", 400, `{"error":"no"}`, 20},
		{"no key", 401, `{"error":"Unauthorized"}`, 20},
		{"no JSON", 200, "<html>", 20},
		{"no tokens", 200, `{"count":0,"tokens":[]}`, 20},
		{"negative", 200, `{"tokens":[1,-2]}`, 20},
		{"another count", 200, `{"tokens":[1,2],"count":3}`, 20},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inExactStage(t, []string{"a"}, func(s *exactStage) {
				s.tell("a")
				s.engine.set(0, tt.status, tt.body)
				for i := range 200 {
					req, _ := s.chat("", fmt.Sprint(i)+text(i))
					if len(req.Prompt.(*prompt).tokens) > 0 {
						t.Fatal("there are tokens")
					}
					if i == 0 {
						s.sent(req, "a")
						if got := s.holders(req); got != "a" {
							t.Errorf("without tokens %q hold it", got)
						}
					}
					time.Sleep(3 * time.Second)
				}
				if n := len(s.engine.paths()); n > tt.most || n < 8 {
					t.Errorf("asked %d times in ten minutes", n)
				}
				s.engine.set(0, 0, "")
				time.Sleep(time.Minute)
				if req, toks := s.chat("", text(1)); !slices.Equal(req.Prompt.(*prompt).tokens, toks) {
					t.Error("it is not asked again")
				}
			})
		})
	}
}

// Tokens that are not as many as the engine then had are not believed twice, nor is
// who says such.
func TestLyingTokenizer(t *testing.T) {
	inExactStage(t, []string{"a"}, func(s *exactStage) {
		s.tell("a")
		s.engine.set(0, 0, `{"tokens":[1,2,3]}`)
		e := s.set.Snapshot().All()[0]
		for i := range 10 {
			req, toks := s.chat("", text(i))
			s.x.Picked(req, e)
			req.Prompt.(*prompt).Answered(said(int64(len(toks)), 0))
		}
		if n := len(s.engine.paths()); n != 3 {
			t.Errorf("asked %d times", n)
		}
		if got := s.x.exact.tokens.used(); got != 0 {
			t.Errorf("%d bytes are kept", got)
		}
		if got := testutil.ToFloat64(s.x.exact.metrics.tokens[tokensWrong]); got != 3 {
			t.Errorf("%v wrong ones are counted", got)
		}
	})
}

// An answer is read as far as the question's tokens can be long: every engine is
// asked several at a time.
func TestEndlessTokenizer(t *testing.T) {
	inExactStage(t, []string{"a"}, func(s *exactStage) {
		s.tell("a")
		s.engine.set(0, 200, `{"tokens":[1`+strings.Repeat(",1", 3<<20)+`]}`)
		if req, _ := s.chat("", text(1)); len(req.Prompt.(*prompt).tokens) != 0 {
			t.Errorf("%d tokens are taken for a short prompt", len(req.Prompt.(*prompt).tokens))
		}
		synctest.Wait()
		m := s.x.exact.metrics
		if failed := testutil.ToFloat64(m.tokens[tokensFailed]); failed != 1 || s.x.exact.tokens.used() != 0 {
			t.Errorf("failed %v times, %d bytes are kept", failed, s.x.exact.tokens.used())
		}
	})
}

// The memory of tokens is bounded: what was longest not used goes.
func TestTokensAreBounded(t *testing.T) {
	inExactStage(t, []string{"a"}, func(s *exactStage) {
		s.tell("a")
		s.x.exact.tokens.max = 10_000
		for i := range 50 {
			_, _ = s.chat("", text(i))
			_, _ = s.chat("", text(0))
		}
		if got := s.x.exact.tokens.used(); got > 10_000 || got < 5000 {
			t.Errorf("%d bytes", got)
		}
		n := len(s.engine.paths())
		if _, _ = s.chat("", text(0)); len(s.engine.paths()) != n {
			t.Error("what is used all the time is forgotten")
		}
		if _, _ = s.chat("", text(1)); len(s.engine.paths()) != n+1 {
			t.Error("what is not used is kept")
		}
	})
}

// A prompt takes what it needs from its pool: no allocation for one that is known.
func TestExactPromptsAllocateNothing(t *testing.T) {
	inExactStage(t, []string{"a", "b"}, func(s *exactStage) {
		req, toks := s.chat("", text(1))
		s.tell("a", stored(1, toks, 9))
		s.tell("b")
		p := req.Prompt.(*prompt)
		peek, body := p.peek, p.body
		e := s.set.Snapshot().All()[0]
		out := make([]schedule.Holder, 64)
		ctx := t.Context()
		once := func() {
			req.Prompt = s.x.Prompt(chatRoute, peek, body)
			req.Prompt.(*prompt).Prepare(ctx, "m")
			if n, _ := s.x.Holders(req, out); n == 0 {
				t.Fatal("nobody holds it")
			}
			s.x.Picked(req, e)
			req.Prompt.(*prompt).Answered(said(int64(len(toks)), 144))
			req.Prompt.(*prompt).Release()
		}
		same := new(prompt)
		s.x.prompts.New = func() any { return same } // under the race detector a pool forgets
		for range 100 {
			once()
		}
		if n := testing.AllocsPerRun(200, once); n != 0 {
			t.Errorf("%v allocations a request", n)
		}
	})
}

func FuzzParseTokens(f *testing.F) {
	for _, s := range []string{
		`{"count":2,"max_model_len":9,"tokens":[1,2],"token_strs":null}`, `{"request_id":"x","token_ids":[7,8,9],"features":null}`,
		`{"tokens":[1,2],"count":3}`, `{"tokens":null}`, `[{"token_ids":[1]}]`, `{"tokens":[1e3]}`, `{"tokens":[-1]}`, `{"tokens":[4294967296]}`, `{`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		toks, err := parseTokens(b)
		if (err == nil) != (len(toks) > 0) {
			t.Fatalf("%d tokens, %v", len(toks), err)
		}
		if len(toks) > len(b) {
			t.Fatalf("%d tokens of %d bytes", len(toks), len(b))
		}
		if err == nil {
			again, err := json.Marshal(map[string]any{"tokens": toks, "count": len(toks)})
			if err != nil {
				t.Fatal(err)
			}
			if more, err := parseTokens(again); err != nil || !slices.Equal(toks, more) {
				t.Fatalf("%v, written anew %v: %v", toks, more, err)
			}
		}
	})
}

// What a known prompt costs beside: its tokens, who holds them, what is under way.
func BenchmarkExactPrompts(b *testing.B) {
	engine := &engineTokens{}
	s := newStage(b, "a", "b", "c")
	s.x.exact.tokens.client = func(*endpoint.Endpoint) (scrape.Doer, func()) { return engine, func() {} }
	for _, size := range []int{1 << 10, 32 << 10} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			body := []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("The quick brown fox jumps over the dog. ", size/40) + `"}]}`)
			var peek openai.Peek
			if err := openai.PeekBody(body, &peek); err != nil {
				b.Fatal(err)
			}
			e := s.set.Snapshot().All()[0]
			sink := s.x.exact.open(e)
			defer sink.Close()
			sink.Following(0, true)
			toks := tokensOf(bytes.Clone(body))
			sink.Apply(&kvevents.Batch{Events: []kvevents.Event{stored(1, toks, len(toks)/blockTokens)}})
			req := &schedule.Request{Model: "m", Prompt: s.x.Prompt(chatRoute, &peek, body)}
			p := req.Prompt.(*prompt)
			p.read("m")
			s.x.exact.tokens.put(&tokenized{sum: p.hash.Sum64(), tokens: toks, by: &tokenizer{endpoint: e}})
			p.Release()
			out := make([]schedule.Holder, 64)
			b.ReportAllocs()
			for b.Loop() {
				req.Prompt = s.x.Prompt(chatRoute, &peek, body)
				req.Prompt.(*prompt).Prepare(b.Context(), "m")
				if n, _ := s.x.Holders(req, out); n == 0 {
					b.Fatal("nobody holds it")
				}
				s.x.Picked(req, e)
				req.Prompt.(*prompt).Answered(said(int64(len(toks)), int64(len(toks))/2))
				req.Prompt.(*prompt).Release()
			}
		})
	}
}
