package gateway

import (
	"bytes"
	"container/list"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmgw/llmgw/engines/kvevents"
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

// tokenized is a prompt's tokens. They never change.
type tokenized struct {
	sum    uint64
	tokens []uint32
	by     *tokenizer
}

// tokenizedBytes is what an entry takes besides its tokens.
const tokenizedBytes = 200

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

// tokenizer is an endpoint as one that is asked for tokens.
type tokenizer struct {
	endpoint *endpoint.Endpoint
	client   scrape.Doer
	idle     func() // closes its connections
	asked    atomic.Int32
	late     atomic.Int32 // answers in a row
	wrong    atomic.Int32 // prompts in a row whose tokens were others

	mu     sync.Mutex
	routes [2]route // of chats and of texts; guarded by mu
}

// route is what is known of an engine's way to tokenize one kind of request.
type route struct {
	form     form
	failures int       // in a row
	until    time.Time // not asked before
}

// form is a way to ask.
type form uint8

const (
	formRender   form = iota // the request's own path and /render, of vLLM
	formTokenize             // /tokenize, of vLLM and SGLang
	forms
)

func (t *tokens) open(e *endpoint.Endpoint) *tokenizer {
	z := &tokenizer{endpoint: e}
	z.client, z.idle = t.client(e)
	z.routes[1].form = formTokenize // the render of texts has a list
	return z
}

func (z *tokenizer) close() { z.idle() }

// kind is a path's place in tokenizer.routes; false for one whose prompts no engine
// tokenizes.
func kind(path uint32) (int, bool) {
	switch path {
	case pathChat:
		return 0, true
	case pathText:
		return 1, true
	}
	return 0, false
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

// get returns the tokens of a prompt, false if they are not known.
func (t *tokens) get(sum uint64) (*tokenized, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.known[sum]
	if !ok {
		return nil, false
	}
	t.recent.MoveToFront(e)
	return e.Value.(*tokenized), true
}

// longest returns the tokens of the longest beginning, of those with the sums, the
// longest last, that is known, and its place in sums.
func (t *tokens) longest(sums []turnEnd) (*tokenized, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := len(sums) - 1; i >= 0; i-- {
		if e, ok := t.known[sums[i].sum]; ok {
			t.recent.MoveToFront(e)
			return e.Value.(*tokenized), i
		}
	}
	return nil, 0
}

// peek is get and, where a prompt is not known, longest, for who only wants to
// know: nothing is kept for it. at is -1 for the whole prompt.
func (t *tokens) peek(sum uint64, turns []turnEnd) (z *tokenized, at int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, ok := t.known[sum]; ok {
		return e.Value.(*tokenized), -1
	}
	for i, turn := range slices.Backward(turns) {
		if e, ok := t.known[turn.sum]; ok {
			return e.Value.(*tokenized), i
		}
	}
	return nil, 0
}

// recall is prepare for a request that is not going to be sent: p gets the tokens
// that are known, and nobody is asked for more.
func (x *exacts) recall(p *prompt) {
	p.trial = true
	p.tokens, p.whole, p.tokensOf, p.bytesOf = nil, nil, 0, 0
	if _, ok := kind(p.path); !ok || !p.hashing || p.state != readWhole {
		return
	}
	p.sum = p.hash.Sum64()
	p.salt = saltOf(p.body, p.peek.PromptSpan)
	switch z, at := x.tokens.peek(p.sum, p.turnEnds()); {
	case z == nil:
	case at < 0:
		p.take(z)
	case len(z.tokens) > seamTokens:
		p.tokens, p.tokensOf, p.bytesOf = z.tokens[:len(z.tokens)-seamTokens], len(z.tokens), p.turnEnds()[at].bytes
	}
}

// put remembers the tokens of a prompt.
func (t *tokens) put(z *tokenized) {
	size := int64(4*cap(z.tokens)) + tokenizedBytes
	t.mu.Lock()
	defer t.mu.Unlock()
	if size > t.max {
		return
	}
	t.drop(z.sum)
	t.known[z.sum] = t.recent.PushFront(z)
	t.bytes += size
	for t.bytes > t.max {
		t.drop(t.recent.Back().Value.(*tokenized).sum)
	}
}

// drop forgets a prompt's tokens. It holds mu.
func (t *tokens) drop(sum uint64) {
	if e, ok := t.known[sum]; ok {
		z := t.recent.Remove(e).(*tokenized)
		delete(t.known, sum)
		t.bytes -= int64(4*cap(z.tokens)) + tokenizedBytes
	}
}

// Bytes returns how much memory is in use.
func (t *tokens) used() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes
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

// choose returns the least busy of some of the engines that may be asked now.
func choose(from []*follower, kind int, now time.Time) (*tokenizer, tokensOutcome) {
	const looks = 8
	var best *tokenizer
	why := tokensAbsent
	for i, at := 0, rand.IntN(max(len(from), 1)); i < min(len(from), looks); i++ {
		z := from[(at+i)%len(from)].speaks
		switch {
		case !z.endpoint.Admissible(now) || !z.ready(kind, now):
		case z.asked.Load() >= askedOfOne:
			why = tokensBusy
		case best == nil || z.endpoint.InFlight() < best.endpoint.InFlight():
			best = z
		}
	}
	return best, why
}

// ready reports whether the engine may be asked now.
func (z *tokenizer) ready(kind int, now time.Time) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return !now.Before(z.routes[kind].until)
}

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

func (z *tokenizer) succeeded(kind int, f form) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.routes[kind] = route{form: f}
}

