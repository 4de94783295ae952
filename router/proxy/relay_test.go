package proxy_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/llmgw/llmgw/router/proxy"
)

// No event waits for another: each read goes out in one write and one flush
// before the engine sends the next.
func TestEachReadIsOneWriteAndOneFlush(t *testing.T) {
	t.Parallel()
	events := []string{"data: a\n\n", ": ping\n\n", "data: b\n\ndata: c\n\n", "data: half", " an event\n\n", "data: [DONE]\n\n"}
	passed := make(chan struct{}, 1)
	e := newEngine(t, func(p *peer) {
		if p.request() == nil {
			return
		}
		p.say(okChunked)
		for _, s := range events {
			p.say(chunk(s))
			<-passed
		}
		p.say(chunk(""))
	})
	w := newRecorder()
	w.onWrite = func([]byte) error { passed <- struct{}{}; return nil }
	got := newBench(t, e.url(), nil).relay(t.Context(), post(), w, &lineTap{}, proxy.Options{})
	got.want(t, 200, strings.Join(events, ""))
	var writes []string
	for _, b := range w.writes {
		writes = append(writes, string(b))
	}
	if d := cmp.Diff(events, writes); d != "" {
		t.Errorf("writes (-want +got):\n%s", d)
	}
	if w.flushes != len(events) {
		t.Errorf("%d flushes, want %d", w.flushes, len(events))
	}
	if got.out.Bytes != int64(len(got.body())) {
		t.Errorf("counted %d bytes of %d", got.out.Bytes, len(got.body()))
	}
}

// What came in one read leaves in one write, the head's included, and the last
// bytes are not flushed apart from the end of the message.
func TestOneReadIsOneWrite(t *testing.T) {
	t.Parallel()
	e := answering(t, okChunked+chunk("data: a\n\n")+chunk("data: b\n\n")+chunk(""))
	got := newBench(t, e.url(), nil).do(t.Context(), post())
	got.want(t, 200, "data: a\n\ndata: b\n\n")
	if len(got.writes) != 1 || got.flushes != 0 {
		t.Errorf("%d writes and %d flushes, want 1 and 0", len(got.writes), got.flushes)
	}
}

func TestNothingIsWrittenBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	quit := make(chan struct{})
	e := newEngine(t, func(p *peer) {
		if p.request() != nil {
			p.say(okChunked)
			<-quit
		}
	})
	b := newBench(t, e.url(), nil)
	resp, err := b.Send(t.Context(), b.target, post())
	if err != nil {
		t.Fatal(err)
	}
	if resp.Status != 200 || resp.Get("Content-Type") != "text/event-stream" || resp.Get("X-None") != "" {
		t.Errorf("got %d, %q", resp.Status, resp.Get("Content-Type"))
	}
	if since := time.Since(resp.Sent()); since < 0 || since > patient {
		t.Errorf("sent %v ago", since)
	}
	w := newRecorder()
	close(quit)
	out, err := resp.Relay(w, &lineTap{}, proxy.Options{})
	if kindOf(err) != proxy.KindCut || out != (proxy.Outcome{}) || w.status != 0 || len(w.header) != 0 {
		t.Errorf("got %v, %+v; the client had %d %v", err, out, w.status, w.header)
	}
}

// The tap decides what the client gets, and when content began.
func TestTap(t *testing.T) {
	t.Parallel()
	t.Run("holds back and flushes", func(t *testing.T) {
		t.Parallel()
		e := answering(t, okChunked, chunk("data: a"), chunk("data: b"), chunk(""))
		tap := &tapFuncs{feed: func([]byte) []byte { return nil }, flush: "at the end"}
		b := newBench(t, e.url(), nil)
		got := b.relay(t.Context(), post(), newRecorder(), tap, proxy.Options{})
		got.want(t, 200, "at the end")
		if len(got.writes) != 1 {
			t.Errorf("%d writes, want 1", len(got.writes))
		}
	})
	t.Run("holds back what is cut", func(t *testing.T) {
		t.Parallel()
		e := once(t, okChunked, chunk("data: a"))
		tap := &tapFuncs{feed: func([]byte) []byte { return nil }, flush: "at the end"}
		got := newBench(t, e.url(), nil).relay(t.Context(), post(), newRecorder(), tap, proxy.Options{})
		got.wantKind(t, proxy.KindCut)
		if got.out.Started || got.body() != "" {
			t.Errorf("passed on %q", got.body())
		}
	})
	t.Run("cuts", func(t *testing.T) {
		t.Parallel()
		e := answering(t, okChunked, chunk("xdata: ay"), chunk(""))
		tap := &tapFuncs{feed: func(p []byte) []byte { return p[1 : len(p)-1] }}
		got := newBench(t, e.url(), nil).relay(t.Context(), post(), newRecorder(), tap, proxy.Options{})
		got.want(t, 200, "data: a")
	})
	t.Run("first content", func(t *testing.T) {
		t.Parallel()
		var role time.Time
		e := answering(t, okChunked, chunk("data: role\n\n"), chunk("data: a\n\n"), chunk("data: b\n\n"), chunk(""))
		w := newRecorder()
		w.onWrite = func([]byte) error {
			if role.IsZero() {
				role = time.Now()
			}
			return nil
		}
		got := newBench(t, e.url(), nil).relay(t.Context(), post(), w, &tapFuncs{}, proxy.Options{})
		got.want(t, 200, "data: role\n\ndata: a\n\ndata: b\n\n")
		if got.out.FirstContent.IsZero() || got.out.FirstContent.After(time.Now()) {
			t.Errorf("first content at %v", got.out.FirstContent)
		}
		if len(got.writes) == 3 && got.out.FirstContent.Before(role) {
			t.Error("a role counts as content")
		}
	})
}

