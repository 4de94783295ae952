package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// budget is how long a client waits for an answer, as many do.
const budget = 30 * time.Second

// refusal is an answer that a client may come again after.
type refusal struct {
	status     int
	code       string
	retryAfter time.Duration
	message    string
}

func (r *refusal) Error() string {
	return fmt.Sprintf("%d %s, Retry-After %v: %s", r.status, r.code, r.retryAfter, r.message)
}

// ask asks a model for a few words, once. An answer of another kind is a *refusal.
func ask(ctx context.Context, url, model string) error {
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"Hello"}],"max_tokens":3,"ignore_eos":true}`, model)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var doc struct {
		Usage struct {
			Completion int `json:"completion_tokens"`
		}
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return fmt.Errorf("%d %s: %w", resp.StatusCode, text, err)
	}
	if resp.StatusCode != http.StatusOK {
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return &refusal{resp.StatusCode, doc.Error.Code, time.Duration(seconds) * time.Second, doc.Error.Message}
	}
	if doc.Usage.Completion != 3 {
		return fmt.Errorf("answered %s; want 3 tokens", text)
	}
	return nil
}

// askUntil asks as a client does that comes again when it is told to, until it has its
// answer. Each time it must be served, or told when to come, within its budget.
func askUntil(t *testing.T, url, model string) (told int) {
	t.Helper()
	for deadline := time.Now().Add(2 * patience); time.Now().Before(deadline); told++ {
		err := ask(t.Context(), url, model)
		var r *refusal
		switch {
		case err == nil:
			return told
		case !errors.As(err, &r) || r.status != 503 || r.code != "model_loading" && r.code != "model_unplaced" || r.retryAfter < time.Second || r.retryAfter > 8*time.Second:
			t.Errorf("%s: %v; want an answer, or 503 with when to come again", model, err)
			return told
		}
		time.Sleep(r.retryAfter)
	}
	t.Errorf("%s: told %d times to come again, and never served", model, told)
	return told
}

// Ten models on two cards. A hundred first requests at once start one engine, and each
// of them is served, or told within its budget and served then. Each model is served in
// turn, the others making room for it.
func TestTenModelsOnTwoCards(t *testing.T) {
	t.Parallel()
	const models, requests = 10, 100
	w := newWorld(t)
	w.lostAfter = "4s, residence: 0s"
	var catalog strings.Builder
	catalog.WriteString("on_demand: {wait: 8s}\nmodels:\n")
	for i := range models {
		options := ""
		if i == 0 { // longer than a request waits
			options = ", options: {load_time: 10s}"
		}
		fmt.Fprintf(&catalog, "  - {name: m%d, source: sim/m%d, profile: {engine: sim%s}, scaling: {max: 1}}\n", i, i, options)
	}
	s := w.server(catalog.String())
	url := "http://" + s.serving(t)["listen"]
	n := w.node(nodeOptions{id: "n1", servers: []string{"http://" + s.agents}, cards: 2, slim: true})
	n.start()
	until(t, "the node is there", func() bool { return strings.Contains(w.ctl(s, "nodes"), "n1") })
	if got := len(n.started(t)); got != 0 {
		t.Fatalf("%d engines were started, and nobody has asked", got)
	}

	var clients sync.WaitGroup
	var mu sync.Mutex
	told := 0
	for range requests {
		clients.Go(func() {
			times := askUntil(t, url, "m0")
			mu.Lock()
			told += times
			mu.Unlock()
		})
	}
	clients.Wait()
	if got := len(n.started(t)); got != 1 {
		t.Errorf("%d engines were started for %d requests", got, requests)
	}
	if told == 0 {
		t.Error("nobody was told to come again, of a model that loads for longer than a request waits")
	}
	for i := 1; i < models; i++ {
		askUntil(t, url, fmt.Sprint("m", i))
	}
	if got := len(n.started(t)); got != models {
		t.Errorf("%d engines were started for %d models", got, models)
	}
	var r *refusal
	if err := ask(t.Context(), url, "m10"); !errors.As(err, &r) || r.status != 404 || r.code != "model_not_found" {
		t.Errorf("of a model that there is not: %v", err)
	}
}
