package gateway_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/llmgw/llmgw/engines/sim"
)

// simEngine is a simulated engine behind a listener of its own.
type simEngine struct {
	*sim.Engine
	url   string
	calls atomic.Int64 // POSTs
}

func newSim(t testing.TB, change func(*sim.Config)) *simEngine {
	t.Helper()
	cfg := sim.InstantConfig()
	cfg.Model = "m"
	if change != nil {
		change(&cfg)
	}
	engine, err := sim.New(cfg, sim.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	ln := listen(t)
	e := &simEngine{Engine: engine, url: "http://" + ln.Addr().String()}
	srv := engine.Server()
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			e.calls.Add(1)
		}
		engine.ServeHTTP(w, r)
	})
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(engine.Listener(ln))
	}()
	t.Cleanup(func() {
		_ = engine.Close()
		_ = srv.Close()
		<-served
	})
	return e
}

func (e *simEngine) faults(t testing.TB, text string) {
	t.Helper()
	f, err := sim.ParseFaults(sim.Faults{}, text)
	if err == nil {
		err = e.SetFaults(f)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// deadURL is an address where nobody listens.
func deadURL(t testing.TB) string {
	ln := listen(t)
	defer func() { _ = ln.Close() }()
	return "http://" + ln.Addr().String()
}

// rawEngine answers with whatever bytes its script writes.
type rawEngine struct {
	url   string
	calls atomic.Int64 // whole requests read
	ln    net.Listener
	wg    sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]bool // guarded by mu
	closed bool              // guarded by mu
}

// exchange is one request at a rawEngine. The connection serves further ones
// after it unless it is closed.
type exchange struct {
	net.Conn
	n    int64 // from 1 on
	req  *http.Request
	body []byte
}

// write sends s. Who listens is none of a scripted engine's business.
func (x *exchange) write(s string) { _, _ = io.WriteString(x.Conn, s) }

// untilLeft waits for the other side to close.
func (x *exchange) untilLeft() { _, _ = io.Copy(io.Discard, x.Conn) }

// reset closes the connection with RST.
func (x *exchange) reset() {
	_ = x.Conn.(*net.TCPConn).SetLinger(0)
	_ = x.Close()
}

func newRaw(t testing.TB, answer func(*exchange)) *rawEngine {
	t.Helper()
	return newEngine(t, func(e *rawEngine, c net.Conn) { e.serve(c, answer) })
}

func newEngine(t testing.TB, serve func(*rawEngine, net.Conn)) *rawEngine {
	t.Helper()
	ln := listen(t)
	e := &rawEngine{url: "http://" + ln.Addr().String(), ln: ln, conns: map[net.Conn]bool{}}
	e.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			if !e.keep(c) {
				return
			}
			e.wg.Go(func() {
				defer e.drop(c)
				serve(e, c)
			})
		}
	})
	t.Cleanup(e.close)
	return e
}

func (e *rawEngine) serve(c net.Conn, answer func(*exchange)) {
	in := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		if req.Method == "GET" && req.URL.Path == "/v1/models" { // what is asked of an engine on each new connection
			if _, err := io.WriteString(c, document(404, `{"error":"not found"}`)); err != nil {
				return
			}
			continue
		}
		answer(&exchange{Conn: c, n: e.calls.Add(1), req: req, body: body})
	}
}

func (e *rawEngine) keep(c net.Conn) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		_ = c.Close()
		return false
	}
	e.conns[c] = true
	return true
}

func (e *rawEngine) drop(c net.Conn) {
	_ = c.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.conns, c)
}

func (e *rawEngine) close() {
	_ = e.ln.Close()
	e.mu.Lock()
	e.closed = true
	for c := range e.conns {
		_ = c.Close()
	}
	e.mu.Unlock()
	e.wg.Wait()
}

// document is a whole answer with a body of known length.
func document(status int, body string, header ...string) string {
	return head(status, append(header, "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(body)))...) + body
}

func head(status int, header ...string) string {
	return fmt.Sprintf("HTTP/1.1 %d %s\r\n%s\r\n\r\n", status, http.StatusText(status), strings.Join(header, "\r\n"))
}

// eventHead begins a stream in chunks.
func eventHead() string {
	return head(200, "Content-Type: text/event-stream; charset=utf-8", "Transfer-Encoding: chunked")
}

func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

const lastChunk = "0\r\n\r\n"

// delta is an event of a chat completion with content.
func delta(content string) string {
	return `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"` + content + `"}}]}` + "\n\n"
}

const (
	usageEvent    = `data: {"id":"c","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}` + "\n\n"
	doneEvent     = "data: [DONE]\n\n"
	messageEvents = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":7}}}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n" +
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	completion = `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}`
)

// good answers with a whole completion: a stream with its usage if asked for
// one, else a document.
func good(x *exchange) {
	if !bytes.Contains(x.body, []byte(`"stream":true`)) {
		x.write(document(200, completion))
		return
	}
	if x.req.URL.Path == "/v1/messages" {
		x.write(eventHead() + chunk(messageEvents) + lastChunk)
		return
	}
	x.write(eventHead() + chunk(delta("h")) + chunk(delta("i")))
	if bytes.Contains(x.body, []byte(`"include_usage":true`)) {
		x.write(chunk(usageEvent))
	}
	x.write(chunk(doneEvent) + lastChunk)
}
