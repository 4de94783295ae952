package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// errCut says that an answer ended before its last event.
var errCut = errors.New("the stream was cut")

// stream asks for a streamed answer of so many tokens and reads it to its end.
// First is called at its first token.
func stream(ctx context.Context, c *http.Client, url, model string, tokens int, first func()) error {
	body := fmt.Sprintf(`{"model":%q,"prompt":"once upon a time","stream":true,"max_tokens":%d,"ignore_eos":true}`, model, tokens)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := bufio.NewReader(resp.Body).ReadString('\n')
		return fmt.Errorf("%s: %s", resp.Status, text)
	}
	got, done := 0, false
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		event, isData := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !isData:
		case event == "[DONE]":
			done = true
		case strings.Contains(event, `"error"`):
			return fmt.Errorf("an error after %d tokens: %s", got, event)
		default:
			if got++; got == 1 && first != nil {
				first()
			}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%w after %d tokens: %w", errCut, got, err)
	}
	if !done || got < tokens {
		return fmt.Errorf("%w after %d tokens of %d", errCut, got, tokens)
	}
	return nil
}

// traffic is clients that stream without a pause, and what became of it.
type traffic struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	whole  int     // guarded by mu
	failed []error // guarded by mu
}

// traffic begins to stream from a model, by some clients at once.
func (r *router) traffic(t *testing.T, model string, clients int) *traffic {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	tr := &traffic{cancel: cancel}
	client := &http.Client{Transport: &http.Transport{}}
	for range clients {
		tr.wg.Go(func() {
			for ctx.Err() == nil {
				begin := time.Now()
				err := stream(ctx, client, r.client, model, 20, nil)
				if ctx.Err() != nil {
					return
				}
				tr.mu.Lock()
				if err == nil {
					tr.whole++
				} else {
					tr.failed = append(tr.failed, fmt.Errorf("%v: begun %v before: %w", time.Now().Format(time.TimeOnly), time.Since(begin), err))
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

// end ends the traffic and returns what counted does.
func (tr *traffic) end() (whole int, failed []error) {
	tr.cancel()
	tr.wg.Wait()
	return tr.counted()
}
