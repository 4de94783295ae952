package e2e

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// router is `llmgw server` as a process of its own, with engines that it knows
// from its configuration.
type router struct {
	*program
	client string // URL
}

// router starts a router. Endpoints are URLs by the one model of each.
func (w *world) router(endpoints map[string]string) *router {
	w.t.Helper()
	var c strings.Builder
	c.WriteString(`
listen: 127.0.0.1:0
admin_listen: 127.0.0.1:0
log: {format: json}
shutdown: {grace: 0s, drain: 1s}
auth: {enabled: false}
endpoints:
`)
	for model, url := range endpoints {
		fmt.Fprintf(&c, "  - {id: %s, url: %q, engine: vllm, models: [{name: %s}]}\n", model, url, model)
	}
	r := &router{program: w.program("router", binary(w.t, "llmgw"), "server", "-c", w.write("router.yaml", c.String()))}
	r.start()
	r.client = "http://" + r.serving(w.t)["listen"]
	return r
}

// serving waits until an llmgw server, which logs as JSON, serves, and returns its
// listeners.
func (p *program) serving(t *testing.T) map[string]string {
	t.Helper()
	listeners := map[string]string{}
	until(t, p.name+" serves", func() bool {
		for line := range strings.Lines(text(p.log)[p.from:]) {
			var said map[string]any
			if json.Unmarshal([]byte(line), &said) != nil || said["msg"] != "serving" {
				continue
			}
			for key, value := range said {
				listeners[key] = fmt.Sprint(value)
			}
		}
		return len(listeners) > 0
	})
	return listeners
}

var (
	// errCut says that an answer ended before its last event.
	errCut = errors.New("the stream was cut")
	// errWrongModel says that another model answered than the one that was asked.
	errWrongModel = errors.New("the wrong model answered")
)

// result is what became of a request.
type result struct {
	router *router
	pick   string // the replica, where the router says so; "": it is not known
	status int    // 0: there was no answer
	tokens int    // that came
	begun  time.Time
	ended  time.Time
	err    error // nil: the answer is whole
}

// Unwrap returns what became of it.
func (r *result) Unwrap() error { return r.err }

// Error says when it was begun, and what became of it.
func (r *result) Error() string {
	at := ""
	if r.router != nil {
		at = r.router.name + ": "
	}
	return fmt.Sprintf("%sbegun %s, ended %v later, replica %s: %v", at, r.begun.Format(time.StampMilli), r.ended.Sub(r.begun).Round(time.Millisecond), cmp.Or(r.pick, "unknown"), r.err)
}

// streamed asks for a streamed answer of so many tokens and reads it to its end. First
// is called at its first token. An answer of another model than was asked fails.
func streamed(ctx context.Context, c *http.Client, url, model string, tokens int, first func()) (r result) {
	r.begun = time.Now()
	body := fmt.Sprintf(`{"model":%q,"prompt":"once upon a time","stream":true,"max_tokens":%d,"ignore_eos":true}`, model, tokens)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/completions", strings.NewReader(body))
	if err != nil {
		r.err = err
		return r
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Llmgw-Explain", "1")
	resp, err := c.Do(req)
	if err != nil {
		r.err = err
		return r
	}
	defer resp.Body.Close()
	r.status = resp.StatusCode
	_, pick, _ := strings.Cut(resp.Header.Get("X-Llmgw-Explain"), " pick=")
	r.pick, _, _ = strings.Cut(pick, " ")
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		r.err = fmt.Errorf("%s: %s", resp.Status, text)
		return r
	}
	r.err = r.read(bufio.NewScanner(resp.Body), model, tokens, first)
	return r
}

// read reads the events of an answer.
func (r *result) read(lines *bufio.Scanner, model string, tokens int, first func()) error {
	done := false
	for lines.Scan() {
		event, isData := strings.CutPrefix(lines.Text(), "data: ")
		if !isData {
			continue
		}
		if event == "[DONE]" {
			done = true
			continue
		}
		var said struct {
			Model string
			Error any
		}
		switch err := json.Unmarshal([]byte(event), &said); {
		case err != nil:
			return fmt.Errorf("%w in %q", err, event)
		case said.Error != nil:
			return fmt.Errorf("an error after %d tokens: %s", r.tokens, event)
		case said.Model != model:
			return fmt.Errorf("%w: %q, asked for %q", errWrongModel, said.Model, model)
		}
		if r.tokens++; r.tokens == 1 && first != nil {
			first()
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%w after %d tokens: %w", errCut, r.tokens, err)
	}
	if !done || r.tokens < tokens {
		return fmt.Errorf("%w after %d tokens of %d", errCut, r.tokens, tokens)
	}
	return nil
}

// stream is streamed for whoever wants to know no more than whether the answer is whole.
func stream(ctx context.Context, c *http.Client, url, model string, tokens int, first func()) error {
	r := streamed(ctx, c, url, model, tokens, first)
	return r.err
}

// through asks one router after the other as a load balancer in front of them does:
// the next one gets the request when nobody listens, the connection ends before
// the head of an answer, or the answer is 502, 503 or 504. It starts with the nth.
func through(ctx context.Context, c *http.Client, routers []*router, n int, model string, tokens int) (r result) {
	for i := range routers {
		at := routers[(n+i)%len(routers)]
		r = streamed(ctx, c, at.client, model, tokens, nil)
		r.router = at
		switch r.status {
		case 0, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		default:
			return r
		}
	}
	return r
}

// traffic is clients that stream without a pause, and what became of it.
type traffic struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	whole  int            // guarded by mu
	picks  map[string]int // guarded by mu; whole answers by replica
	failed []error        // guarded by mu; each a *result
}

// traffic begins to stream from a model, by some clients at once.
func (r *router) traffic(t *testing.T, model string, clients int) *traffic {
	t.Helper()
	return trafficOf(t, clients, func(ctx context.Context, c *http.Client, _ int) result {
		return streamed(ctx, c, r.client, model, 20, nil)
	})
}

// trafficOf has some clients make one request after the other; each is told how
// many it made before.
func trafficOf(t *testing.T, clients int, request func(context.Context, *http.Client, int) result) *traffic {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	tr := &traffic{cancel: cancel, picks: map[string]int{}}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	for i := range clients {
		tr.wg.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				r := request(ctx, client, n)
				if ctx.Err() != nil {
					return
				}
				r.ended = time.Now()
				tr.mu.Lock()
				if r.err == nil {
					tr.whole++
					tr.picks[r.pick]++
				} else {
					tr.failed = append(tr.failed, &r)
				}
				tr.mu.Unlock()
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		tr.wg.Wait()
		client.CloseIdleConnections()
	})
	return tr
}

// counted returns how many streams ended whole, and what became of the others.
func (tr *traffic) counted() (whole int, failed []error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.whole, tr.failed
}

// more waits until so many more streams have ended whole.
func (tr *traffic) more(t *testing.T, n int) {
	t.Helper()
	before, _ := tr.counted()
	eventually(t, func() string {
		whole, failed := tr.counted()
		if whole >= before+n {
			return ""
		}
		return fmt.Sprintf("%d streams of %d more were whole; failed: %v", whole-before, n, failed)
	})
}

// end ends the traffic and returns what counted does.
func (tr *traffic) end() (whole int, failed []error) {
	tr.cancel()
	tr.wg.Wait()
	return tr.counted()
}
