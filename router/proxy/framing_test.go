package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/router/proxy"
)

// What two parsers could read differently is refused before a byte of it is
// passed on, and its connection is closed.
func TestAmbiguousFramingIsRefused(t *testing.T) {
	t.Parallel()
	head := func(lines ...string) string {
		return "HTTP/1.1 200 OK\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n"
	}
	for _, tt := range []struct{ name, answer string }{
		{"length beside a coding", head("Transfer-Encoding: chunked", "Content-Length: 5") + chunk("hello") + chunk("")},
		{"coding beside a length", head("Content-Length: 5", "Transfer-Encoding: chunked") + "hello"},
		{"two lengths", head("Content-Length: 5", "Content-Length: 6") + "hello!"},
		{"two equal lengths", head("Content-Length: 5", "Content-Length: 5") + "hello"},
		{"list of lengths", head("Content-Length: 5, 5") + "hello"},
		{"signed length", head("Content-Length: +5") + "hello"},
		{"negative length", head("Content-Length: -5") + "hello"},
		{"empty length", head("Content-Length:") + "hello"},
		{"hexadecimal length", head("Content-Length: 0x5") + "hello"},
		{"huge length", head("Content-Length: 99999999999999999999") + "hello"},
		{"coding gzip", head("Transfer-Encoding: gzip") + "hello"},
		{"coding gzip, chunked", head("Transfer-Encoding: gzip, chunked") + chunk("hello") + chunk("")},
		{"coding chunked, chunked", head("Transfer-Encoding: chunked, chunked") + chunk("hello") + chunk("")},
		{"coding twice", head("Transfer-Encoding: chunked", "Transfer-Encoding: chunked") + chunk("hello") + chunk("")},
		{"coding identity", head("Transfer-Encoding: identity", "Content-Length: 5") + "hello"},
		{"coding with a control character", head("Transfer-Encoding: \x0bchunked") + chunk("hello") + chunk("")},
		{"coding in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("hello") + chunk("")},
		{"folded line", head("X-A: a", " b", "Content-Length: 5") + "hello"},
		{"folded with a tab", head("X-A: a", "\tb", "Content-Length: 5") + "hello"},
		{"folded first line", "HTTP/1.1 200 OK\r\n X: 1\r\nContent-Length: 5\r\n\r\nhello"},
		{"space before the colon", head("Content-Length : 5") + "hello"},
		{"line without a colon", head("Content-Length 5") + "hello"},
		{"empty name", head(": 5") + "hello"},
		{"carriage return in a value", head("X-A: a\rContent-Length: 5", "Content-Length: 6") + "hello!"},
		{"NUL in a value", head("X-A: a\x00b", "Content-Length: 5") + "hello"},
		{"upgrade", status("101 Switching Protocols", "Upgrade: h2c", "Connection: Upgrade")},
		{"HTTP/2", "HTTP/2.0 200 OK\r\nContent-Length: 5\r\n\r\nhello"},
		{"HTTP/0.9", "<html>hello</html>\r\n\r\n"},
		{"status of two digits", "HTTP/1.1 20 OK\r\nContent-Length: 5\r\n\r\nhello"},
		{"status of four digits", "HTTP/1.1 2000 OK\r\nContent-Length: 5\r\n\r\nhello"},
		{"status below 100", "HTTP/1.1 099 OK\r\nContent-Length: 5\r\n\r\nhello"},
		{"another protocol", "SSH-2.0-OpenSSH_9.6\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t, func(p *peer) {
				if p.request() != nil {
					p.say(tt.answer)
					_ = p.gone()
				}
			})
			b := newBench(t, e.url(), nil)
			got := b.do(t.Context(), post())
			got.wantKind(t, proxy.KindProtocol)
			if got.out.Started || got.status != 0 || got.body() != "" {
				t.Errorf("passed on: %d %q", got.status, got.body())
			}
			e.waitOpen(t, 0)
			if n := b.metric(t, "failures_total", "protocol"); n != 1 {
				t.Errorf("%d failures counted, want 1", n)
			}
		})
	}
}

func status(status string, lines ...string) string {
	return "HTTP/1.1 " + status + "\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n"
}

