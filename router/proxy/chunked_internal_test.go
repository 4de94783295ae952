package proxy

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

// decodeIn decodes a copy of raw in pieces that begin at each of the given
// places. It returns what came of all pieces and how much of raw was used.
func decodeIn(raw []byte, at ...int) (payload []byte, used int, done bool, err error) {
	raw = bytes.Clone(raw)
	var d chunked
	for i, from := range append([]int{0}, at...) {
		to := len(raw)
		if i < len(at) {
			to = at[i]
		}
		out, n, err := d.decode(raw[from:to])
		if err != nil {
			return nil, 0, false, err
		}
		payload = append(payload, out...)
		used += n
	}
	return payload, used, d.done(), nil
}

// FuzzChunked: any split gives the same, and what is accepted net/http decodes
// to the same bytes, with the same end.
func FuzzChunked(f *testing.F) {
	for _, s := range []string{
		"5\r\nhello\r\n0\r\n\r\n", "5;a=b\r\nhello\r\n00\r\nX: y\r\n\r\nHTTP/1.1", "a \t\r\n0123456789\r\n", "5\nhello",
	} {
		f.Add([]byte(s), uint16(1), uint16(3))
	}
	f.Fuzz(func(t *testing.T, raw []byte, a, b uint16) {
		payload, used, done, err := decodeIn(raw)
		i, j := int(a)%(len(raw)+1), int(b)%(len(raw)+1)
		every := make([]int, len(raw))
		for k := range every {
			every[k] = k
		}
		for _, at := range [][]int{{min(i, j), max(i, j)}, every} {
			p, u, d, e := decodeIn(raw, at...)
			if !bytes.Equal(p, payload) || u != used || d != done || (e == nil) != (err == nil) {
				t.Fatalf("split at %v: %q %d %v %v\nin one piece: %q %d %v %v", at, p, u, d, e, payload, used, done, err)
			}
		}
		if err != nil || !done {
			return
		}
		br := bufio.NewReader(io.MultiReader(strings.NewReader("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), bytes.NewReader(raw)))
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := io.ReadAll(resp.Body)
		if !bytes.Equal(theirs, payload) {
			t.Fatalf("%q is %q, net/http's %q (%v)", raw, payload, theirs, err)
		}
		if err != nil {
			return // of a trailer that we drop unread
		}
		rest, err := io.ReadAll(br)
		if err != nil || len(raw)-len(rest) != used {
			t.Fatalf("%q ends at %d, net/http's end is %d (%v)", raw, used, len(raw)-len(rest), err)
		}
	})
}

// A body may be split at every byte, and at every pair of bytes.
func TestChunkedSplits(t *testing.T) {
	raw := []byte("5;x=y\r\nhello\r\nB \r\n, \xe2\x82\xac world\r\n000\r\nA: b\r\nC: d\r\n\r\nHTTP/1.1 200 OK")
	const want = "hello, \xe2\x82\xac world"
	for i := range raw {
		for j := i; j < len(raw); j++ {
			got, used, done, err := decodeIn(raw, i, j)
			if err != nil || !done || string(got) != want || string(raw[used:]) != "HTTP/1.1 200 OK" {
				t.Fatalf("split at %d and %d: %q, %q is left, done %v, %v", i, j, got, raw[used:], done, err)
			}
		}
	}
}

func BenchmarkChunked(b *testing.B) {
	one := "7b\r\n" + strings.Repeat("x", 123) + "\r\n"
	for _, bb := range []struct {
		name string
		raw  string
	}{{"chunks=1", one}, {"chunks=32", strings.Repeat(one, 32)}} {
		b.Run(bb.name, func(b *testing.B) {
			raw, buf := []byte(bb.raw), make([]byte, len(bb.raw))
			var d chunked
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				copy(buf, raw)
				if _, _, err := d.decode(buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
