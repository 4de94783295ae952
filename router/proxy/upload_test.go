package proxy_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/llmgw/llmgw/router/proxy"
)

// noise is a body of n bytes in pieces of odd sizes.
func noise(n int) []string {
	src := rand.NewChaCha8([32]byte{byte(n)})
	rng := rand.New(src)
	b := make([]byte, n)
	_, _ = src.Read(b)
	var parts []string
	for len(b) > 0 {
		k := min(len(b), rng.IntN(n/3+2))
		parts = append(parts, string(b[:k])) // empty ones, too
		b = b[k:]
	}
	return parts
}

// huge is a request with a body of n MiB, one piece many times.
func huge(n int) *proxy.Request {
	r := post()
	r.Body, r.Length = nil, n<<20
	for part := make([]byte, 1<<16); len(r.Body) < n<<4; {
		r.Body = append(r.Body, part)
	}
	return r
}

func TestUploadArrivesIntact(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 1000, 16<<10 - 200, 16 << 10, 256 << 10, 256<<10 + 1, 1 << 20, 3 << 20} {
		e := answering(t, hello)
		b := newBench(t, e.url(), nil)
		parts := noise(size)
		for range 2 {
			b.do(t.Context(), post(parts...)).want(t, 200, "hello")
		}
		for _, got := range e.requests() {
			if sha256.Sum256([]byte(got.body)) != sha256.Sum256([]byte(strings.Join(parts, ""))) {
				t.Errorf("a body of %d bytes arrived as another of %d", size, len(got.body))
			}
		}
		if e.dials() != 1 {
			t.Errorf("%d connections for bodies of %d bytes, want 1", e.dials(), size)
		}
	}
}

// opened is a request whose body is read from elsewhere, anew each time.
func opened(body string) *proxy.Request {
	r := post()
	r.Body, r.Length = nil, len(body)
	r.Open = func() io.Reader { return iotest.HalfReader(strings.NewReader(body)) }
	return r
}

func TestUploadFromElsewhere(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 64 << 10, 64<<10 + 1, 1 << 20} {
		e := answering(t, hello)
		b := newBench(t, e.url(), nil)
		body := strings.Join(noise(size), "")
		for range 2 {
			b.do(t.Context(), opened(body)).want(t, 200, "hello")
		}
		for _, got := range e.requests() {
			if got.body != body {
				t.Errorf("a body of %d bytes arrived as another of %d", size, len(got.body))
			}
		}
		if e.dials() != 1 {
			t.Errorf("%d connections for bodies of %d bytes, want 1", e.dials(), size)
		}
	}
}

// A body that cannot be read is no fault of the engine, which must not take what
// came of it for all.
func TestUploadThatCannotBeRead(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk on fire")
	each(t, nil, func(t *testing.T, serve func(h http.HandlerFunc) *bench) {
		for name, tail := range map[string]io.Reader{"fails": iotest.ErrReader(broken), "ends early": strings.NewReader("")} {
			whole := make(chan error, 1)
			b := serve(func(_ http.ResponseWriter, r *http.Request) {
				_, err := io.Copy(io.Discard, r.Body)
				whole <- err
			})
			r := post()
			r.Body, r.Length = nil, 300<<10
			r.Open = func() io.Reader { return io.MultiReader(strings.NewReader(strings.Repeat("x", 200<<10)), tail) }
			_, err := b.Send(t.Context(), b.target, r)
			e, ok := errors.AsType[*proxy.Error](err)
			if !ok || e.Kind != proxy.KindBody {
				t.Fatalf("%s: got %v; want %v", name, err, proxy.KindBody)
			}
			if name == "fails" && !errors.Is(err, broken) {
				t.Errorf("%v hides its cause", err)
			}
			if err := <-whole; err == nil {
				t.Errorf("%s: the engine takes what it got for all of it", name)
			}
		}
	})
}

const tooLarge = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig"

// An answer that comes before the whole request ends the upload and is passed
// on; the connection, where the rest of the body is missing, is not used again.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	read := make(chan int64, 2)
	for _, tt := range []struct {
		name string
		end  func(p *peer)
	}{
		{"and reads on", func(p *peer) {
			n, _ := io.Copy(io.Discard, p.br)
			read <- n
		}},
		{"and closes", func(*peer) {}},
		{"and stops sending", func(p *peer) { _ = p.CloseWrite(); _ = p.gone() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t, func(p *peer) {
				if p.head() != nil {
					p.say(tooLarge)
					tt.end(p)
				}
			})
			b := newBench(t, e.url(), nil)
			for range 2 {
				b.do(t.Context(), huge(64)).want(t, 413, "big")
			}
			e.waitOpen(t, 0)
			if e.dials() != 2 {
				t.Errorf("%d connections, want 2", e.dials())
			}
			for range len(read) {
				if n := <-read; n >= 64<<20 {
					t.Errorf("the upload went on to its end")
				}
			}
		})
	}
}

// An engine that answers and resets while the body still comes is heard, where
// the system keeps what it had sent.
func TestAnswerThenReset(t *testing.T) {
	t.Parallel()
	e := newEngine(t, func(p *peer) {
		if p.head() != nil {
			p.say(tooLarge) // closed with bytes unread: the kernel resets
		}
	})
	b := newBench(t, e.url(), nil)
	heard := 0
	for range 20 {
		got := b.do(t.Context(), huge(8))
		if got.err == nil {
			got.want(t, 413, "big")
			heard++
		} else if k := kindOf(got.err); k != proxy.KindLost && k != proxy.KindCut {
			t.Errorf("got %v", got.err)
		}
	}
	if heard == 0 {
		t.Error("the answer was never passed on")
	}
}

// An interim answer is none: the upload goes on.
func TestInterimAnswerWithinUpload(t *testing.T) {
	t.Parallel()
	e := newEngine(t, func(p *peer) {
		got := p.head()
		if got == nil {
			return
		}
		p.say("HTTP/1.1 102 Processing\r\n\r\n")
		n, _ := io.Copy(io.Discard, got.Request.Body)
		if n == 8<<20 {
			p.say(hello)
		}
	})
	newBench(t, e.url(), nil).do(t.Context(), huge(8)).want(t, 200, "hello")
}

// An engine that stops reading holds an exchange no longer than one that does
// not answer.
func TestEngineStopsReading(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		mod  func(c *proxy.Config)
		want proxy.Kind
	}{
		{"response header", func(c *proxy.Config) { c.Timeouts.ResponseHeader = 50 * time.Millisecond }, proxy.KindHeaderTimeout},
		{"total", func(c *proxy.Config) { c.Timeouts.Total = 50 * time.Millisecond }, proxy.KindTotalTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			e := newEngine(t, func(*peer) { <-release })
			defer close(release)
			b := newBench(t, e.url(), tt.mod)
			start := time.Now()
			b.do(t.Context(), huge(64)).wantKind(t, tt.want)
			if d := time.Since(start); d > patient/2 {
				t.Errorf("given up after %v", d)
			}
		})
	}
	t.Run("cancel", func(t *testing.T) {
		t.Parallel()
		release := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		e := newEngine(t, func(p *peer) {
			_, _ = p.br.Peek(1)
			cancel()
			<-release
		})
		defer close(release)
		newBench(t, e.url(), nil).do(ctx, huge(64)).wantKind(t, proxy.KindCanceled)
	})
}