func TestMalformedChunksAreRefused(t *testing.T) {
	t.Parallel()
	const first = "5\r\nhello\r\n"
	for _, tt := range []struct{ name, body string }{
		{"size of 16 digits", first + "1000000000000000\r\nx"},
		{"size that overflows", first + "fffffffffffffffff\r\nx"},
		{"size padded with zeros", first + "00000000000000005\r\nhello\r\n"},
		{"size with a sign", first + "+5\r\nhello\r\n"},
		{"size with a prefix", first + "0x5\r\nhello\r\n"},
		{"no size", first + "\r\nhello\r\n"},
		{"a word", first + "five\r\nhello\r\n"},
		{"words after the size", first + "5 5\r\nhello\r\n"},
		{"space before the size", first + " 5\r\nhello\r\n"},
		{"bare LF after the size", first + "5\nhello\r\n"},
		{"bare LF in an extension", first + "5;a=b\nhello\r\n"},
		{"CR without LF after the size", first + "5\rhello\r\n"},
		{"bare LF after the data", first + "5\r\nhello\n"},
		{"data longer than its size", first + "5\r\nhello!\r\n"},
		{"data shorter than its size", first + "7\r\nhello\r\n5\r\nhello\r\n"},
		{"long extension", first + "5;" + strings.Repeat("x", 5<<10) + "\r\nhello\r\n"},
		{"long padding", first + "5" + strings.Repeat(" ", 5<<10) + "\r\nhello\r\n"},
		{"bare LF at the end", first + "0\r\n\n"},
		{"bare LF in a trailer", first + "0\r\nX: y\n\r\n"},
		{"CR in a trailer", first + "0\r\nX: a\rb\r\n\r\n"},
		{"long trailer", first + "0\r\nX: " + strings.Repeat("y", 20<<10) + "\r\n\r\n"},
		{"many trailers", first + "0\r\n" + strings.Repeat("X: y\r\n", 4<<10) + "\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t, func(p *peer) {
				if p.request() != nil {
					p.say(okChunked, first, tt.body[len(first):])
					_ = p.gone()
				}
			})
			got := newBench(t, e.url(), nil).do(t.Context(), post())
			got.wantKind(t, proxy.KindProtocol)
			if body := got.body(); body != "" && !strings.HasPrefix(body, "hello") {
				t.Errorf("passed on %q", body)
			}
			e.waitOpen(t, 0)
		})
	}
}

func TestGoodFraming(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, method, answer string
		status               int
		want                 string
		reused               bool
	}{
		{"length", "POST", hello, 200, "hello", true},
		{"length zero", "POST", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "", true},
		{"chunked", "POST", okChunked + chunk("hello") + chunk(", world") + chunk(""), 200, "hello, world", true},
		{"chunked and empty", "POST", okChunked + chunk(""), 200, "", true},
		{"size in capitals", "POST", okChunked + "A\r\n0123456789\r\n" + chunk(""), 200, "0123456789", true},
		{"size with zeros", "POST", okChunked + "0005\r\nhello\r\n000\r\n\r\n", 200, "hello", true},
		{"extensions", "POST", okChunked + "5;a=b;c\r\nhello\r\n0 ;d\r\n\r\n", 200, "hello", true},
		{"padded size", "POST", okChunked + "5 \t\r\nhello\r\n0\r\n\r\n", 200, "hello", true},
		{"trailers", "POST", okChunked + chunk("hello") + "0\r\nX-Sum: 1\r\nServer: x\r\n\r\n", 200, "hello", true},
		{"names in other cases", "POST", "HTTP/1.1 200 OK\r\ncontent-LENGTH:5\r\n\r\nhello", 200, "hello", true},
		{"coding in other cases", "POST", "HTTP/1.1 200 OK\r\ntransfer-encoding: CHUNKED \r\n\r\n" + chunk("hello") + chunk(""), 200, "hello", true},
		{"head with bare LF", "POST", "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", 200, "hello", true},
		{"no reason", "POST", "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", true},
		{"HTTP/1.0", "POST", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", false},
		{"HTTP/1.0 that keeps", "POST", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", true},
		{"Connection: close", "POST", "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", false},
		{"100 first", "POST", "HTTP/1.1 100 Continue\r\n\r\n" + hello, 200, "hello", true},
		{"103 first", "POST", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + hello, 200, "hello", true},
		{"sixteen interim answers", "POST", strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 16) + hello, 200, "hello", true},
		{"204", "POST", "HTTP/1.1 204 No Content\r\n\r\n", 204, "", true},
		{"304 with a length", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, "", true},
		{"HEAD with a length", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 200, "", true},
		{"HEAD with a coding", "HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 200, "", true},
		{"extra bytes after a length", "POST", hello + "x", 200, "hello", false},
		{"extra bytes after chunks", "POST", okChunked + chunk("hello") + chunk("") + "HTTP/1.1 200 OK\r\n", 200, "hello", false},
		{"extra bytes after no body", "POST", "HTTP/1.1 204 No Content\r\n\r\nhello", 204, "", false},
		{"another status", "POST", "HTTP/1.1 999 Odd\r\nContent-Length: 5\r\n\r\nhello", 999, "hello", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := answering(t, tt.answer)
			b := newBench(t, e.url(), nil)
			req := post()
			if tt.method != http.MethodPost {
				req = &proxy.Request{Method: tt.method, Path: "/", Header: http.Header{}}
			}
			for range 2 {
				b.do(t.Context(), req).want(t, tt.status, tt.want)
			}
			want := 2
			if tt.reused {
				want = 1
			}
			if n := e.dials(); n != want {
				t.Errorf("%d connections for two requests, want %d", n, want)
			}
			if n := b.metric(t, "failures_total"); n != 0 {
				t.Errorf("%d failures counted", n)
			}
		})
	}
}

