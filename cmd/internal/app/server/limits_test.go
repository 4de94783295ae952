package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func serve(h http.Handler, path string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// Beyond the limit connections are closed as they come, and one that ends makes
// room for the next.
func TestConnectionLimit(t *testing.T) {
	cfg := testConfig()
	cfg.HTTP.MaxConnections = 2
	s := start(t, cfg, newFakePlane(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", s.Client)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	ask := func(c net.Conn) error {
		if _, err := io.WriteString(c, "GET /x HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			return err
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	first, second := dial(), dial()
	for i, c := range []net.Conn{first, second} {
		if err := ask(c); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	if err := ask(dial()); err == nil {
		t.Error("a third connection was served")
	}
	if _, body := get(t, "http://"+s.Admin+"/metrics"); !strings.Contains(body, "llmgw_server_connections 2\n") || !strings.Contains(body, "llmgw_server_connections_refused_total 1\n") {
		t.Errorf("metrics do not count 2 connections and 1 refusal:\n%s", grep(body, "llmgw_server_connections"))
	}
	first.Close()
	for err := io.EOF; err != nil; { // until the server has seen the end
		err = ask(dial())
	}
	if err := ask(second); err != nil {
		t.Errorf("the second connection afterwards: %v", err)
	}
}

// A connection that sends its head a byte at a time is cut after the timeout,
// and /health answers meanwhile.
func TestSlowHeadIsCut(t *testing.T) {
	cfg := testConfig()
	cfg.HTTP.ReadHeaderTimeout = 100 * time.Millisecond
	s := start(t, cfg, newFakePlane(func(http.ResponseWriter, *http.Request) { t.Error("a request without a whole head was served") }))
	conn, err := net.Dial("tcp", s.Client)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /x HTTP/1.1\r\nHost: x\r\nX: "); err != nil {
		t.Fatal(err)
	}
	if status, _ := get(t, "http://"+s.Client+"/health"); status != 200 {
		t.Errorf("/health = %d", status)
	}
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if answer, err := io.ReadAll(conn); err != nil {
		t.Errorf("the connection was not closed: %v, %q", err, answer)
	}
}

func TestHeadTooLarge(t *testing.T) {
	cfg := testConfig()
	cfg.HTTP.MaxHeaderBytes = 4 << 10
	s := start(t, cfg, newFakePlane(func(http.ResponseWriter, *http.Request) { t.Error("a request with too large a head was served") }))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Client+"/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		req.Header.Set(fmt.Sprint("X-", i), strings.Repeat("x", 300))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d, want 431", resp.StatusCode)
	}
}

func TestHealthMethods(t *testing.T) {
	s := start(t, testConfig(), newFakePlane(nil))
	for _, address := range []string{s.Client, s.Admin, s.Metrics} {
		resp, err := http.Post("http://"+address+"/health", "text/plain", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") == "" {
			t.Errorf("POST /health = %d, Allow %q; want 405 with Allow", resp.StatusCode, resp.Header.Get("Allow"))
		}
	}
}

// Thousands of idle connections leave health as quick as it was.
func TestIdleConnections(t *testing.T) {
	const idle = 500 // each takes two descriptors in this process
	s := start(t, testConfig(), newFakePlane(nil))
	for range idle {
		conn, err := net.Dial("tcp", s.Client)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	if status, _ := get(t, "http://"+s.Client+"/health"); status != 200 {
		t.Errorf("/health = %d beside %d idle connections", status, idle)
	}
}

func grep(text, word string) string {
	var out []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

// A deadline that is moved between two reads costs nothing, holds for the next
// read, and reaches a read that is under way.
func TestReadDeadlines(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	limited := &limitedListener{Listener: ln, metrics: m, patience: 50 * time.Millisecond}
	defer limited.Close()
	peer, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	conn, err := limited.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	expired := func(name string, err error) {
		t.Helper()
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %v; want a deadline that passed", name, err)
		}
	}
	b := make([]byte, 8)

	_ = conn.SetReadDeadline(time.Now().Add(time.Hour))
	_ = conn.SetReadDeadline(time.Unix(1, 0))
	_, err = conn.Read(b)
	expired("set before the read", err)

	_ = conn.SetReadDeadline(time.Time{})
	result := make(chan error)
	go func() {
		_, err := conn.Read(b)
		result <- err
	}()
	lc := conn.(*limitedConn)
	for reading := false; !reading; runtime.Gosched() {
		lc.mu.Lock()
		reading = lc.reading
		lc.mu.Unlock()
	}
	_ = conn.SetDeadline(time.Unix(1, 0))
	expired("set during the read", <-result)

	_ = conn.SetReadDeadline(time.Time{})
	if _, err := io.WriteString(peer, "x"); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(b); n != 1 || err != nil {
		t.Errorf("after the deadline was taken away: read %d, %v; want 1 byte", n, err)
	}

	// The peer reads nothing, so at some point a write has to wait.
	for err = nil; err == nil; {
		_, err = conn.Write(make([]byte, 64<<10))
	}
	expired("a peer that reads nothing", err)
}

// A body that is announced and not sent holds up no answer, and holds its
// connection hardly longer than one.
func TestWithheldBody(t *testing.T) {
	s := start(t, testConfig(), newFakePlane(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
	for _, path := range []string{"/health", "/ready"} {
		conn, err := net.Dial("tcp", s.Client)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc", path)
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		answer, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 ") {
			t.Errorf("%s: %v, %q; want an answer and the connection's end", path, err, answer)
		}
	}
}
