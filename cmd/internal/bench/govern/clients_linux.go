package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/storage"
)

// account is a key and who uses it.
type account struct {
	name    string
	workers int
	modes   []string // one of them by chance

	budget           int64 // 10^-9; 0: none
	requests, tokens int64 // a minute; 0: any number
	concurrency      int64

	id, text string
}

// everything is the mix of those who are not counted at the engine: most of it
// goes well.
func everything() []string {
	modes := []string{modeError, modeError, modeHang, modeReset, modeCut, modeCut, modeSlow, modeSlow, modeLeave, modeLeave, modeLeave}
	for range 12 {
		modes = append(modes, modeStream)
	}
	for range 8 {
		modes = append(modes, modeDocument)
	}
	return modes
}

func whole() []string { return []string{modeStream, modeDocument} }

// make makes the account's key, as llmgw keys does.
func (a *account) make(ctx context.Context, keys auth.KeyStore) error {
	is, err := auth.NewIssuer(auth.IssuerDeps{Keys: keys})
	if err != nil {
		return err
	}
	spec := auth.Spec{Name: a.name, Limits: storage.Limits{
		RequestsPerMinute: some(a.requests), TokensPerMinute: some(a.tokens), Concurrency: some(a.concurrency),
	}}
	if a.budget > 0 {
		spec.Budget = fmt.Sprintf("%d.%09d/total", a.budget/nanos, a.budget%nanos)
	}
	made, err := is.Create(ctx, spec, auth.By{Actor: "govern"})
	if err != nil {
		return err
	}
	a.id, a.text = made.Key.ID, made.Secret.Reveal()
	return nil
}

const nanos = 1_000_000_000

func some(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

// period is that of the account's budget.
func (a *account) period() storage.BudgetPeriod {
	return storage.BudgetPeriod{KeyID: a.id, Period: storage.PeriodTotal}
}

// call is one request, as its client saw it.
type call struct {
	account    *account
	mode       string
	router     *router
	chosen     string // the ID that the client chose; empty: none
	told       string // the ID that the answer had; empty: no answer
	begin, end time.Time
	status     int    // 0: no answer
	code       string // of the error
	whole      bool   // the answer came to its end
}

// prompt is as long as the engine says, and no longer than is estimated, so that no
// request takes more tokens than it was charged before.
var prompt = strings.Repeat("word", promptTokens)

// maxTokens bounds answers, and worst is the most that a request may cost: its
// bytes and maxTokens, at a thousand a token.
const (
	maxTokens = 20
	price     = 1000
	worst     = (256 + maxTokens) * price
)

// send sends a request and reads the answer. It never fails: what went wrong is in
// the call.
func (a *account) send(ctx context.Context, to *router, mode, id string) call {
	c := call{account: a, mode: mode, router: to, chosen: id, begin: time.Now()}
	defer func() { c.end = time.Now() }()
	c.exchange(ctx)
	c.end = time.Now()
	return c
}

func (c *call) exchange(ctx context.Context) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	stream := c.mode == modeStream || c.mode == modeCut || c.mode == modeLeave
	body := fmt.Sprintf(`{"model":%q,"max_tokens":%d,"stream":%t,"messages":[{"role":"user","content":%q}]}`, model, maxTokens, stream, prompt)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.router.addr+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		panic(err) // the address is one
	}
	req.Header.Set("Authorization", "Bearer "+c.account.text)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Mode", c.mode)
	req.Header.Set("X-Key", c.account.name)
	if c.chosen != "" {
		req.Header.Set("X-Request-Id", c.chosen)
	}
	if c.mode == modeSlow {
		defer time.AfterFunc(slow/4, leave).Stop()
	}
	resp, err := c.router.client.Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	c.status, c.told = resp.StatusCode, resp.Header.Get("X-Request-Id")
	if c.mode == modeLeave && resp.StatusCode == http.StatusOK {
		_, _ = io.ReadAtLeast(resp.Body, make([]byte, 256), 256) // the first events
		return
	}
	answer, err := io.ReadAll(resp.Body)
	c.whole = err == nil && (resp.StatusCode != http.StatusOK || !stream || strings.HasSuffix(string(answer), "data: [DONE]\n\n"))
	if resp.StatusCode != http.StatusOK {
		var e struct {
			Error struct {
				Code any `json:"code"`
			} `json:"error"`
		}
		if json.Unmarshal(answer, &e) == nil {
			c.code = fmt.Sprint(e.Error.Code)
		}
	}
}

// crowd is the clients of all accounts.
type crowd struct {
	accounts []*account
	routers  *routers
	seed     uint64

	mu    sync.Mutex
	calls []call // guarded by mu
}

// run sends requests until ctx is done, and waits for their ends.
func (w *crowd) run(ctx context.Context) {
	var wg sync.WaitGroup
	n := uint64(0)
	for _, a := range w.accounts {
		for range a.workers {
			n++
			mine := n
			wg.Go(func() { w.work(ctx, a, mine) })
		}
	}
	wg.Wait()
}

func (w *crowd) work(ctx context.Context, a *account, n uint64) {
	rng := rand.New(rand.NewPCG(w.seed, n)) //nolint:gosec // to be the same again
	for i := 0; ctx.Err() == nil; i++ {
		to := w.routers.at[rng.IntN(len(w.routers.at))].Load()
		id := ""
		if rng.IntN(2) == 0 {
			id = fmt.Sprintf("c%d-%d", n, i)
		}
		// What was begun is ended, whatever time it is.
		c := a.send(context.WithoutCancel(ctx), to, a.modes[rng.IntN(len(a.modes))], id)
		w.mu.Lock()
		w.calls = append(w.calls, c)
		w.mu.Unlock()
		pause(ctx, time.Duration(5+rng.IntN(40))*time.Millisecond)
	}
}

// meet has every account known to every router.
func (w *crowd) meet(ctx context.Context) error {
	for _, a := range w.accounts {
		for i := range w.routers.at {
			for end := time.Now().Add(30 * time.Second); ; {
				c := a.send(ctx, w.routers.at[i].Load(), modeDocument, "")
				w.mu.Lock()
				w.calls = append(w.calls, c)
				w.mu.Unlock()
				if c.status != 0 && c.code != "keys_unavailable" {
					break
				}
				if time.Now().After(end) || !pause(ctx, 20*time.Millisecond) {
					return errors.New("a router does not come to know the keys")
				}
			}
		}
	}
	return nil
}