func TestTooManyInterimAnswers(t *testing.T) {
	t.Parallel()
	e := answering(t, strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 17)+hello)
	newBench(t, e.url(), nil).do(t.Context(), post()).wantKind(t, proxy.KindProtocol)
}

func TestLongHeads(t *testing.T) {
	t.Parallel()
	head := func(total int) string {
		const rest = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
		var b strings.Builder
		for left := total - len(rest); left > 0; {
			n := min(left, 1000)
			if left-n < 10 { // no line is shorter than its name and end
				n = left
			}
			b.WriteString("X-Pad: " + strings.Repeat("p", n-len("X-Pad: \r\n")) + "\r\n")
			left -= n
		}
		return "HTTP/1.1 200 OK\r\n" + b.String() + "Content-Length: 5\r\n\r\n"
	}
	for _, tt := range []struct {
		name string
		size int
		ok   bool
	}{
		{"just below the buffer", 8<<10 - 1, true},
		{"the buffer", 8 << 10, true},
		{"just above the buffer", 8<<10 + 1, true},
		{"9 KiB", 9 << 10, true},
		{"60 KiB", 60 << 10, true},
		{"64 KiB", 64 << 10, true},
		{"just above 64 KiB", 64<<10 + 1, false},
		{"200 KiB", 200 << 10, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := answering(t, head(tt.size)+"hello")
			b := newBench(t, e.url(), nil)
			for range 2 { // the second on a connection that had a long head
				got := b.do(t.Context(), post())
				if !tt.ok {
					got.wantKind(t, proxy.KindProtocol)
					continue
				}
				got.want(t, 200, "hello")
				n := 0
				for _, v := range got.header["X-Pad"] {
					n += len(v)
				}
				if n < tt.size*9/10 {
					t.Errorf("%d bytes of padding arrived of a head of %d", n, tt.size)
				}
			}
		})
	}
	t.Run("that never end", func(t *testing.T) {
		t.Parallel()
		e := newEngine(t, func(p *peer) {
			if p.request() == nil {
				return
			}
			p.say("HTTP/1.1 200 OK\r\n")
			line := "X: " + strings.Repeat("y", 4<<10) + "\r\n"
			for {
				if _, err := p.Write([]byte(line)); err != nil {
					return
				}
			}
		})
		newBench(t, e.url(), nil).do(t.Context(), post()).wantKind(t, proxy.KindProtocol)
		e.waitOpen(t, 0)
	})
}

