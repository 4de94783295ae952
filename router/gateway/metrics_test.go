package gateway_test

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router/gateway"
)

// What is there to be seen of a data plane that has served.
func TestMetricFamilies(t *testing.T) {
	e := newSim(t, nil)
	cfg := config(at("e", e.url), at("dead", deadURL(t)))
	cfg.Models = []catalog.Model{{Name: "gone", Fallbacks: []string{"m"}}, {Name: "m"}}
	f := newFleet(t, cfg)
	f.run()
	f.eventually("the engine's load is read", func() bool { return f.metric("llmgw_scrape_scrapes_total", "outcome=ok") > 0 })
	for range 20 {
		f.stream()
		f.do("POST", chatPath, `{"model":"gone","messages":[{"role":"user","content":"x"}],"max_tokens":2}`)
	}
	f.do("POST", chatPath, "no JSON")
	want := []string{
		"llmgw_endpoint_breaker_openings_total",
		"llmgw_endpoint_cooldowns_total",
		"llmgw_endpoint_engine_kv_capacity_tokens", "llmgw_endpoint_engine_kv_used_ratio",
		"llmgw_endpoint_engine_preemptions_total",
		"llmgw_endpoint_engine_prefix_hit_tokens_total",
		"llmgw_endpoint_engine_prefix_query_tokens_total",
		"llmgw_endpoint_engine_running_requests",
		"llmgw_endpoint_engine_waiting_requests",
		"llmgw_endpoint_inflight_requests",
		"llmgw_endpoint_last_used_timestamp_seconds",
		"llmgw_endpoint_load_timestamp_seconds",
		"llmgw_endpoint_recent_failures",
		"llmgw_endpoint_state",
		"llmgw_endpoint_weight_ratio",
		"llmgw_prefix_agreed_tokens_total", "llmgw_prefix_cached_tokens_total", "llmgw_prefix_endpoints",
		"llmgw_prefix_event_lag_seconds", "llmgw_prefix_evicted_total", "llmgw_prefix_exact_agreed_tokens_total",
		"llmgw_prefix_exact_blocks", "llmgw_prefix_exact_cached_tokens_total", "llmgw_prefix_exact_endpoints",
		"llmgw_prefix_exact_hits_total", "llmgw_prefix_exact_lookups_total", "llmgw_prefix_exact_orphans_total",
		"llmgw_prefix_exact_overflows_total", "llmgw_prefix_exact_predicted_tokens_total", "llmgw_prefix_followed_endpoints",
		"llmgw_prefix_hits_total", "llmgw_prefix_index_bytes", "llmgw_prefix_lookups_total",
		"llmgw_prefix_picks_total", "llmgw_prefix_predicted_tokens_total", "llmgw_prefix_send_hits_total",
		"llmgw_prefix_sends_total", "llmgw_prefix_tokenize_seconds", "llmgw_prefix_tokens_bytes",
		"llmgw_prefix_tokens_total", "llmgw_prefix_underway", "llmgw_prefix_underway_overflows_total",
		"llmgw_proxy_dials_total",
		"llmgw_proxy_failures_total",
		"llmgw_proxy_replays_total",
		"llmgw_proxy_stale_connections_total",
		"llmgw_router_body_memory_bytes",
		"llmgw_router_body_memory_limit_bytes",
		"llmgw_router_errors_total",
		"llmgw_router_fallbacks_total",
		"llmgw_router_panics_total",
		"llmgw_router_request_duration_seconds",
		"llmgw_router_requests_in_flight",
		"llmgw_router_requests_total",
		"llmgw_router_response_pins",
		"llmgw_router_response_pins_evicted_total",
		"llmgw_router_retries_total",
		"llmgw_router_retry_budget_exhausted_total",
		"llmgw_router_spool_bytes",
		"llmgw_router_spool_limit_bytes",
		"llmgw_router_stored_lookups_total",
		"llmgw_router_tokens_total",
		"llmgw_router_tpot_seconds",
		"llmgw_router_ttft_seconds",
		"llmgw_schedule_decisions_total",
		"llmgw_schedule_filter_drops_total",
		"llmgw_schedule_prefix_decisions_total",
		"llmgw_schedule_reconsidered_total",
		"llmgw_schedule_vote_ratio",
		"llmgw_scrape_duration_seconds",
		"llmgw_scrape_scrapes_total",
		"llmgw_scrape_slot_wait_seconds",
	}
	if diff := cmp.Diff(want, f.families()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	problems, err := testutil.GatherAndLint(f.reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	f.idle()
	for name, want := range map[string]float64{
		"llmgw_router_requests_total": 41, "llmgw_router_request_duration_seconds": 41, "llmgw_router_ttft_seconds": 20,
		"llmgw_router_tpot_seconds": 20, "llmgw_router_fallbacks_total": 20, "llmgw_router_errors_total": 1,
	} {
		if got := f.metric(name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if got := f.metric("llmgw_router_tokens_total", "model=m", "kind=completion"); got != 160 {
		t.Errorf("%v tokens", got)
	}
	// The series of an endpoint go with it.
	if err := f.gw.Reload(config(at("e", e.url))); err != nil {
		t.Fatal(err)
	}
	for key := range f.series() {
		if strings.Contains(key, "endpoint=dead") {
			t.Errorf("%s is still there", key)
		}
	}
}

// Nothing that a client makes up makes a series.
func TestSeriesAreBounded(t *testing.T) {
	e := newRaw(t, good)
	f := newFleet(t, config(at("e", e.url)))
	hostile := func(i int) {
		name := fmt.Sprint(rand.Text(), "\n{}\"", i)
		f.do("POST", chatPath, fmt.Sprintf(`{"model":%q}`, name))
		f.do("GET", "/v1/models/"+rand.Text(), "")
		f.do("POST", "/v1/"+rand.Text(), chatBody)
		f.do("POST", "/"+rand.Text(), chatBody)
		f.do(strings.ToUpper(rand.Text()[:8]), chatPath, "")
		f.do("POST", chatPath, chatBody, "X-Session-Id", rand.Text(), "Content-Encoding", rand.Text())
		f.do("POST", chatPath, `{"model":"m","user":"`+rand.Text()+`"}`)
	}
	hostile(0)
	before := f.series()
	for i := range 100 {
		hostile(i)
	}
	for key := range f.series() {
		if _, ok := before[key]; !ok {
			t.Errorf("%s is new", key)
		}
	}
	f.idle()
}

// TestBandsAreBounded: what clients write for a band, a session or a user is no
// label of admission, and a band that there is not is refused and counted as one.
func TestBandsAreBounded(t *testing.T) {
	e := newRaw(t, good)
	f := newFleet(t, config(at("e", e.url)), func(d *gateway.Deps) { d.Admitter = nil })
	hostile := func() {
		if a := f.do("POST", chatPath, chatBody, "X-Llmgw-Band", rand.Text()); a.status != 400 || a.code() != "unknown_band" {
			t.Fatalf("%d %s", a.status, a.body)
		}
		f.do("POST", chatPath, chatBody, "X-Llmgw-Band", "bronze", "X-Session-Id", rand.Text())
		f.do("POST", chatPath, `{"model":"m","user":"`+rand.Text()+`"}`)
	}
	hostile()
	before := f.series()
	for range 100 {
		hostile()
	}
	for key := range f.series() {
		if _, ok := before[key]; !ok {
			t.Errorf("%s is new", key)
		}
	}
	if n := f.metric("llmgw_admission_unknown_bands_total"); n != 101 {
		t.Errorf("%v requests are counted for bands that there are not, want 101", n)
	}
	f.idle()
}
