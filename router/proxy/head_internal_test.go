package proxy

import (
	"bufio"
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzHead: no bytes upset the parser, where they are split changes nothing, and
// what it accepts net/http understands in the same way.
func FuzzHead(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n5\r\nhello\r\n",
		"HTTP/1.0 304 Not Modified\nX: a\nX:\t b \n\n",
	} {
		f.Add([]byte(s), false)
	}
	f.Fuzz(func(t *testing.T, b []byte, isHead bool) {
		end := headEnd(b, 0)
		for k := range min(len(b), 300) {
			if short := headEnd(b[:k], 0); short == 0 {
				if got := headEnd(b, k); got != end {
					t.Fatalf("split at %d: the head ends at %d, in one piece at %d", k, got, end)
				}
			} else if short != end {
				t.Fatalf("of %d bytes the head ends at %d, of all at %d", k, short, end)
			}
		}
		if end == 0 || end > maxHead {
			return
		}
		method := http.MethodPost
		if isHead {
			method = http.MethodHead
		}
		var h head
		if h.parse(b[:end], method) != nil {
			return
		}
		br := bufio.NewReader(bytes.NewReader(b[:end]))
		resp, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("net/http refuses %q: %v", b[:end], err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != h.status {
			t.Errorf("status %d, net/http's is %d", h.status, resp.StatusCode)
		}
		theirs := bodyUntilClose
		switch {
		case isHead || h.status < 200 || h.status == 204 || h.status == 304 || resp.ContentLength == 0:
			theirs = bodyNone
		case len(resp.TransferEncoding) > 0:
			theirs = bodyChunked
		case resp.ContentLength > 0:
			theirs = bodyLength
		}
		if h.framing != theirs || theirs == bodyLength && h.length != resp.ContentLength {
			t.Errorf("framing %d (%d), net/http's is %d (%d) of %q", h.framing, h.length, theirs, resp.ContentLength, b[:end])
		}
		if h.keep && resp.Close {
			t.Errorf("net/http closes after %q", b[:end])
		}
		ours := http.Header{}
		copyHeader(ours, h.fields, b)
		want := http.Header{}
		var named []string // net/http deletes a Connection that closes
		for _, fl := range h.fields {
			if fold(b[fl.name:fl.nameEnd], "connection") {
				named = append(named, connectionNames([]string{string(b[fl.value:fl.valueEnd])})...)
			}
		}
		for name, v := range resp.Header {
			if !notReturned[name] && !slices.Contains(named, name) {
				want[name] = v
			}
		}
		if d := cmp.Diff(want, ours); d != "" {
			t.Errorf("header of %q (-net/http +ours):\n%s", b[:end], d)
		}
	})
}

func BenchmarkHeadParse(b *testing.B) {
	raw := []byte("HTTP/1.1 200 OK\r\ndate: Mon, 01 Jan 2024 00:00:00 GMT\r\nserver: uvicorn\r\n" +
		"cache-control: no-cache\r\nx-accel-buffering: no\r\ncontent-type: text/event-stream; charset=utf-8\r\n" +
		"transfer-encoding: chunked\r\n\r\n")
	var h head
	b.ReportAllocs()
	for b.Loop() {
		if n := headEnd(raw, 0); n != len(raw) {
			b.Fatal(n)
		}
		if err := h.parse(raw, "POST"); err != nil {
			b.Fatal(err)
		}
	}
}

func TestHeadParseAllocs(t *testing.T) {
	raw := []byte("HTTP/1.1 200 OK\r\nserver: uvicorn\r\nContent-Length: 5\r\nContent-Type: " + strings.Repeat("x", 100) + "\r\n\r\n")
	var h head
	n := testing.AllocsPerRun(100, func() {
		if err := h.parse(raw, "POST"); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations a head, want none", n)
	}
}