// A body that only the connection's end ends is whole if the tap says so.
func TestNoLengthUntilClose(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, body string
		kind       proxy.Kind
	}{
		{"whole", "data: a\n\ndata: [DONE]\n\n", 0},
		{"cut", "data: a\n\ndata: b\n\n", proxy.KindCut},
		{"empty", "", proxy.KindCut},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := once(t, okClose, tt.body)
			b := newBench(t, e.url(), nil)
			for i := range 2 {
				got := b.do(t.Context(), post())
				got.wantKind(t, tt.kind)
				if got.body() != tt.body {
					t.Errorf("got %q, want %q", got.body(), tt.body)
				}
				if got.out.Started != (tt.body != "") {
					t.Errorf("Started is %v after %q", got.out.Started, tt.body)
				}
				if e.dials() != i+1 {
					t.Errorf("%d connections after %d requests", e.dials(), i+1)
				}
			}
		})
	}
}

// An answer that ends before its length or its last chunk was cut; what came
// was passed on, and nothing else.
func TestCut(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, answer, body string
		started            bool
	}{
		{"within the head", "HTTP/1.1 200 OK\r\nConte", "", false},
		{"within an interim answer", "HTTP/1.1 100 Continue\r\n\r\n", "", false},
		{"after the head", ok5, "", false},
		{"within a length", ok5 + "hel", "hel", true},
		{"before the first chunk", okChunked, "", false},
		{"within a size", okChunked + chunk("hello") + "1", "hello", true},
		{"within a chunk", okChunked + "5\r\nhel", "hel", true},
		{"before the last chunk", okChunked + chunk("hello"), "hello", true},
		{"within the last chunk", okChunked + chunk("hello") + "0\r\n", "hello", true},
		{"within the trailers", okChunked + chunk("hello") + "0\r\nX: y\r\n", "hello", true},
	} {
		for _, end := range []string{"FIN", "RST"} {
			t.Run(tt.name+"/"+end, func(t *testing.T) {
				t.Parallel()
				seen := make(chan struct{})
				e := newEngine(t, func(p *peer) {
					if p.request() == nil {
						return
					}
					p.say(tt.answer)
					if end == "RST" {
						if tt.started {
							<-seen // a reset may overtake what was sent
						}
						p.reset()
					}
				})
				w := newRecorder()
				w.onWrite = func([]byte) error { close(seen); return nil }
				got := newBench(t, e.url(), nil).relay(t.Context(), post(), w, &lineTap{}, proxy.Options{})
				if end == "RST" && !tt.started && kindOf(got.err) == proxy.KindLost {
					return // nothing was seen before the reset
				}
				got.wantKind(t, proxy.KindCut)
				if got.body() != tt.body || got.out.Started != tt.started || got.out.Bytes != int64(len(tt.body)) {
					t.Errorf("passed on %q (started %v, counted %d), want %q", got.body(), got.out.Started, got.out.Bytes, tt.body)
				}
			})
		}
	}
}

// Wherever the network splits an answer, the client gets the same.
func TestSplitsChangeNothing(t *testing.T) {
	t.Parallel()
	answer := "HTTP/1.1 100 Continue\r\n\r\n" +
		"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" +
		"9\r\ndata: \xe2\x82\xac\r\n" + "2;x=y\r\n\n\n\r\n" + chunk("data: [DONE]\n\n") + "0\r\nA: b\r\n\r\n"
	const want = "data: \xe2\x82\xac\n\ndata: [DONE]\n\n"
	at := 0 // of the one connection
	e := newEngine(t, func(p *peer) {
		for p.request() != nil {
			p.say(answer[:at], answer[at:])
			at++
		}
	})
	b := newBench(t, e.url(), nil)
	for range len(answer) {
		b.do(t.Context(), post()).want(t, 200, want)
	}
	if e.dials() != 1 {
		t.Errorf("%d connections, want 1", e.dials())
	}
	t.Run("byte by byte", func(t *testing.T) {
		e := answering(t, strings.Split(answer, "")...)
		b := newBench(t, e.url(), nil)
		for range 5 {
			b.do(t.Context(), post()).want(t, 200, want)
		}
	})
}
