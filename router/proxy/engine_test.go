package proxy_test

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// These tests wait for deadlines more than they compute.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	// A server of net/http that gives up a connection lingers on it for half a
	// second, longer than goleak waits.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// engine is a peer that does with each connection what its script says, well
// formed or not.
type engine struct {
	ln   net.Listener
	wg   sync.WaitGroup
	quit chan struct{} // closed at the end; scripts that wait for nothing else wait for it
	halt func()

	mu       sync.Mutex
	accepted int                // guarded by mu
	open     map[*peer]struct{} // guarded by mu
	changed  chan struct{}      // guarded by mu; closed at each change of open
	log      []*received        // guarded by mu
	script   func(p *peer)      // runs once per connection, which is closed after it
}

// received is one request as it came.
type received struct {
	head string // raw, with the empty line
	*http.Request
	body string
}

func newEngine(t testing.TB, script func(p *peer)) *engine {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{ln: ln, open: map[*peer]struct{}{}, changed: make(chan struct{}), script: script, quit: make(chan struct{})}
	e.halt = sync.OnceFunc(func() { close(e.quit) })
	e.wg.Go(e.accept)
	t.Cleanup(e.stop)
	return e
}

// answering serves every request on every connection with the same bytes.
func answering(t testing.TB, pieces ...string) *engine {
	t.Helper()
	return newEngine(t, func(p *peer) {
		for p.request() != nil {
			p.say(pieces...)
		}
	})
}

// once answers the first request of each connection with the pieces and closes.
func once(t testing.TB, pieces ...string) *engine {
	t.Helper()
	return newEngine(t, func(p *peer) {
		if p.request() != nil {
			p.say(pieces...)
		}
	})
}

func (e *engine) accept() {
	for {
		c, err := e.ln.Accept()
		if err != nil {
			return
		}
		p := &peer{TCPConn: c.(*net.TCPConn), e: e}
		p.br = bufio.NewReader(recording{p})
		e.mu.Lock()
		p.n = e.accepted
		e.accepted++
		e.open[p] = struct{}{}
		e.change()
		e.mu.Unlock()
		e.wg.Go(func() {
			e.script(p)
			_ = p.Close()
			e.mu.Lock()
			delete(e.open, p)
			e.change()
			e.mu.Unlock()
		})
	}
}

// change wakes who waits; e.mu is held.
func (e *engine) change() {
	close(e.changed)
	e.changed = make(chan struct{})
}

func (e *engine) stop() {
	e.halt()
	_ = e.ln.Close()
	e.mu.Lock()
	for p := range e.open {
		_ = p.Close()
	}
	e.mu.Unlock()
	e.wg.Wait()
}

func (e *engine) url() string { return "http://" + e.ln.Addr().String() }

// dials is how many connections came.
func (e *engine) dials() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.accepted
}

// waitOpen returns when n scripts are running, as n connections are open.
func (e *engine) waitOpen(t testing.TB, n int) {
	t.Helper()
	for {
		e.mu.Lock()
		have, changed := len(e.open), e.changed
		e.mu.Unlock()
		if have == n {
			return
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatalf("%d connections are open, want %d", have, n)
		}
	}
}

// requests returns what came so far.
func (e *engine) requests() []*received {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]*received(nil), e.log...)
}

// peer is the engine's end of one connection.
type peer struct {
	*net.TCPConn
	e   *engine
	n   int // counts connections from 0
	br  *bufio.Reader
	raw bytes.Buffer // of the request whose head is read
	rec bool         // into raw
}

// recording reads from a peer's connection and keeps what heads are made of.
type recording struct{ p *peer }

func (r recording) Read(b []byte) (int, error) {
	n, err := r.p.TCPConn.Read(b)
	if r.p.rec {
		r.p.raw.Write(b[:n])
	}
	return n, err
}

// head reads a request's head, nil at the connection's end.
func (p *peer) head() *received {
	p.raw.Reset()
	b, _ := p.br.Peek(p.br.Buffered())
	p.raw.Write(b)
	p.rec = true
	r, err := http.ReadRequest(p.br)
	p.rec = false
	if err != nil {
		return nil
	}
	raw := p.raw.String()
	got := &received{Request: r, head: raw[:strings.Index(raw, "\r\n\r\n")+4]}
	p.e.mu.Lock()
	p.e.log = append(p.e.log, got)
	p.e.mu.Unlock()
	return got
}

// request reads a whole request, nil at the connection's end.
func (p *peer) request() *received {
	got := p.head()
	if got == nil {
		return nil
	}
	b, err := io.ReadAll(got.Request.Body)
	if err != nil {
		return nil
	}
	got.body = string(b)
	return got
}

// say writes each piece in one write.
func (p *peer) say(pieces ...string) {
	for _, s := range pieces {
		if _, err := io.WriteString(p, s); err != nil {
			return
		}
	}
}

// reset ends the connection with RST.
func (p *peer) reset() {
	_ = p.SetLinger(0)
	_ = p.Close()
}

// gone returns when the relay has closed the connection.
func (p *peer) gone() error {
	_, err := io.Copy(io.Discard, p.br)
	if errors.Is(err, net.ErrClosed) {
		return err // the test is over
	}
	return nil
}
