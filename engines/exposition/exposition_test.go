package exposition_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/exposition"
	"github.com/llmgw/llmgw/engines/llamacpp"
	"github.com/llmgw/llmgw/engines/lmdeploy"
	"github.com/llmgw/llmgw/engines/sglang"
	"github.com/llmgw/llmgw/engines/tei"
	"github.com/llmgw/llmgw/engines/tgi"
	"github.com/llmgw/llmgw/engines/trtllm"
	"github.com/llmgw/llmgw/engines/vllm"
)

func contracts() []engines.MetricContract {
	return []engines.MetricContract{
		vllm.Metrics(), sglang.Metrics(), llamacpp.Metrics(), tgi.Metrics(), trtllm.Metrics(), lmdeploy.Metrics(), tei.Metrics(),
	}
}

// show renders a load so that a difference reads well.
func show(l engines.Load) string {
	return fmt.Sprintf("running=%v waiting=%v kv=%v asked=%v hit=%v preempted=%v room=%v",
		l.Running, l.Waiting, l.KVUsedRatio, l.PrefixQueryTokens, l.PrefixHitTokens, l.Preemptions, l.KVCapacityTokens)
}

func page(tb testing.TB, name string) []byte {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

func TestReadEngines(t *testing.T) {
	tests := []struct {
		name string
		c    engines.MetricContract
		want string
	}{
		{"vllm.txt", vllm.Metrics(), "running=11 waiting=2 kv=0.4375 asked=918212 hit=402944 preempted=3 room=147456"},
		{"vllm-dp.txt", vllm.Metrics(), "running=8 waiting=4 kv=0.75 asked=300 hit=30 preempted=unknown room=unknown"},
		// Old and new name of the cache gauge on one page: the new one wins.
		{"vllm-0.10.txt", vllm.Metrics(), "running=4 waiting=0 kv=0.5 asked=7000 hit=3500 preempted=unknown room=unknown"},
		{"sglang.txt", sglang.Metrics(), "running=7 waiting=0 kv=0.31 asked=771034 hit=420011 preempted=unknown room=184320"},
		// Two data-parallel ranks, two stages each, priorities as parts of a total.
		{"sglang-ranks.txt", sglang.Metrics(), "running=12 waiting=6 kv=0.6 asked=unknown hit=unknown preempted=unknown room=unknown"},
		{"llamacpp.txt", llamacpp.Metrics(), "running=3 waiting=1 kv=unknown asked=50000 hit=1787 preempted=unknown room=unknown"},
		{"tgi.txt", tgi.Metrics(), "running=16 waiting=4 kv=unknown asked=unknown hit=unknown preempted=unknown room=unknown"},
		{"trtllm.txt", trtllm.Metrics(), "running=24 waiting=0 kv=0.52 asked=1.25e+06 hit=250000 preempted=unknown room=unknown"},
		{"trtllm-early.txt", trtllm.Metrics(), "running=unknown waiting=unknown kv=0.52 asked=unknown hit=unknown preempted=unknown room=unknown"},
		{"lmdeploy.txt", lmdeploy.Metrics(), "running=7 waiting=0 kv=0.22 asked=1000 hit=300 preempted=unknown room=unknown"},
		// It counts no cached tokens yet.
		{"lmdeploy-0.9.txt", lmdeploy.Metrics(), "running=5 waiting=2 kv=0.22 asked=1000 hit=unknown preempted=unknown room=unknown"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := page(t, tt.name)
			got, err := exposition.Read(text, tt.c)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, show(got)); diff != "" {
				t.Errorf("load (-want +got):\n%s", diff)
			}
			found, ok := exposition.Detect(text, contracts())
			if !ok || found.Engine != tt.c.Engine {
				t.Errorf("Detect = %q, %t; want %q", found.Engine, ok, tt.c.Engine)
			}
		})
	}
}