// failed lets an engine alone for a while: one that has no way to tokenize at once,
// another after some failures, longer each time, a minute at most.
func (z *tokenizer) failed(kind int, absent bool) {
	const enough, longest = 3, time.Minute
	z.mu.Lock()
	defer z.mu.Unlock()
	r := &z.routes[kind]
	r.failures++
	pause := longest
	if over := r.failures - enough; absent {
		r.form = forms - 1
		if kind == 0 {
			r.form = 0 // it may be another release when it is asked again
		}
	} else if over < 0 {
		return
	} else if over < 6 {
		pause = time.Second << over
	}
	r.until = time.Now().Add(pause)
}

// post asks once.
func (z *tokenizer) post(ctx context.Context, path string, body []byte) ([]uint32, error) {
	u := *z.endpoint.URL()
	u.Path, u.RawPath = u.Path+path, ""
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "llmgw")
	if secret := z.endpoint.Spec().Secret; secret != "" {
		req.Header.Set("Authorization", "Bearer "+secret.Reveal())
	}
	res, err := z.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		_, _ = io.CopyN(io.Discard, res.Body, 4096) // short ones leave the connection usable
		return nil, fmt.Errorf("%w: %d at %s", errNoRoute, res.StatusCode, path)
	default:
		_, _ = io.CopyN(io.Discard, res.Body, 4096)
		return nil, fmt.Errorf("gateway: status %d at %s", res.StatusCode, path)
	}
	limit := spareTokensBytes + tokensPerByte*len(body)
	b, err := io.ReadAll(io.LimitReader(res.Body, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if len(b) > limit {
		return nil, fmt.Errorf("%w: it has more than %d bytes for a question of %d", errTokenized, limit, len(body))
	}
	return parseTokens(b)
}

// parseTokens reads the answer of /tokenize or of a render.
func parseTokens(b []byte) ([]uint32, error) {
	var a struct {
		Count    *int64   `json:"count"`
		Tokens   []uint32 `json:"tokens"`
		TokenIDs []uint32 `json:"token_ids"`
	}
	if err := json.Unmarshal(b, &a); err != nil {
		return nil, fmt.Errorf("%w: %w", errTokenized, err)
	}
	toks := a.Tokens
	if len(toks) == 0 {
		toks = a.TokenIDs
	}
	switch {
	case len(toks) == 0:
		return nil, fmt.Errorf("%w: neither tokens nor token_ids", errTokenized)
	case a.Count != nil && *a.Count != int64(len(toks)):
		return nil, fmt.Errorf("%w: %d tokens, and it says %d", errTokenized, len(toks), *a.Count)
	}
	return slices.Clone(toks), nil // what reading them took is more, and is not kept
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

// turnEnd is a place in a prompt at which a turn ends.
type turnEnd struct {
	sum   uint64
	bytes int
}

// prepare gives p the tokens that are known of it, or of a beginning. For those of a
// prompt of which nothing is known it waits, t.wait at most.
func (x *exacts) prepare(ctx context.Context, p *prompt, model string) {
	t := x.tokens
	p.tokens, p.whole, p.tokensOf, p.bytesOf = nil, nil, 0, 0
	if !p.hashing || p.state != readWhole {
		return
	}
	if _, ok := kind(p.path); !ok {
		t.metrics.tokens[tokensUnsupported].Inc()
		return
	}
	p.sum = p.hash.Sum64()
	p.salt = saltOf(p.body, p.peek.PromptSpan)
	if z, ok := t.get(p.sum); ok {
		t.metrics.tokens[tokensKnown].Inc()
		p.take(z)
		return
	}
	from := x.all.Load().models[model]
	q, outcome := t.ask(p, model, from)
	if z, at := t.longest(p.turnEnds()); z != nil && len(z.tokens) > seamTokens {
		t.metrics.tokens[tokensExtended].Inc()
		p.tokens, p.tokensOf, p.bytesOf = z.tokens[:len(z.tokens)-seamTokens], len(z.tokens), p.turnEnds()[at].bytes
		return
	}
	if q == nil {
		t.metrics.tokens[outcome].Inc()
		return
	}
	if t.wait > 0 && q.by.late.Load() < slowAfter {
		timer := time.NewTimer(t.wait)
		defer timer.Stop()
		select {
		case <-q.done:
		case <-timer.C:
			q.by.late.Add(1)
		case <-ctx.Done():
		}
	}
	if z, ok := t.get(p.sum); ok {
		t.metrics.tokens[tokensFetched].Inc()
		p.take(z)
		return
	}
	t.metrics.tokens[tokensLate].Inc()
}

// take gives p all of its tokens.
func (p *prompt) take(z *tokenized) {
	p.whole, p.tokens, p.tokensOf, p.bytesOf = z, z.tokens, len(z.tokens), p.chain.Bytes()
}

// saltOf returns the cache salt of a body, "" if it has none. It stands outside the
// messages, which are long.
func saltOf(body []byte, messages openai.Span) string {
	key := []byte(`"cache_salt"`)
	if !bytes.Contains(body[:messages.Start], key) && !bytes.Contains(body[messages.End:], key) {
		return ""
	}
	var with struct {
		Salt string `json:"cache_salt"`
	}
	if json.Unmarshal(body, &with) != nil || len(with.Salt) > maxSaltBytes {
		return ""
	}
	return with.Salt
}

// maxSaltBytes bounds a salt that is looked at.
const maxSaltBytes = 4096

// tokensOutcome is how a request came to its prompt's tokens, or not.
type tokensOutcome uint8

const (
	tokensKnown       tokensOutcome = iota // they were known
	tokensExtended                         // those of a beginning were known
	tokensFetched                          // an engine said them in time
	tokensLate                             // it did not in time
	tokensBusy                             // the engines are asked as much as they may
	tokensAbsent                           // no engine is there to ask
	tokensUnsupported                      // no engine tokenizes such a request
	tokensFailed                           // an engine was asked in vain; beside one of those above
	tokensWrong                            // they were not as many as the engine then had; beside one of those above
	tokensOutcomes
)

// String returns the outcome as metrics name it.
func (o tokensOutcome) String() string {
	return [tokensOutcomes]string{
		"known", "extended", "fetched", "late", "busy", "absent", "unsupported", "failed", "wrong",
	}[o]
}

var _ scrape.EventSink = (*follower)(nil)
var _ kvevents.Watcher = (*follower)(nil)
