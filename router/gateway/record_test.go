package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/router/gateway/flight"
	"github.com/llmgw/llmgw/router/routertest"
	"github.com/llmgw/llmgw/router/schedule"
	"github.com/llmgw/llmgw/storage/record"
)

// recorded is a configuration with a log, and the log's directory.
func recorded(t testing.TB, endpoints ...gateway.Endpoint) (gateway.Config, string) {
	cfg := config(endpoints...)
	cfg.Recorder.Dir = filepath.Join(t.TempDir(), "record")
	return cfg, cfg.Recorder.Dir
}

// runUntil runs the gateway; the function returned ends it and waits.
func (f *fleet) runUntil() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.gw.Run(ctx) }()
	return func() {
		f.t.Helper()
		cancel()
		if err := <-ended; err != nil {
			f.t.Error(err)
		}
	}
}

func replay(t testing.TB, dir string, opts flight.Options) *flight.Report {
	t.Helper()
	log, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	report, err := flight.Replay(t.Context(), log, opts)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// What a gateway decided is in the log, is decided again to the same bytes, and
// the log has no word of what was said, nor of who said it.
func TestRecordIsReplayed(t *testing.T) {
	a, b := newSim(t, nil), newSim(t, nil)
	cfg, dir := recorded(t, at("engine-a", a.url), at("engine-b", b.url), first(at("dead", deadURL(t))))
	cfg.Admission.Core.Enabled = true
	cfg.Router.Core.RetryBudgetMin = 1000
	f := newFleet(t, cfg, func(d *gateway.Deps) {
		d.Admitter = nil
		d.Caller = routertest.Callers{"canary-key": {Tenant: "canary-tenant"}, "": {}}
		d.Writer = "test v1"
	})
	stop := f.runUntil()
	shared := strings.Repeat("canary-prompt is what everybody begins with. ", 60)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			body := fmt.Sprintf(`{"model":"m","stream":%v,"user":"canary-session-%d","max_tokens":4,"messages":[{"role":"user","content":"%s %d"}]}`,
				i%2 == 0, i%5, shared, i)
			if got := f.do(http.MethodPost, "/v1/chat/completions", body, "Authorization", "Bearer canary-key",
				"X-Request-Id", fmt.Sprintf("canary-request-%d", i)); got.status != http.StatusOK {
				t.Errorf("%d: %d %s", i, got.status, got.body)
			}
		})
	}
	wg.Wait()
	f.do(http.MethodPost, "/v1/chat/completions", `{"model":"m","messages":[]}`, "X-Llmgw-Band", "canary-band")
	stop()

	var outcomes []*flight.Outcome
	report := replay(t, dir, flight.Options{Outcome: func(o *flight.Outcome) { outcomes = append(outcomes, o) }})
	if !report.OK() || len(report.Notes) > 0 || report.Dropped > 0 {
		t.Errorf("%+v", report)
	}
	if c := report.Routes; c.Recorded < 41 || c.Replayed != c.Recorded {
		t.Errorf("routes: %+v, want all of 41 or more (one engine is dead)", c)
	}
	if c := report.Admission; c.Recorded < 82 || c.Replayed != c.Recorded {
		t.Errorf("admission: %+v, want an offer and a release of each of 41", c)
	}
	if len(report.Writers) != 1 || report.Writers[0] != "test v1" {
		t.Errorf("writers %v", report.Writers)
	}
	sessions, alike := map[uint64]int{}, 0
	for _, o := range outcomes {
		if o.Result != router.ResultOK.String() {
			continue
		}
		sessions[o.Session]++
		if n, ok := o.OutputTokens.Get(); !ok || n < 1 {
			t.Errorf("%d output tokens, known %v", n, ok)
		}
		if ttft, ok := o.TTFT(); !ok || ttft <= 0 {
			t.Errorf("first content after %v, known %v", ttft, ok)
		}
		if len(o.Blocks) < 2 || o.BlockBytes != flight.BlockBytes {
			t.Errorf("%d blocks of %d bytes, want those of a prompt of %d bytes", len(o.Blocks), o.BlockBytes, len(shared))
		} else if o.Blocks[0] == outcomes[0].Blocks[0] {
			alike++
		}
	}
	if len(sessions) != 5 || alike < 40 {
		t.Errorf("%d sessions, %d prompts that begin alike; want 5, 40", len(sessions), alike)
	}

	files, err := filepath.Glob(filepath.Join(dir, "*.rec"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if at := bytes.Index(data, []byte("canary")); at >= 0 {
			t.Errorf("%s has %q", name, data[at:min(at+40, len(data))])
		}
		// Nor what can be found by trying: the hash that sessions have without a key.
		for i := range 5 {
			var d schedule.Decision
			s, err := schedule.New(schedule.DefaultConfig(), schedule.Deps{})
			if err != nil {
				t.Fatal(err)
			}
			_, _, _ = s.Decide("", &schedule.Request{Session: fmt.Sprintf("canary-session-%d", i)}, nil, nil, &d)
			if bare := [8]byte(littleEndian(d.SessionHash)); bytes.Contains(data, bare[:]) {
				t.Errorf("session %d is there under a hash without a key", i)
			}
		}
	}
	if data, err := os.ReadFile(dir + ".key"); err != nil || len(data) != 33 {
		t.Errorf("key file: %q, %v", data, err)
	}
}

