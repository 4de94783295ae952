package sim_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines/sim"
)

// listen serves e on a port of the loopback until the test ends.
func listen(t *testing.T, e *sim.Engine) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + ln.Addr().String()
}

// client has connections of its own, closed when the test ends.
func client(t *testing.T) *http.Client {
	t.Helper()
	tr := &http.Transport{MaxIdleConnsPerHost: 100, DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

const stream = `{"messages":[{"role":"user","content":"hello"}],"max_tokens":30,"ignore_eos":true,"stream":true}`

func post(ctx context.Context, c *http.Client, url, body, faults string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Sim-Faults", faults)
	return c.Do(r)
}

// streamText joins the content of a stream's complete events.
func streamText(t *testing.T, body string) string {
	t.Helper()
	var text strings.Builder
	for _, l := range dataLines(t, body) {
		if strings.HasPrefix(l, `{"id"`) {
			if v := into[chatAnswer](t, l); len(v.Choices) > 0 {
				text.WriteString(*v.Choices[0].Delta.Content)
			}
		}
	}
	return text.String()
}

func TestFaultsOfStreams(t *testing.T) {
	cfg := sim.InstantConfig()
	cfg.FaultControl = true
	e := newEngine(t, cfg)
	url := listen(t, e) + "/v1/chat/completions"
	c := client(t)
	get := func(faults string) (*http.Response, string, error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		resp, err := post(ctx, c, url, stream, faults)
		if err != nil {
			return nil, "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return resp, string(b), err
	}
	_, plain, err := get("")
	if err != nil {
		t.Fatal(err)
	}
	text := streamText(t, plain)
	if n, whole := sim.CheckText(text); n != 30 || !whole {
		t.Fatalf("%q", plain)
	}
	whole := func(t *testing.T, body string) {
		t.Helper()
		body = strings.ReplaceAll(body, "\r\n", "\n")
		if got := streamText(t, body); got != text || !strings.Contains(body, "data: [DONE]\n\n") {
			t.Errorf("got %q", body)
		}
	}
	t.Run("split", func(t *testing.T) {
		_, body, err := get("split_bytes=1")
		if err != nil {
			t.Fatal(err)
		}
		whole(t, body)
	})
	t.Run("crlf", func(t *testing.T) {
		_, body, err := get("crlf=true")
		if err != nil || strings.Count(body, "\r\n\r\n") != 32 || strings.Contains(strings.ReplaceAll(body, "\r\n", ""), "\n") {
			t.Fatalf("%v %q", err, body)
		}
		whole(t, body)
	})
	t.Run("comments", func(t *testing.T) {
		_, body, err := get("comment_every=2;no_space=true")
		if err != nil || strings.Count(body, ": keep-alive\n") != 16 || strings.Contains(body, "data: ") {
			t.Fatalf("%v %q", err, body)
		}
	})
	t.Run("gzip", func(t *testing.T) {
		resp, body, err := get("gzip=true;split_bytes=7")
		if err != nil || resp.Header.Get("Content-Encoding") != "gzip" {
			t.Fatal(err, resp)
		}
		z, err := gzip.NewReader(strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		whole(t, string(b))
	})
	t.Run("close after events", func(t *testing.T) {
		_, body, err := get("close_after_events=3")
		if !errors.Is(err, io.ErrUnexpectedEOF) || strings.Count(body, "data: ") != 3 {
			t.Errorf("%v %q", err, body)
		}
	})
	t.Run("reset after events", func(t *testing.T) {
		_, body, err := get("reset_after_events=3")
		if !errors.Is(err, syscall.ECONNRESET) || strings.Count(body, "data: ") > 3 {
			t.Errorf("%v %q", err, body)
		}
	})
	t.Run("error after events", func(t *testing.T) {
		_, body, err := get("error_after_events=3")
		lines := dataLines(t, body)
		if err != nil || len(lines) != 5 || !strings.HasPrefix(lines[3], `{"error":{`) || lines[4] != "[DONE]" {
			t.Errorf("%v %q", err, body)
		}
	})
	t.Run("close before headers", func(t *testing.T) {
		if _, _, err := get("close_headers=true"); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	})
	t.Run("reset before headers", func(t *testing.T) {
		if _, _, err := get("reset_headers=true"); !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
	})
	t.Run("unknown fault", func(t *testing.T) {
		if resp, _, err := get("nonsense=1"); err != nil || resp.StatusCode != 400 {
			t.Error(resp, err)
		}
	})
	for _, hang := range []string{"hang_headers=true", "hang_after_events=2"} {
		t.Run(hang, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if hang == "hang_headers=true" {
				time.AfterFunc(50*time.Millisecond, cancel)
			}
			resp, err := post(ctx, c, url, stream, hang)
			if hang == "hang_headers=true" {
				if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			r := bufio.NewReader(resp.Body)
			for range 4 { // two events, each with an empty line
				if _, err := r.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
			time.AfterFunc(50*time.Millisecond, cancel)
			if l, err := r.ReadString('\n'); err == nil {
				t.Errorf("a third event: %q", l)
			}
		})
	}
}

func TestFaultsOfBodies(t *testing.T) {
	cfg := sim.InstantConfig()
	cfg.FaultControl = true
	e := newEngine(t, cfg)
	url := listen(t, e) + "/v1/chat/completions"
	c := client(t)
	body := strings.Replace(stream, `,"stream":true`, "", 1)
	get := func(faults string) (*http.Response, string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		resp, err := post(ctx, c, url, body, faults)
		if err != nil {
			return nil, "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return resp, string(b), err
	}
	_, plain, err := get("")
	if err != nil {
		t.Fatal(err)
	}
	if resp, got, err := get("split_bytes=3"); err != nil || len(got) != len(plain) || resp.ContentLength != int64(len(plain)) {
		t.Errorf("split: %v %q", err, got)
	}
	if _, got, err := get("wrong_length=10"); !errors.Is(err, io.ErrUnexpectedEOF) || len(got) != len(plain) {
		t.Errorf("too long: %v %q", err, got)
	}
	if _, got, err := get("wrong_length=-10"); err != nil || len(got) != len(plain)-10 {
		t.Errorf("too short: %v %q", err, got)
	}
	if _, got, err := get("close_after_events=1"); !errors.Is(err, io.ErrUnexpectedEOF) || len(got) != len(plain)/2 {
		t.Errorf("half: %v %q", err, got)
	}
	if resp, _, err := get("early_status=413"); err != nil || resp.StatusCode != 413 {
		t.Errorf("early: %v", err)
	}
}

func TestEarlyStatusComesDuringTheUpload(t *testing.T) {
	e := newEngine(t, sim.InstantConfig())
	if err := e.SetFaults(sim.Faults{EarlyStatus: 413}); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(listen(t, e), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n{\"prompt\":\"")
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.Contains(line, " 413 ") {
		t.Errorf("%q, %v", line, err)
	}
}

func TestSilentConnections(t *testing.T) {
	e := newEngine(t, sim.InstantConfig())
	url := listen(t, e)
	if err := e.SetFaults(sim.Faults{Silent: true}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := post(ctx, client(t), url+"/v1/completions", `{}`, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestCloseIdle(t *testing.T) {
	e := newEngine(t, sim.InstantConfig())
	url := listen(t, e)
	if err := e.SetFaults(sim.Faults{CloseIdle: true}); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	b, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 200 ") || strings.Contains(strings.ToLower(string(b)), "connection:") {
		t.Errorf("%v %q", err, b)
	}
}

// TestDisconnectFreesKV cuts 1,000 streams and finds every block free.
func TestDisconnectFreesKV(t *testing.T) {
	cfg := sim.DefaultConfig()
	cfg.MaxNumSeqs = 700 // the rest are cut while they wait
	cfg.Speed = 0.05     // the streams matter here, not their tokens
	e := newEngine(t, cfg)
	url := listen(t, e) + "/v1/chat/completions"
	c := client(t)
	const streams = 1000
	ctx, cut := context.WithCancel(t.Context())
	var started sync.WaitGroup
	var ended sync.WaitGroup
	started.Add(streams)
	for range streams {
		ended.Go(func() {
			resp, err := post(ctx, c, url, strings.Replace(stream, "30", "5000", 1), "")
			started.Done()
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			if err == nil {
				t.Error("a stream ended by itself")
			}
		})
	}
	started.Wait()
	if s := e.Stats(); s.Running+s.Waiting != streams || s.UsedBlocks == 0 {
		t.Errorf("before: %+v", s)
	}
	cut()
	ended.Wait()
	deadline := time.After(10 * time.Second)
	for {
		s := e.Stats()
		if s.Running+s.Waiting+s.UsedBlocks == 0 {
			break
		}
		select {
		case <-deadline:
			t.Fatalf("after: %+v", s)
		case <-time.After(time.Millisecond):
		}
	}
	w := call(t, e, "GET", "/metrics", "")
	if !strings.Contains(w.Body.String(), `vllm:request_success_total{engine="0",finished_reason="abort",model_name="sim-8b"} 1000.0`) ||
		!strings.Contains(w.Body.String(), `vllm:kv_cache_usage_perc{engine="0",model_name="sim-8b"} 0.0`) {
		t.Error(w.Body)
	}
}

// TestThousandStreams runs 1,000 concurrent streams over three engines.
func TestThousandStreams(t *testing.T) {
	c := client(t)
	short := strings.Replace(stream, "30", "8", 1)
	var urls []string
	for range 3 {
		urls = append(urls, listen(t, newEngine(t, sim.DefaultConfig()))+"/v1/chat/completions")
	}
	var bad atomic.Int64
	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Go(func() {
			resp, err := post(t.Context(), c, urls[i%3], short, "")
			if err != nil {
				bad.Add(1)
				return
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			if n, whole := sim.CheckText(streamText(t, string(b))); err != nil || n != 8 || !whole {
				bad.Add(1)
			}
		})
	}
	wg.Wait()
	if n := bad.Load(); n > 0 {
		t.Errorf("%d streams are not whole", n)
	}
}

// TestRealTime: under the system's clock a token takes what the model says.
func TestRealTime(t *testing.T) {
	e := newEngine(t, sim.DefaultConfig())
	begin := time.Now()
	if w := call(t, e, "POST", "/v1/chat/completions", strings.Replace(stream, "30", "60", 1)); w.Code != 200 {
		t.Fatal(w.Code)
	}
	took := time.Since(begin)
	t.Logf("60 tokens took %v", took) // 13 + 60 × 6.5 = 403 ms; a busy machine takes longer
	if took < 390*time.Millisecond {
		t.Errorf("too fast: %v", took)
	}
}
