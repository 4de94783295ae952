package cli_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/llmgw/llmgw/cmd/internal/bench/generate"
)

// bench runs llmgw bench --json and returns its report and exit code.
func bench(t *testing.T, args ...string) (r generate.Report, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "llmgw", append([]string{"bench", "--json"}, args...)...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("exit code %d, output %q: %v; %s", code, out, err, errs.String())
	}
	return r, code
}

// The traces of examples go through the demo's router to its engines, whole.
func TestBenchThroughTheDemo(t *testing.T) {
	demo := start(t, "demo", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--json")
	if code, _, errs := run(t, "bench", "--url", demo.BaseURL, "-c", "1", "-n", "1", "--prompt", "8"); code != 2 || !strings.Contains(errs, "; give bench the key in LLMGW_API_KEY or --api-key-file; nothing was sent") {
		t.Errorf("without a key: exit code %d, %s", code, errs)
	}
	t.Setenv("LLMGW_API_KEY", demo.APIKey)
	for _, tt := range []struct {
		file string
		args []string
	}{
		{"mooncake_conversation.jsonl.gz", []string{"--prompt-scale", "0.1"}},
		{"azure2023_conv.csv.gz", []string{"--no-stream"}},
		{"aibrix_prefix_share_p1024_s128_rps5.jsonl.gz", []string{"--api", "completions"}},
	} {
		t.Run(tt.file, func(t *testing.T) {
			args := append([]string{"--url", demo.BaseURL, "--trace", "../../../examples/traces/" + tt.file, "--speedup", "100", "-n", "12", "--max-tokens", "8"}, tt.args...)
			r, code := bench(t, args...)
			if code != 0 || r.Requests.Complete != 12 || len(r.Errors) != 0 || *r.Tokens.Output != r.Tokens.OutputAsked {
				t.Errorf("exit code %d, %+v, %+v, %+v", code, r.Requests, r.Tokens, r.Errors)
			}
			if r.Stream && *r.Streams.LengthAsAsked != 12 {
				t.Errorf("streams %+v", r.Streams)
			}
		})
	}
	demo.stop(t)
}

func TestBenchCountsFailures(t *testing.T) {
	t.Parallel()
	engine := start(t, "sim", "--listen", "127.0.0.1:0", "--model", "tiny", "--speed", "100", "--faults", "script=503 - html, 200, 429", "--json")
	r, code := bench(t, "--url", engine.BaseURL+"/v1", "-c", "1", "-n", "4", "--prompt", "10", "--output", "5")
	if code != 1 || r.Requests.Complete != 2 || r.Requests.Failed != 2 || len(r.Errors) != 2 || r.Model != "tiny" {
		t.Errorf("exit code %d, %+v, %+v", code, r.Requests, r.Errors)
	}
	if r, code = bench(t, "--url", engine.BaseURL, "-r", "500", "-d", "50ms", "--prompt", "10", "--output", "5", "--prefix", "40", "--users", "3"); code != 0 || r.Requests.Complete < 5 {
		t.Errorf("exit code %d, %+v, %+v", code, r.Requests, r.Errors)
	}
	engine.stop(t)
}

// Each run has prompts of its own, unless a seed is asked for, and the second
// with the same is told that it measures a cache.
func TestBenchTwice(t *testing.T) {
	t.Parallel()
	engine := start(t, "sim", "--listen", "127.0.0.1:0", "--model", "tiny", "--speed", "1000", "--json")
	args := []string{"--url", engine.BaseURL, "-c", "1", "-n", "3", "--max-tokens", "2"}
	first, _ := bench(t, args...)
	second, _ := bench(t, args...)
	if first.Seed == second.Seed || *second.Tokens.CachedShare > .05 || len(second.Warnings) > 0 {
		t.Errorf("seeds %d and %d, then %v from the cache, %q", first.Seed, second.Seed, *second.Tokens.CachedShare, second.Warnings)
	}
	again, code := bench(t, append(args, "--seed", strconv.FormatUint(second.Seed, 10))...)
	if code != 0 || again.Seed != second.Seed || *again.Tokens.CachedShare < .9 || len(again.Warnings) != 1 {
		t.Errorf("exit code %d, seed %d, %v from the cache, %q", code, again.Seed, *again.Tokens.CachedShare, again.Warnings)
	}
	engine.stop(t)
}

// A warm-up that takes everything is no measurement.
func TestBenchAllInTheWarmup(t *testing.T) {
	engine := start(t, "sim", "--listen", "127.0.0.1:0", "--model", "tiny", "--speed", "1000", "--json")
	args := []string{"bench", "--url", engine.BaseURL, "-c", "1", "-n", "2", "--max-tokens", "2", "--warmup", "1h"}
	out, err := exec.CommandContext(t.Context(), "llmgw", args...).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 2 {
		t.Errorf("%v, want exit code 2", err)
	}
	for _, want := range []string{"\nnothing was measured: all requests fell in the warm-up\n", "llmgw: bench: nothing was measured: all 2 requests fell in the warm-up of 1h0m0s"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("output %s lacks %q", out, want)
		}
	}
	engine.stop(t)
}