func littleEndian(v uint64) (b []byte) {
	for range 8 {
		b, v = append(b, byte(v)), v>>8
	}
	return b
}

// An operator asks why a request went where it did, by its id.
func TestDecisions(t *testing.T) {
	a, b := newSim(t, nil), newSim(t, nil)
	cfg := config(at("engine-a", a.url), at("engine-b", b.url), first(at("dead", deadURL(t))))
	f := newFleet(t, cfg, func(d *gateway.Deps) { d.Caller = routertest.Callers{"": {Tenant: "blue"}} })
	for i := range 5 {
		if got := f.do(http.MethodPost, "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hello"}]}`,
			"X-Request-Id", fmt.Sprintf("req_%d", i)); got.status != http.StatusOK {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
	page := newServer(t, f.gw.DecisionsHandler())
	get := func(query string, header ...string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page+"/debug/decisions"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		for i := 0; i+1 < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		f.gw.DecisionsHandler().ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}

	_, text := get("?request=req_0")
	var doc struct{ Decisions []flight.Recent }
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if len(doc.Decisions) < 2 {
		t.Fatalf("%d decisions of the request that was tried at the dead engine first: %s", len(doc.Decisions), text)
	}
	last, before := doc.Decisions[0], doc.Decisions[1]
	if last.Request != "req_0" || last.Attempt != 2 || before.Attempt != 1 || before.Decision.Picked != "dead" {
		t.Errorf("not the newest first: %s", text)
	}
	x := last.Decision
	if x.Tenant != "blue" || x.Model != "m" || len(x.Candidates) != 2 || len(x.Candidates[0].Votes) == 0 || x.Candidates[0].Score == 0 {
		t.Errorf("not whole: %s", text)
	}
	if len(x.Dropped) != 1 || x.Dropped[0].Endpoint != "dead" || x.Dropped[0].Filter != "untried" {
		t.Errorf("dropped: %+v", x.Dropped)
	}
	if o := last.Outcome; o == nil || o.Result != "ok" || o.Status != 200 || o.Endpoint != x.Picked || o.PromptTokens == nil {
		t.Errorf("outcome: %s", text)
	}

	for query, want := range map[string]int{"?n=2": 2, "?n=2&model=m": 2, "?model=other": 0, "?request=nobody": 0} {
		_, text := get(query)
		if err := json.Unmarshal([]byte(text), &doc); err != nil || len(doc.Decisions) != want {
			t.Errorf("%s: %d decisions, want %d: %v", query, len(doc.Decisions), want, err)
		}
	}
	for _, header := range [][]string{{"Accept", "text/plain"}, nil} {
		query := "?request=req_0"
		if header == nil {
			query += "&format=text"
		}
		if _, text := get(query, header...); !strings.Contains(text, "req_0  m  attempt 2") || !strings.Contains(text, "chat picks engine-") ||
			!strings.Contains(text, "ok 200 by engine-") {
			t.Errorf("as text: %s", text)
		}
	}
	for _, query := range []string{"?n=0", "?n=x", "?n=1001", "?format=xml"} {
		if code, text := get(query); code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, code, text)
		}
	}

	// An endpoint that is gone keeps its name.
	empty := cfg
	empty.Endpoints = cfg.Endpoints[:1]
	if err := f.gw.Reload(empty); err != nil {
		t.Fatal(err)
	}
	if list := f.gw.Decisions(flight.Query{Request: "req_0"}); len(list) < 2 || list[1].Decision.Picked != "dead" {
		t.Errorf("after the endpoint has gone: %+v", list)
	}

	off := cfg
	off.Recorder.RingBytes = 0
	g := newFleet(t, off)
	w := httptest.NewRecorder()
	g.gw.DecisionsHandler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if w.Code != http.StatusNotFound || g.gw.Decisions(flight.Query{}) != nil {
		t.Errorf("without a ring: %d %s", w.Code, w.Body)
	}
}

// A directory that cannot be written to is told of once and counted, and requests
// are served.
func TestRecorderWithoutItsDirectory(t *testing.T) {
	e := newSim(t, nil)
	cfg := config(at("a", e.url))
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Recorder.Dir = filepath.Join(file, "record") // below what is no directory
	f := newFleet(t, cfg)
	stop := f.runUntil()
	for range 3 {
		if got := f.do(http.MethodPost, "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hello"}]}`); got.status != http.StatusOK {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	f.eventually("the log is missed", func() bool { return strings.Contains(f.log.String(), "the recorder's log cannot be written") })
	stop()
	if n := strings.Count(f.log.String(), "the recorder's log cannot be written"); n != 1 {
		t.Errorf("told %d times", n)
	}
	if n := f.metric("llmgw_record_disk_errors_total"); n < 1 {
		t.Errorf("%v errors counted", n)
	}
	if n := f.metric("llmgw_record_dropped_total", "reason=lost"); n < 6 {
		t.Errorf("%v records lost, want 3 decisions and 3 outcomes or more", n)
	}
	if len(f.gw.Decisions(flight.Query{})) != 3 {
		t.Error("the ring has not the 3 decisions")
	}
}