func TestKeepLength(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, answer string
		keep         bool
		want         []string
	}{
		{"kept", hello, true, []string{"5"}},
		{"kept zero", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true, []string{"0"}},
		{"not asked for", hello, false, nil},
		{"none to keep", okChunked + chunk("hello") + chunk(""), true, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, answering(t, tt.answer).url(), nil)
			got := b.relay(t.Context(), post(), newRecorder(), &lineTap{}, proxy.Options{KeepLength: tt.keep})
			if d := cmp.Diff(tt.want, got.header["Content-Length"]); got.err != nil || d != "" {
				t.Errorf("%v, Content-Length (-want +got):\n%s", got.err, d)
			}
		})
	}
}

// A client whose connection breaks ends the exchange, and the engine's request.
func TestClientWriteFails(t *testing.T) {
	t.Parallel()
	e := pacing(t, time.Millisecond, okChunked, func(int) string { return chunk("data: token\n\n") })
	w := newRecorder()
	w.onWrite = func([]byte) error {
		if len(w.writes) == 3 {
			return errLeft
		}
		return nil
	}
	got := newBench(t, e.url(), nil).relay(t.Context(), post(), w, &lineTap{}, proxy.Options{})
	got.wantKind(t, proxy.KindClient)
	if !errors.Is(got.err, errLeft) || !got.out.Started {
		t.Errorf("got %v, %+v", got.err, got.out)
	}
	e.waitOpen(t, 0)
}

// front is an HTTP server that relays each request to b.
func front(t *testing.T, b *bench, done func(proxy.Outcome, error)) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resp, err := b.Send(r.Context(), b.target, post())
		if err != nil {
			done(proxy.Outcome{}, err)
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		done(resp.Relay(w, &lineTap{}, proxy.Options{}))
	}))
	t.Cleanup(s.Close)
	return s
}

// A client that takes nothing is given up, and the engine is let go.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	event := chunk("data: " + strings.Repeat("x", 8<<10) + "\n\n")
	e := newEngine(t, func(p *peer) {
		if p.request() == nil {
			return
		}
		p.say(okChunked)
		for {
			if _, err := io.WriteString(p, event); err != nil {
				return
			}
		}
	})
	b := newBench(t, e.url(), func(c *proxy.Config) { c.ClientWrite = short })
	ended := make(chan error, 1)
	s := front(t, b, func(out proxy.Outcome, err error) {
		if !out.Started {
			t.Error("nothing was sent")
		}
		ended <- err
	})
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if k := kindOf(<-ended); k != proxy.KindClient && k != proxy.KindCanceled {
		t.Errorf("got %v", k)
	}
	e.waitOpen(t, 0)
}

// The deadline of one answer's writes is none of the next one's on the same
// connection, however long its client thinks.
func TestWriteDeadlineEndsWithItsAnswer(t *testing.T) {
	t.Parallel()
	long := "data: " + strings.Repeat("x", 100<<10) + "\n\n"
	e := answering(t, okChunked, chunk(long), chunk(""))
	b := newBench(t, e.url(), func(c *proxy.Config) { c.ClientWrite = 2 * short })
	s := front(t, b, func(_ proxy.Outcome, err error) {
		if err != nil {
			t.Errorf("the relay failed: %v", err)
		}
	})
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	br := bufio.NewReader(c)
	for range 2 {
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || string(body) != long {
			t.Fatalf("got %d bytes, %v", len(body), err)
		}
		<-time.After(3 * short) // the deadline passes
	}
}
