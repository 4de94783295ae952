package engine_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// tap stands between the router and an engine and keeps what the engine says.
// It opens a connection for each request and takes nothing of net/http's client,
// which gives up answers of engines that close connections unasked.
type tap struct {
	url    string
	engine string // host:port

	mu   sync.Mutex
	said bytes.Buffer // guarded by mu; the body of the last answer to a POST
}

func newTap(t *testing.T, engine string) *tap {
	t.Helper()
	p := &tap{engine: strings.TrimPrefix(engine, "http://")}
	srv := httptest.NewServer(p)
	t.Cleanup(srv.Close)
	p.url = srv.URL
	return p
}

// ServeHTTP passes a request on and its answer back, each piece at once.
func (p *tap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", p.engine)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = conn.Close() }()
	if err := r.Write(conn); err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	if r.Method == http.MethodPost {
		p.keep(nil)
	}
	w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
	w.WriteHeader(res.StatusCode)
	for b := make([]byte, 64<<10); ; {
		n, err := res.Body.Read(b)
		if r.Method == http.MethodPost && n > 0 {
			p.keep(b[:n])
		}
		_, _ = w.Write(b[:n]) // a router that left is seen by its test
		_ = http.NewResponseController(w).Flush()
		if err == io.EOF {
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler) // the answer broke off, and so does this one
		}
	}
}

// keep adds b to what was said; nil begins anew.
func (p *tap) keep(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b == nil {
		p.said.Reset()
	}
	p.said.Write(b)
}

// last is the body of the last answer.
func (p *tap) last() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}