// A key file that holds no key is a fault of the configuration.
func TestRecorderKeyFile(t *testing.T) {
	cfg, dir := recorded(t)
	if err := os.WriteFile(dir+".key", []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := gateway.New(cfg, gateway.Deps{})
	if err == nil || !strings.Contains(err.Error(), "recorder.key_file") || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}

// TestRecorderConfig: what makes no sense is refused by its key.
func TestRecorderConfig(t *testing.T) {
	for key, change := range map[string]func(*gateway.Recorder){
		"recorder.ring_bytes":    func(r *gateway.Recorder) { r.RingBytes = 1000 },
		"recorder.max_bytes":     func(r *gateway.Recorder) { r.MaxBytes = 1 },
		"recorder.max_age":       func(r *gateway.Recorder) { r.MaxAge = 0 },
		"recorder.sync_interval": func(r *gateway.Recorder) { r.SyncInterval = -1 },
		"recorder.key_file":      func(r *gateway.Recorder) { r.KeyFile = "k" },
	} {
		cfg := gateway.DefaultConfig()
		change(&cfg.Recorder)
		if err := cfg.Validate(); err == nil || !strings.HasPrefix(err.Error(), key+":") {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// witness is an embedder's recorder that wants to know each decision.
type witness struct {
	routertest.Log
	mu     sync.Mutex
	picked []string // guarded by mu
}

func (w *witness) RecordDecision(o *router.Outcome, _ bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.picked = append(w.picked, fmt.Sprintf("%s %d %d", o.ID, o.Attempts, o.Decision.Picked))
}

// An embedder's recorder that asks for it is told of each decision, and a log of
// the embedder's own is written to.
func TestEmbeddersLog(t *testing.T) {
	cfg := record.DefaultConfig()
	cfg.Dir = t.TempDir()
	log, err := record.New(cfg, record.Deps{Key: record.NewKey(), Writer: "embedder"})
	if err != nil {
		t.Fatal(err)
	}
	w := new(witness)
	e := newSim(t, nil)
	f := newFleet(t, config(at("a", e.url), first(at("dead", deadURL(t)))), func(d *gateway.Deps) { d.Recorder, d.Log = w, log })
	if got := f.do(http.MethodPost, chatPath, chatBody, "X-Request-Id", "r"); got.status != http.StatusOK {
		t.Fatalf("%d %s", got.status, got.body)
	}
	f.eventually("the outcome is recorded", func() bool { return len(w.Outcomes()) == 1 })
	w.mu.Lock()
	if len(w.picked) != 2 || w.picked[0] != "r 0 1" || w.picked[1] != "r 1 0" {
		t.Errorf("told of %q", w.picked)
	}
	w.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := log.Run(ctx); err != nil { // writes what there is
		t.Fatal(err)
	}
	if r := replay(t, cfg.Dir, flight.Options{}); r.Routes.Replayed != 2 || r.Outcomes != 1 || r.Writers[0] != "embedder" || len(r.Pool) != 2 {
		t.Errorf("%+v", r)
	}
}
