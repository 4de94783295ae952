package proxy_test

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/router/proxy"
)

// counter is a client that keeps nothing.
type counter struct {
	header http.Header
	n      int64
}

func (w *counter) Header() http.Header              { return w.header }
func (w *counter) WriteHeader(int)                  {}
func (w *counter) Write(b []byte) (int, error)      { w.n += int64(len(b)); return len(b), nil }
func (w *counter) Flush()                           {}
func (w *counter) SetWriteDeadline(time.Time) error { return nil }

// An answer's size costs no memory, however it is framed.
func TestMemoryIsFlat(t *testing.T) {
	const size = 64 << 20
	block := strings.Repeat("x", 1<<20)
	for _, tt := range []struct{ name, head, piece string }{
		{"length", "HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n", block},
		{"chunks of 1 MiB", okChunked, chunk(block)},
		{"until close", okClose, block},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newEngine(t, func(p *peer) {
				if p.request() == nil {
					return
				}
				p.say(tt.head)
				piece := []byte(tt.piece)
				for range size >> 20 {
					if _, err := p.Write(piece); err != nil {
						return
					}
				}
				if tt.head == okChunked {
					p.say(chunk(""))
				}
			})
			b := newBench(t, e.url(), nil)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			resp, err := b.Send(t.Context(), b.target, post())
			if err != nil {
				t.Fatal(err)
			}
			w := &counter{header: http.Header{}}
			out, err := resp.Relay(w, &lineTap{done: true}, proxy.Options{})
			runtime.ReadMemStats(&after)
			if err != nil || out.Bytes != size || w.n != size {
				t.Fatalf("%v; %d bytes passed, %d counted, want %d", err, w.n, out.Bytes, size)
			}
			// The engine's own piece and its buffers are in this number, too.
			if n := after.TotalAlloc - before.TotalAlloc; n > 4<<20 {
				t.Errorf("%d bytes were allocated for an answer of %d", n, size)
			}
		})
	}
}

// A small exchange on a warm connection allocates only for its client's header.
func TestCallAllocs(t *testing.T) {
	answer := []byte("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nserver: uvicorn\r\ncontent-length: 1024\r\n\r\n" +
		strings.Repeat("x", 1024))
	e := newEngine(t, func(p *peer) { echo(p, answer) })
	b := newBench(t, e.url(), nil)
	req, w, tap := post(strings.Repeat("x", 1024)), &counter{}, &lineTap{}
	n := testing.AllocsPerRun(200, func() {
		w.header = http.Header{}
		resp, err := b.Send(t.Context(), b.target, req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := resp.Relay(w, tap, proxy.Options{KeepLength: true}); err != nil {
			t.Fatal(err)
		}
	})
	if n > 10 {
		t.Errorf("%v allocations a call", n)
	}
	t.Logf("%v allocations a call", n)
}

// echo answers each request of a connection with the same bytes and allocates
// nothing for it. Requests are of one size, and come in one piece.
func echo(p *peer, answer []byte) {
	buf := make([]byte, 64<<10)
	for {
		if _, err := p.TCPConn.Read(buf); err != nil {
			return
		}
		if _, err := p.TCPConn.Write(answer); err != nil {
			return
		}
	}
}

func BenchmarkCall(b *testing.B) {
	answer := []byte("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nserver: uvicorn\r\ncontent-length: 1024\r\n\r\n" +
		strings.Repeat("x", 1024))
	e := newEngine(b, func(p *peer) { echo(p, answer) })
	bb := newBench(b, e.url(), nil)
	req, w, tap := post(strings.Repeat("x", 1024)), &counter{}, &lineTap{}
	b.ReportAllocs()
	for b.Loop() {
		w.header = http.Header{}
		resp, err := bb.Send(b.Context(), bb.target, req)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := resp.Relay(w, tap, proxy.Options{KeepLength: true}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStream relays 100 events, each written by itself.
func BenchmarkStream(b *testing.B) {
	event := []byte(chunk("data: " + strings.Repeat("x", 200) + "\n\n"))
	e := newEngine(b, func(p *peer) {
		buf := make([]byte, 64<<10)
		for {
			if _, err := p.TCPConn.Read(buf); err != nil {
				return
			}
			_, _ = io.WriteString(p, okChunked)
			for range 100 {
				_, _ = p.Write(event)
			}
			if _, err := io.WriteString(p, chunk("")); err != nil {
				return
			}
		}
	})
	bb := newBench(b, e.url(), nil)
	req, w, tap := post(), &counter{}, &lineTap{}
	req.Lasting = true
	b.ReportAllocs()
	for b.Loop() {
		w.header = http.Header{}
		resp, err := bb.Send(b.Context(), bb.target, req)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := resp.Relay(w, tap, proxy.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
