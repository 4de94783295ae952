package gateway

import (
	"container/list"
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/openai"
	"github.com/llmgw/llmgw/router/scrape"
)

const (
	// tokenizeTimeout bounds one question to an engine. Nobody waits so long for it:
	// the answer is for the prompt's next turn.
	tokenizeTimeout = time.Second
	// maxTokenizeBytes bounds the body of a question. An answer has at most
	// spareTokensBytes and tokensPerByte for each byte of its question: a token
	// stands for a byte or more and takes some 8 bytes to write, but a picture is
	// thousands of tokens by a short address.
	maxTokenizeBytes = 2 << 20
	spareTokensBytes = 4 << 20
	tokensPerByte    = 8
	// tokenizeWorkers is how many questions are asked at a time, twice as many wait,
	// and askedOfOne how many of these one engine is asked.
	tokenizeWorkers, askedOfOne = 8, 2
	// seamTokens is how many tokens at the end of a prompt the next turn may have
	// otherwise: the beginning of an answer, which templates add, and a token that
	// merges with what follows.
	seamTokens = 16
	// keptTurns is how many of a prompt's last turns it is known by.
	keptTurns = 16
	// slowAfter is after how many answers in a row that came too late nobody waits
	// for that engine any more.
	slowAfter = 8
	// turnMark is what a turn begins with in what openai.Peek.WritePrompt writes.
	turnMark = 0x02
)

// tokens has the tokens of prompts, as engines make them, and asks for those that it
// does not have.
//
// A prompt is known by a keyed hash of what openai.WritePrompt makes of it. Text does
// not tell where in it a token ends, and a template need not render a longer
// conversation as the shorter one and some more. So of a prompt that continues one
// that is known, at the end of a turn, the known tokens less the last few are taken
// for its beginning, and no more; whoever holds them holds at least so much. Where a
// template rewrites what was before, as some do with reasoning, they are found on no
// engine, or on one that would not have them: that costs a prefill.
type tokens struct {
	wait    time.Duration
	max     int64
	client  func(*endpoint.Endpoint) (scrape.Doer, func())
	log     *slog.Logger
	metrics *exactMetrics
	seed    maphash.Seed
	jobs    chan *question
	running atomic.Bool // run is

	mu      sync.Mutex
	known   map[uint64]*list.Element // of *tokenized; guarded by mu
	recent  *list.List               // the last used at the front; guarded by mu
	bytes   int64                    // guarded by mu
	pending map[uint64]*question     // guarded by mu
}

// question is a prompt that some engine is asked about.
type question struct {
	sum   uint64
	by    *tokenizer
	path  string // of the request
	body  []byte // the request's, for the engine
	begun time.Time
	done  chan struct{} // closed when it is over
}

func newTokens(cfg PrefixExact, client func(*endpoint.Endpoint) (scrape.Doer, func()), log *slog.Logger, m *exactMetrics) *tokens {
	return &tokens{
		wait: cfg.TokenizeWait, max: cfg.TokensMaxBytes, client: client, log: log, metrics: m,
		seed: maphash.MakeSeed(), jobs: make(chan *question, 2*tokenizeWorkers),
		known: map[uint64]*list.Element{}, recent: list.New(), pending: map[uint64]*question{},
	}
}

// run asks until ctx is done, and returns nil when no question is open.
func (t *tokens) run(ctx context.Context) error {
	t.running.Store(true)
	var wg sync.WaitGroup
	for range tokenizeWorkers {
		wg.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case q := <-t.jobs:
					t.answer(ctx, q)
				}
			}
		})
	}
	<-ctx.Done()
	t.running.Store(false)
	wg.Wait()
	return nil
}

