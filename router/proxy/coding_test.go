package proxy_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/llmgw/llmgw/router/proxy"
)

type flusher interface {
	io.WriteCloser
	Flush() error
}

var codings = map[string]func(w io.Writer) flusher{ //nolint:gochecknoglobals // constant table
	"gzip":    func(w io.Writer) flusher { return gzip.NewWriter(w) },
	"X-GZIP":  func(w io.Writer) flusher { return gzip.NewWriter(w) },
	"deflate": func(w io.Writer) flusher { return zlib.NewWriter(w) },
}

// coded returns the pieces of one coded body, one flush after each part.
func coded(t testing.TB, coding string, parts ...string) []string {
	t.Helper()
	var buf bytes.Buffer
	w := codings[coding](&buf)
	var out []string
	for _, s := range parts {
		if _, err := io.WriteString(w, s); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		out = append(out, buf.String())
		buf.Reset()
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return append(out, buf.String())
}

// A coded stream is decoded event by event: none waits for another.
func TestCodedStream(t *testing.T) {
	t.Parallel()
	events := []string{"data: a\n\n", "data: " + strings.Repeat("b", 20<<10) + "\n\n", "data: c\n\n", "data: [DONE]\n\n"}
	for coding := range codings {
		t.Run(coding, func(t *testing.T) {
			t.Parallel()
			passed := make(chan string, 1000)
			e := newEngine(t, func(p *peer) {
				for p.request() != nil {
					p.say("HTTP/1.1 200 OK\r\nContent-Encoding: " + coding + "\r\nTransfer-Encoding: chunked\r\n\r\n")
					pieces := coded(t, coding, events...)
					for i, s := range pieces {
						p.say(chunk(s))
						for got := ""; i < len(events) && got != events[i]; {
							got += <-passed
						}
					}
					p.say(chunk(""))
				}
			})
			b := newBench(t, e.url(), nil)
			for range 2 {
				w := newRecorder()
				w.onWrite = func(b []byte) error { passed <- string(b); return nil }
				got := b.relay(t.Context(), post(), w, &lineTap{}, proxy.Options{KeepLength: true})
				got.want(t, 200, strings.Join(events, ""))
				if v, ok := got.header["Content-Encoding"]; ok {
					t.Errorf("Content-Encoding %q was kept", v)
				}
				if got.out.FirstContent.IsZero() {
					t.Error("no content was seen")
				}
			}
			// A zlib stream tells its end before the last chunk has come.
			if coding != "deflate" && e.dials() != 1 {
				t.Errorf("%d connections, want 1", e.dials())
			}
		})
	}
}

func TestCodedBodies(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("hello ", 5000)
	zipped := strings.Join(coded(t, "gzip", long), "")
	var raw bytes.Buffer
	fw, err := flate.NewWriter(&raw, 5)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(fw, long)
	_ = fw.Close()
	head := func(coding string, n int) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n", coding, n)
	}
	flipped := []byte(zipped)
	flipped[len(flipped)/2] ^= 0xff
	sum := []byte(zipped)
	sum[len(sum)-6] ^= 0xff
	for _, tt := range []struct {
		name, answer string
		kind         proxy.Kind
		want         string // of the body; "*": some prefix of long, "**": anything
		encoding     []string
	}{
		{"gzip", head("gzip", len(zipped)) + zipped, 0, long, nil},
		{"identity", head("identity", 5) + "hello", 0, "hello", []string{"identity"}},
		{"unknown", head("br", 5) + "hello", 0, "hello", []string{"br"}},
		{"two at once", head("gzip, br", 5) + "hello", 0, "hello", []string{"gzip, br"}},
		{"empty gzip", head("gzip", 0), 0, "", []string{"gzip"}},
		{"gzip and more after it", head("gzip", len(zipped)+3) + zipped + "xxx", proxy.KindProtocol, "*", nil},
		{"not gzip", head("gzip", 5) + "hello", proxy.KindProtocol, "*", nil},
		{"not zlib", head("deflate", 5) + "hello", proxy.KindProtocol, "*", nil},
		{"deflate without zlib", head("deflate", raw.Len()) + raw.String(), proxy.KindProtocol, "*", nil},
		{"corrupt gzip", head("gzip", len(flipped)) + string(flipped), proxy.KindProtocol, "**", nil},
		{"wrong sum", head("gzip", len(sum)) + string(sum), proxy.KindProtocol, "*", nil},
		{"short gzip", head("gzip", len(zipped)/2) + zipped[:len(zipped)/2], proxy.KindProtocol, "*", nil},
		{"cut gzip", head("gzip", len(zipped)) + zipped[:len(zipped)/2], proxy.KindCut, "*", nil},
		{"cut before the end", head("gzip", len(zipped)+1) + zipped, proxy.KindCut, "*", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, once(t, tt.answer).url(), nil)
			got := b.do(t.Context(), post())
			got.wantKind(t, tt.kind)
			good := func(body string) bool {
				return body == tt.want || tt.want == "**" || tt.want == "*" && strings.HasPrefix(long, body)
			}
			if body := got.body(); !good(body) {
				t.Errorf("passed on %.100q (%d bytes)", body, len(body))
			}
			if got.err == nil {
				if d := cmp.Diff(tt.encoding, got.header["Content-Encoding"]); d != "" {
					t.Errorf("Content-Encoding (-want +got):\n%s", d)
				}
			}
			// The same through ReadAll.
			resp, err := b.Send(t.Context(), b.target, post())
			if err != nil {
				t.Fatal(err)
			}
			body, err := resp.ReadAll(1<<20, 0)
			if kindOf(err) != tt.kind || !good(string(body)) {
				t.Errorf("ReadAll: %v, %.100q (%d bytes)", err, body, len(body))
			}
		})
	}
}
