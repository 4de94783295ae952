package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/scrape"
)

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