// ask has one of the followers asked for the tokens of p, which nobody knows, and
// returns the question, or why nobody is asked.
func (t *tokens) ask(p *prompt, model string, from []*follower) (*question, tokensOutcome) {
	k, ok := kind(p.path)
	if !ok || len(p.body) > maxTokenizeBytes || p.state != readWhole {
		return nil, tokensUnsupported
	}
	if k == 1 && p.body[p.peek.PromptSpan.Start] != '"' {
		return nil, tokensUnsupported // several, or tokens already
	}
	if !t.running.Load() {
		return nil, tokensAbsent
	}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if q := t.pending[p.sum]; q != nil {
		return q, tokensFetched
	}
	z, why := choose(from, k, now)
	if z == nil {
		return nil, why
	}
	parts, size := p.peek.Edit(p.body, openai.Edit{Model: z.endpoint.UpstreamModel(model)}, nil)
	q := &question{sum: p.sum, by: z, body: make([]byte, 0, size), begun: now, done: make(chan struct{})}
	if q.path = chatRoute; k == 1 {
		q.path = textRoute
	}
	for _, part := range parts {
		q.body = append(q.body, part...)
	}
	select {
	case t.jobs <- q:
		z.asked.Add(1)
		t.pending[q.sum] = q
		return q, tokensFetched
	default:
		return nil, tokensBusy
	}
}

const (
	chatRoute = "/v1/chat/completions"
	textRoute = "/v1/completions"
)

// answer asks an engine and remembers what it says.
func (t *tokens) answer(ctx context.Context, q *question) {
	ctx, cancel := context.WithTimeout(ctx, tokenizeTimeout)
	defer cancel()
	toks, err := t.request(ctx, q)
	took := time.Since(q.begun)
	t.metrics.tokenize.Observe(took.Seconds())
	switch {
	case err == nil:
		t.put(&tokenized{q.sum, toks, q.by})
		if took <= t.wait {
			q.by.late.Store(0)
		}
	case ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
	default:
		t.metrics.tokens[tokensFailed].Inc()
		t.log.Debug("no tokens of a prompt", "endpoint", q.by.endpoint.ID(), "err", err)
	}
	q.by.asked.Add(-1)
	t.mu.Lock()
	delete(t.pending, q.sum)
	t.mu.Unlock()
	close(q.done)
}

var (
	errNoRoute   = errors.New("gateway: the engine has no such path")
	errTokenized = errors.New("gateway: the engine's answer has no tokens")
)

// request asks by the form that the engine is known to have, else by one after the
// other.
func (t *tokens) request(ctx context.Context, q *question) ([]uint32, error) {
	z := q.by
	k := 0
	if q.path == textRoute {
		k = 1
	}
	z.mu.Lock()
	f := z.routes[k].form
	z.mu.Unlock()
	var err error
	for ; f < forms; f++ {
		path := "/tokenize"
		if f == formRender {
			path = q.path + "/render"
		}
		var toks []uint32
		toks, err = z.post(ctx, path, q.body)
		if err == nil {
			z.succeeded(k, f)
			return toks, nil
		}
		if !errors.Is(err, errNoRoute) {
			break
		}
	}
	if ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		z.failed(k, errors.Is(err, errNoRoute))
	}
	return nil, err
}

// wrongAfter is after how many prompts in a row whose tokens were others who told
// them is not asked for a minute.
const wrongAfter = 3

// checked compares the tokens of a prompt with how many the engine that answered
// says it had. Those that are others are forgotten.
func (t *tokens) checked(z *tokenized, said int64) {
	n := int64(len(z.tokens))
	if said < 1 {
		return
	}
	if max(n-said, said-n) <= 8+said/64 {
		z.by.wrong.Store(0)
		return
	}
	t.metrics.tokens[tokensWrong].Inc()
	t.mu.Lock()
	t.drop(z.sum)
	t.mu.Unlock()
	if z.by.wrong.Add(1) >= wrongAfter {
		z.by.mu.Lock()
		defer z.by.mu.Unlock()
		for k := range z.by.routes {
			z.by.routes[k].until = time.Now().Add(time.Minute)
		}
	}
}