// A gzipped trace that is cut short is not sent in part.
func TestBenchTruncatedTrace(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	for range 1000 {
		if _, err := w.Write([]byte(`{"timestamp": 0, "input_length": 5, "output_length": 2, "hash_ids": [3]}` + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cut.jsonl.gz")
	if err := os.WriteFile(file, packed.Bytes()[:packed.Len()-20], 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "llmgw", "bench", "--url", "http://127.0.0.1:1", "--model", "m", "--trace", file).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 2 {
		t.Errorf("%v, want exit code 2", err)
	}
	if !strings.HasPrefix(string(out), "llmgw: "+file+":") || !strings.HasSuffix(string(out), "nothing was sent\n") {
		t.Errorf("output %q", out)
	}
}

// A run may be interrupted while it asks for the model, too.
func TestBenchInterruptedEarly(t *testing.T) {
	arrived := make(chan struct{}, 1)
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	}))
	defer target.Close()
	cmd := exec.CommandContext(t.Context(), "llmgw", "bench", "--url", target.URL, "-c", "2", "--json")
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-arrived
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 130 {
		t.Errorf("%v, want exit code 130", err)
	}
	if out.String() != "" || errs.String() != "llmgw: bench: interrupted; nothing was sent\n" {
		t.Errorf("output %q; %q", out.String(), errs.String())
	}
}

// What would make two headers of one is usage.
func TestBenchHeaderWithALineBreak(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "llmgw", "bench", "--url", "http://127.0.0.1:1", "-c", "1", "-H", "x: a\nb: c").CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 80 || !strings.Contains(string(out), "--header: the value of x has a line break") {
		t.Errorf("%v: %s", err, out)
	}
}

// An interrupted run prints what it measured.
func TestBenchInterrupted(t *testing.T) {
	arrived := make(chan string, 16)
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var buf bytes.Buffer
		_, _ = buf.ReadFrom(r.Body) // only then does the server notice that the client left
		arrived <- r.Header.Get("Authorization")
		<-r.Context().Done()
	}))
	defer target.Close()
	cmd := exec.CommandContext(t.Context(), "llmgw", "bench", "--url", target.URL, "--model", "m", "-c", "2", "--json")
	cmd.Env = append(os.Environ(), "LLMGW_API_KEY=sesame")
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if key := <-arrived; key != "Bearer sesame" {
			t.Errorf("key %q", key)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 130 {
		t.Errorf("%v, want exit code 130", err)
	}
	var r generate.Report
	if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
		t.Fatalf("output %q: %v", out.String(), err)
	}
	if !r.Interrupted || r.Requests.Unfinished != 2 || !strings.Contains(errs.String(), "interrupted") || strings.Contains(out.String()+errs.String(), "sesame") {
		t.Errorf("%+v; %s", r.Requests, errs.String())
	}
}
