package gateway_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/router/gateway"
)

// chatWith is a chat request with more members at its front.
func chatWith(members string) string {
	return `{` + members + `"model":"m","messages":[{"role":"user","content":"Hello"}]}`
}

// An engine that orders its queue by priority is told the band's, in the sense in
// which it reads it, whatever the client asked for; another one gets what the
// client sent.
func TestAdmissionTellsPriority(t *testing.T) {
	for _, test := range []struct {
		name       string
		engine     engines.Name
		scheduling bool
		admission  bool
		band       string
		sent, want string
		header     string // of vLLM, as the engine gets it
	}{
		{"vllm runs the lower first", engines.VLLM, true, true, "platinum", ``, `"priority":-400,`, ""},
		{"sglang runs the higher first", engines.SGLang, true, true, "bronze", ``, `"priority":100,`, ""},
		{"no band asked for", engines.VLLM, true, true, "", ``, `"priority":-300,`, ""},
		{"a client does not jump the queue", engines.VLLM, true, true, "bronze", `"priority":-999999,`, `"priority":-100,`, ""},
		{"the last of two counts", engines.SGLang, true, true, "bronze", `"priority":1,"priority":9e9,`, `"priority":1,"priority":100,`, ""},
		{"it does not order by priority", engines.VLLM, false, true, "platinum", `"priority":5,`, `"priority":5,`, ""},
		{"without admission there is no band", engines.VLLM, true, false, "platinum", `"priority":5,`, `"priority":5,`, "-7"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := make(chan [2]string, 1) // body and header
			e := newRaw(t, func(x *exchange) {
				got <- [2]string{string(x.body), x.req.Header.Get("X-Vllm-Priority")}
				good(x)
			})
			cfg := admitting(at("e", e.url))
			cfg.Admission.Core.Enabled = test.admission
			cfg.Endpoints[0].Engine, cfg.Endpoints[0].PriorityScheduling = test.engine, test.scheduling
			f := newAdmitting(t, cfg)
			send := []string{"X-Vllm-Priority", "-7"}
			if test.band != "" {
				send = append(send, "X-Llmgw-Band", test.band)
			}
			if a := f.do("POST", chatPath, chatWith(test.sent), send...); a.status != 200 {
				t.Fatalf("got %d %s", a.status, a.body)
			}
			if diff := cmp.Diff([2]string{chatWith(test.want), test.header}, <-got); diff != "" {
				t.Errorf("the engine's body and header (-want +got):\n%s", diff)
			}
			f.idle()
		})
	}
}

// A background response is answered before its work is done. It waits for its turn
// as any other, and counts until the engine's own numbers show its work.
func TestAdmissionOfBackground(t *testing.T) {
	k := newKeeper(t, "k")
	cfg := narrow(at("k", k.url))
	cfg.Router.Scrape.Interval, cfg.Router.Scrape.Timeout = 100*time.Millisecond, 50*time.Millisecond
	f := newAdmitting(t, cfg, func(d *gateway.Deps) { d.Charger = nil })
	f.run()
	begin := time.Now()
	for range 3 {
		if got := f.do("POST", responsesPath, `{"model":"m","input":"x","background":true}`); got.status != 200 {
			t.Fatalf("got %d %s", got.status, got.body)
		}
	}
	// Two must have waited for the ones before them, 0.25 s each.
	if took := time.Since(begin); took < 500*time.Millisecond {
		t.Errorf("three went through in %v", took)
	}
	f.idle()
}

// What an engine runs at once is what its endpoint says, what its page says, or
// what its kind usually does; and it is said once what is assumed.
func TestAdmissionCapacity(t *testing.T) {
	for _, test := range []struct {
		name, page string
		told       int
		want       float64
	}{
		{name: "unknown", want: 256},
		{name: "told", told: 7, want: 7},
		{name: "vllm", page: "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n", want: 256},
		{name: "llama.cpp", page: "llamacpp:requests_processing 0\nllamacpp:requests_deferred 0\n", want: 4},
		{name: "llama.cpp, told", page: "llamacpp:requests_processing 0\nllamacpp:requests_deferred 0\n", told: 32, want: 32},
		{name: "tgi", page: "tgi_batch_current_size 0\ntgi_queue_size 0\n", want: 128},
		{name: "trtllm says it", page: "trtllm_num_requests_running 0\ntrtllm_max_num_active_requests 48\n", want: 48},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := "/metrics"
			if strings.HasPrefix(test.page, "trtllm") {
				path = "/prometheus/metrics"
			}
			e := newRaw(t, func(x *exchange) {
				switch {
				case x.req.Method == "POST":
					good(x)
				case x.req.URL.Path == path && test.page != "":
					x.write(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(test.page), test.page))
				default:
					x.write(document(404, "{}"))
				}
			})
			cfg := admitting(at("e", e.url))
			cfg.Endpoints[0].MaxRunning = test.told
			cfg.Router.Scrape.Interval, cfg.Router.Scrape.Timeout = 100*time.Millisecond, 50*time.Millisecond
			var log logLines
			f := newAdmitting(t, cfg, func(d *gateway.Deps) { d.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
			f.run()
			if got := f.chat(); got.status != 200 {
				t.Fatalf("got %d %s", got.status, got.body)
			}
			f.eventually(fmt.Sprint("a capacity of ", test.want), func() bool {
				return f.metric("llmgw_admission_capacity_requests", "pool=m") == test.want
			})
			if err := f.gw.Reload(cfg); err != nil {
				t.Fatal(err)
			}
			said := log.with("what engines run at once is assumed")
			if want := map[bool]int{true: 1}[test.told == 0]; len(said) != want {
				t.Errorf("said %q of what is assumed, want %d lines", said, want)
			}
		})
	}
}

// An endpoint that becomes another engine under the same name is not taken for the
// one before.
func TestAdmissionForgetsWithTheInstance(t *testing.T) {
	t.Parallel()
	small := newSim(t, func(c *sim.Config) {
		c.MaxNumSeqs = 2
		c.Timing.Step = 10 * time.Millisecond
	})
	large := newSim(t, nil)
	cfg := admitting(at("e", small.url))
	cfg.Router.Scrape.Interval, cfg.Router.Scrape.Timeout = 100*time.Millisecond, 50*time.Millisecond
	f := newAdmitting(t, cfg)
	f.run()
	var all []<-chan answer
	for range 40 {
		ended := make(chan answer, 1)
		all = append(all, ended)
		go func() {
			ended <- f.do("POST", chatPath, `{"model":"m","ignore_eos":true,"max_tokens":20,"messages":[{"role":"user","content":"Hello"}]}`)
		}()
	}
	capacity := func() float64 { return f.metric("llmgw_admission_capacity_requests", "pool=m") }
	f.eventually("the engine is known to run 2", func() bool { return capacity() == 2 })
	for _, ended := range all {
		if got := <-ended; got.status != 200 {
			t.Errorf("got %d %s", got.status, got.body)
		}
	}
	cfg = admitting(at("e", large.url))
	if err := f.gw.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	if got := f.chat(); got.status != 200 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	f.eventually("another engine is not the small one", func() bool { return capacity() == 256 })
}

// logLines is a log that can be read while it is written.
type logLines struct {
	mu  sync.Mutex
	all []string // guarded by mu
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(p))
	return len(p), nil
}

// with returns the lines that hold text.
func (l *logLines) with(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, line := range l.all {
		if strings.Contains(line, text) {
			out = append(out, line)
		}
	}
	return out
}
