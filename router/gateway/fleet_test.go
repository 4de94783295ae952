package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/router/routertest"
)

// at is an endpoint that serves the models, "m" if none is named.
func at(id, url string, models ...string) gateway.Endpoint {
	if len(models) == 0 {
		models = []string{"m"}
	}
	e := gateway.Endpoint{Spec: endpoint.Spec{ID: id, URL: url}}
	for _, m := range models {
		e.Models = append(e.Models, endpoint.Model{Name: m})
	}
	return e
}

// first makes an idle endpoint win over others.
func first(e gateway.Endpoint) gateway.Endpoint {
	e.Weight = 100
	return e
}

func config(endpoints ...gateway.Endpoint) gateway.Config {
	cfg := gateway.DefaultConfig()
	cfg.Endpoints = endpoints
	return cfg
}

// fleet is a gateway behind a real server, with everything that can be watched.
type fleet struct {
	t       testing.TB
	gw      *gateway.Gateway
	reg     *prometheus.Registry
	url     string
	client  *http.Client
	log     *logs
	records *routertest.Log
	meter   *routertest.Meter
	gate    *routertest.Gate
	seen    int // records looked at
}

func newFleet(t testing.TB, cfg gateway.Config, change ...func(*gateway.Deps)) *fleet {
	t.Helper()
	f := &fleet{
		t: t, reg: prometheus.NewRegistry(), log: &logs{},
		records: &routertest.Log{}, meter: &routertest.Meter{}, gate: &routertest.Gate{},
	}
	deps := gateway.Deps{
		Charger: f.meter, Admitter: f.gate, Recorder: f.records, Registerer: f.reg,
		Logger: slog.New(slog.NewJSONHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, c := range change {
		c(&deps)
	}
	var err error
	if f.gw, err = gateway.New(cfg, deps); err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{MaxIdleConnsPerHost: 2000, DisableCompression: true}
	f.client = &http.Client{Transport: tr}
	f.url = newServer(t, f.gw)
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		empty := cfg
		empty.Endpoints = nil
		if err := f.gw.Reload(empty); err != nil { // closes the connections to engines
			t.Error(err)
		}
	})
	return f
}

// newServer serves h until the test's end and returns its address.
func newServer(t testing.TB, h http.Handler) string {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	srv.Start()
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL
}

// run runs the gateway's own goroutines until the test's end.
func (f *fleet) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.gw.Run(ctx) }()
	f.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			f.t.Error(err)
		}
	})
}

// answer is what a client got.
type answer struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

// code is the error's code, "" if there is none.
func (a answer) code() string {
	var doc struct{ Error struct{ Code string } }
	_ = json.Unmarshal([]byte(a.body), &doc)
	return doc.Error.Code
}

// do sends a request; header holds names and values in turn.
func (f *fleet) do(method, path, body string, header ...string) answer {
	f.t.Helper()
	return f.doContext(f.t.Context(), method, path, body, header...)
}

func (f *fleet) doContext(ctx context.Context, method, path, body string, header ...string) answer {
	f.t.Helper()
	res, err := f.send(ctx, method, path, strings.NewReader(body), header...)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(b), err}
}

// doFrom is do for a POST; it closes began when the first byte has come.
func (f *fleet) doFrom(path, body string, began chan<- struct{}) answer {
	f.t.Helper()
	res, err := f.send(f.t.Context(), "POST", path, strings.NewReader(body))
	var one [1]byte
	if err == nil {
		defer func() { _ = res.Body.Close() }()
		_, err = io.ReadFull(res.Body, one[:])
	}
	close(began)
	if err != nil {
		return answer{err: err}
	}
	b, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(one[:]) + string(b), err}
}

func (f *fleet) send(ctx context.Context, method, path string, body io.Reader, header ...string) (*http.Response, error) {
	f.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, f.url+path, body)
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] != "" {
			req.Header.Set(header[i], header[i+1])
		}
	}
	return f.client.Do(req)
}

const (
	chatPath   = "/v1/chat/completions"
	chatBody   = `{"model":"m","messages":[{"role":"user","content":"Hello"}],"max_tokens":8}`
	streamBody = `{"model":"m","messages":[{"role":"user","content":"Hello"}],"max_tokens":8,"stream":true}`
)

func (f *fleet) chat() answer   { f.t.Helper(); return f.do("POST", chatPath, chatBody) }
func (f *fleet) stream() answer { f.t.Helper(); return f.do("POST", chatPath, streamBody) }

// next returns the next record.
func (f *fleet) next() router.Outcome {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 20*time.Second)
	defer cancel()
	o, err := f.records.Wait(ctx, f.seen)
	if err != nil {
		f.t.Fatal(err)
	}
	f.seen++
	return o
}

// idle fails the test unless everything that requests take was given back.
func (f *fleet) idle() {
	f.t.Helper()
	f.eventually("everything is given back", func() bool {
		return f.metric("llmgw_router_requests_in_flight") == 0 && f.metric("llmgw_endpoint_inflight_requests") == 0 &&
			f.metric("llmgw_router_body_memory_bytes") == 0 && f.metric("llmgw_router_spool_bytes") == 0 && f.meter.Open() == 0 && f.gate.Running() == 0 &&
			f.metric("llmgw_admission_leases") == 0 && f.metric("llmgw_admission_waiting_requests") == 0
	})
	if f.meter.Charged() != f.meter.Settled() || f.gate.Admitted() != f.gate.Released() {
		f.t.Errorf("charged %d, settled %d; admitted %d, released %d",
			f.meter.Charged(), f.meter.Settled(), f.gate.Admitted(), f.gate.Released())
	}
}

// eventually asks until the condition holds.
func (f *fleet) eventually(what string, holds func() bool) {
	f.t.Helper()
	eventually(f.t, what, holds)
}

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	every := time.NewTicker(time.Millisecond)
	defer every.Stop()
	for !holds() {
		select {
		case <-limit.C:
			t.Fatalf("it does not come to pass that %s", what)
		case <-every.C:
		}
	}
}

// series returns every series of the registry by name and labels. Histograms
// are shown by their count.
func (f *fleet) series() map[string]float64 {
	f.t.Helper()
	families, err := f.reg.Gather()
	if err != nil {
		f.t.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			key := family.GetName() + "{" + strings.Join(labels, ",") + "}"
			switch {
			case m.GetCounter() != nil:
				out[key] = m.GetCounter().GetValue()
			case m.GetGauge() != nil:
				out[key] = m.GetGauge().GetValue()
			case m.GetHistogram() != nil:
				out[key] = float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return out
}

// metric is the sum of a family's series that have all the labels, each
// written name=value.
func (f *fleet) metric(name string, labels ...string) float64 {
	f.t.Helper()
	var sum float64
	for key, v := range f.series() {
		family, has, _ := strings.Cut(strings.TrimSuffix(key, "}"), "{")
		set := strings.Split(has, ",")
		if family == name && !slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(set, l) }) {
			sum += v
		}
	}
	return sum
}

func (f *fleet) families() []string {
	f.t.Helper()
	names := map[string]bool{}
	for key := range f.series() {
		name, _, _ := strings.Cut(key, "{")
		names[name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// logs keeps what is logged.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