func TestReadTolerates(t *testing.T) {
	tests := []struct {
		name, page, want string
	}{
		{"no last newline", "vllm:num_requests_running 3", "running=3"},
		{"windows lines", "vllm:num_requests_running 3\r\nvllm:num_requests_waiting 1\r\n", "running=3 waiting=1"},
		{"blanks", "  vllm:num_requests_running  { engine = \"0\" , }\t 3  \n", "running=3"},
		{"exponent", "vllm:num_requests_running 1.7e+01\n", "running=17"},
		{"timestamp", "vllm:num_requests_running 3 1787100123000\n", "running=3"},
		{"exemplar", "vllm:num_requests_running 3 # {trace_id=\"a\"} 0.5\n", "running=3"},
		{"NaN is unknown", "vllm:num_requests_running NaN\n", ""},
		{"a NaN rank is left out", "vllm:num_requests_running{engine=\"0\"} NaN\nvllm:num_requests_running{engine=\"1\"} 2\n", "running=2"},
		{"infinite is unknown", "vllm:num_requests_running +Inf\n", ""},
		{"negative is unknown", "vllm:num_requests_running -1\n", ""},
		{"None is unknown", "vllm:num_requests_running None\n", ""},
		{"None as a label", "vllm:num_requests_running{engine=None} 3\n", "running=3"},
		{"blocks of two ranks", "vllm:cache_config_info{block_size=\"16\",engine=\"0\",num_gpu_blocks=\"100\"} 1\n" +
			"vllm:cache_config_info{num_gpu_blocks=\"50\",block_size=\"16\",engine=\"1\"} 1.0\n", "room=2400"},
		{"no blocks yet", "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"None\"} 1\nvllm:num_requests_running 3\n", "running=3"},
		{"blocks without a size", "vllm:cache_config_info{num_gpu_blocks=\"5\"} 1\nvllm:cache_config_info 1\nvllm:num_requests_running 3\n", "running=3"},
		{"braces in a value", "vllm:num_requests_running{model_name=\"a}b\\\"c, d\"} 3\n", "running=3"},
		{"open label", "vllm:num_requests_running{model_name=\"a\nvllm:num_requests_waiting 1\n", "waiting=1"},
		{"no value", "vllm:num_requests_running\nvllm:num_requests_running{}\nvllm:num_requests_waiting 1\n", "waiting=1"},
		{"garbage around", "\x00\xff garbage\nvllm:num_requests_running 3\n}{\n", "running=3"},
		{"longer names are others", "vllm:num_requests_running_created 5\nvllm:num_requests_running 3\n", "running=3"},
		{"new name after the old", "vllm:gpu_cache_usage_perc 0.9\nvllm:kv_cache_usage_perc 0.2\n", "kv=0.2"},
		{"new name before the old", "vllm:kv_cache_usage_perc 0.2\nvllm:gpu_cache_usage_perc 0.9\n", "kv=0.2"},
		{"counter without _total", "vllm:prefix_cache_hits 7\n", "hit=7"},
		{"full by rounding", "vllm:kv_cache_usage_perc 1.0000001\n", "kv=1"},
		{"percent is no ratio", "vllm:kv_cache_usage_perc 43.7\n", ""},
		{"overflowing sum", "vllm:num_requests_running 1e308\nvllm:num_requests_running 1e308\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := exposition.Read([]byte(tt.page), vllm.Metrics())
			if err != nil {
				t.Fatal(err)
			}
			var known []string
			for field := range strings.FieldsSeq(show(got)) {
				if !strings.HasSuffix(field, "=unknown") {
					known = append(known, field)
				}
			}
			if diff := cmp.Diff(tt.want, strings.Join(known, " ")); diff != "" {
				t.Errorf("load (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	tests := []struct {
		name, page string
		want       error
	}{
		{"empty", "", exposition.ErrNoMetrics},
		{"another engine", "sglang:num_running_reqs 1\n", exposition.ErrNoMetrics},
		{"all renamed", "vllm:requests 1\n", exposition.ErrNoMetrics},
		{"comments only", "# TYPE vllm:num_requests_running gauge\n", exposition.ErrNoMetrics},
		{"html", "<!doctype html><title>404</title>", exposition.ErrNotText},
		{"json", `[{"iter":1}]`, exposition.ErrNotText},
		{"json object", `{"detail":"Not Found"}`, exposition.ErrNotText},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			load, err := exposition.Read([]byte(tt.page), vllm.Metrics())
			if !errors.Is(err, tt.want) || !load.Empty() {
				t.Errorf("Read = %v, %v; want nothing known and %v", show(load), err, tt.want)
			}
		})
	}
}

func TestReadColdPageIsUnknownNotIdle(t *testing.T) {
	load, err := exposition.Read(page(t, "tgi-cold.txt"), tgi.Metrics())
	if !errors.Is(err, exposition.ErrNoMetrics) || !load.Empty() {
		t.Errorf("Read = %s, %v; want nothing known and ErrNoMetrics", show(load), err)
	}
	if c, ok := exposition.Detect(page(t, "tgi-cold.txt"), contracts()); !ok || c.Engine != engines.TGI {
		t.Errorf("Detect = %q, %t; want tgi from any series of its prefix", c.Engine, ok)
	}
}

// Infinity has a page and tells no load on it.
func TestReadPageWithoutLoad(t *testing.T) {
	text := page(t, "infinity.txt")
	if c, ok := exposition.Detect(text, contracts()); ok {
		t.Errorf("Detect takes it for %q", c.Engine)
	}
	for _, c := range contracts() {
		if load, err := exposition.Read(text, c); !errors.Is(err, exposition.ErrNoMetrics) || !load.Empty() {
			t.Errorf("Read as %s = %s, %v; want nothing known and ErrNoMetrics", c.Engine, show(load), err)
		}
	}
}

func TestMean(t *testing.T) {
	c := vllm.Metrics()
	c.KVUsed.Aggregate = engines.AggregateMean
	got, err := exposition.Read(page(t, "vllm-dp.txt"), c)
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := got.KVUsedRatio.Get(); !ok || v != 0.5 {
		t.Errorf("mean of 0.25 and 0.75 = %v, %t", v, ok)
	}
}

func TestDetectTakesTheFirstContract(t *testing.T) {
	// A front end that exports series of its own beside the engine's.
	text := []byte("# TYPE vllm:x gauge\nsglang:num_running_reqs 1\nvllm:num_requests_running 1\n")
	if c, ok := exposition.Detect(text, contracts()); !ok || c.Engine != engines.VLLM {
		t.Errorf("Detect = %q, %t; want vllm", c.Engine, ok)
	}
	if c, ok := exposition.Detect([]byte("http_requests_total 1\n"), contracts()); ok {
		t.Errorf("Detect = %q; want none", c.Engine)
	}
}

func FuzzRead(f *testing.F) {
	pages, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range pages {
		f.Add(page(f, filepath.Base(name)))
	}
	f.Add([]byte("vllm:num_requests_running{a=\"\\"))
	f.Add([]byte("sglang:num_running_reqs{pp_rank=0,priority=} 1e999"))
	cs := contracts()
	f.Fuzz(func(t *testing.T, page []byte) {
		exposition.Detect(page, cs)
		for _, c := range cs {
			load, err := exposition.Read(page, c)
			if err != nil && !load.Empty() {
				t.Fatalf("load with an error: %s, %v", show(load), err)
			}
			for _, r := range []engines.Reading{
				load.Running, load.Waiting, load.KVUsedRatio,
				load.PrefixQueryTokens, load.PrefixHitTokens, load.Preemptions,
			} {
				if v, ok := r.Get(); ok && (math.IsNaN(v) || math.IsInf(v, 0) || v < 0) {
					t.Fatalf("unusable reading: %s", show(load))
				}
			}
			if v, _ := load.KVUsedRatio.Get(); v > 1 {
				t.Fatalf("ratio above 1: %s", show(load))
			}
		}
	})
}

// realisticPage is about as long as a busy vLLM's page: the gauges between
// process metrics and some thirty histograms.
func realisticPage(tb testing.TB) []byte {
	var text strings.Builder
	text.Write(page(tb, "vllm.txt"))
	for i := range 24 {
		name := fmt.Sprintf("vllm:request_phase_%d_seconds", i)
		fmt.Fprintf(&text, "# HELP %s Time that requests spend in the phase, in seconds.\n# TYPE %s histogram\n", name, name)
		for le := range 22 {
			fmt.Fprintf(&text, "%s_bucket{engine=\"0\",le=\"%d.0\",model_name=\"Qwen/Qwen3-32B-Instruct\"} %d.0\n", name, le, le*31)
		}
		fmt.Fprintf(&text, "%s_count{engine=\"0\",model_name=\"Qwen/Qwen3-32B-Instruct\"} 742.0\n", name)
		fmt.Fprintf(&text, "%s_sum{engine=\"0\",model_name=\"Qwen/Qwen3-32B-Instruct\"} 96.31\n", name)
	}
	return []byte(text.String())
}

func BenchmarkRead(b *testing.B) {
	text := realisticPage(b)
	c := vllm.Metrics()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := exposition.Read(text, c); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDetect(b *testing.B) {
	text := realisticPage(b)
	cs := contracts()[1:] // none matches: the whole page is looked at
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		exposition.Detect(text, cs)
	}
}
