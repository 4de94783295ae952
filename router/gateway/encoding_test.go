package gateway_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/router"
)

// Bodies with a content coding reach the engine decoded, as plain bodies of the
// right length.
func TestEncodedBodies(t *testing.T) {
	t.Parallel()
	var sent, header string
	var length int64
	e := newRaw(t, func(x *exchange) {
		sent, header, length = string(x.body), fmt.Sprint(x.req.Header, x.req.TransferEncoding), x.req.ContentLength
		good(x)
	})
	f := newFleet(t, config(at("e", e.url)))
	bodies := map[string]string{
		"short": chatBody,
		"long":  `{"messages":"` + strings.Repeat("long ", 20_000) + `","model":"m"}`,
	}
	for _, encoding := range []struct{ header, as string }{
		{"gzip", "gzip"}, {"GZIP", "gzip"}, {"x-gzip", "gzip"}, {"deflate", "deflate"}, {"zstd", "zstd"}, {" zstd ", "zstd"},
		{"identity", ""}, {"", ""},
	} {
		for name, body := range bodies {
			for _, framing := range []string{"length", "chunked"} {
				t.Run(encoding.header+"/"+name+"/"+framing, func(t *testing.T) {
					coded := body
					if encoding.as != "" {
						coded = encoded(t, encoding.as, body)
					}
					h := "Content-Encoding: " + encoding.header + "\r\n"
					if framing == "length" {
						h += fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(coded), coded)
					} else {
						half := len(coded) / 2
						h += "Transfer-Encoding: chunked\r\n\r\n" + chunk(coded[:half]) + chunk(coded[half:]) + lastChunk
					}
					got := f.rawly("POST " + chatPath + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + h)
					if got.status != 200 || got.body != completion {
						t.Fatalf("got %d %s, %v", got.status, got.body, got.err)
					}
					if sent != body || length != int64(len(body)) {
						t.Errorf("the engine got %d bytes under length %d, want %d", len(sent), length, len(body))
					}
					if strings.Contains(header, "Encoding") || strings.Contains(header, "chunked") {
						t.Errorf("the engine got %s", header)
					}
				})
			}
		}
	}
	f.idle()
}

// A body exactly as long as allowed is read however it comes, even if that is
// all the memory there is for bodies.
func TestLongestBody(t *testing.T) {
	e := newRaw(t, good)
	cfg := config(at("e", e.url))
	cfg.Router.Core.MaxBodyBytes = 100_000
	cfg.Router.Core.BodyMemoryBytes = 100_000
	f := newFleet(t, cfg)
	longest := `{"model":"m","x":"` + strings.Repeat("x", 100_000-20) + `"}`
	if len(longest) != 100_000 {
		t.Fatal(len(longest))
	}
	for _, body := range []string{longest, longest + " "} {
		want := 200
		if len(body) > 100_000 {
			want = 413
		}
		gz := encoded(t, "gzip", body)
		for name, request := range map[string]string{
			"length":  fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body),
			"chunked": "Transfer-Encoding: chunked\r\n\r\n" + chunk(body) + lastChunk,
			"gzip":    fmt.Sprintf("Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", len(gz), gz),
		} {
			if got := f.rawly("POST " + chatPath + " HTTP/1.1\r\nHost: x\r\n" + request); got.status != want {
				t.Errorf("%d bytes, %s: got %d %s, want %d", len(body), name, got.status, got.body, want)
			}
		}
	}
	f.idle()
}

// A client that leaves is noticed however its body came: the server looks for
// it only once the body was read to its end.
func TestClientLeavesAfterAnEncodedBody(t *testing.T) {
	arrived := make(chan struct{})
	e := newRaw(t, func(x *exchange) { arrived <- struct{}{}; x.untilLeft() })
	f := newFleet(t, config(at("e", e.url)))
	for _, encoding := range []string{"gzip", "deflate", "zstd"} {
		t.Run(encoding, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-arrived
				cancel()
			}()
			// A reader of no known type, so the body goes out in chunks.
			body := struct{ *strings.Reader }{strings.NewReader(encoded(t, encoding, streamBody))}
			if res, err := f.send(ctx, "POST", chatPath, body, "Content-Encoding", encoding); err == nil {
				_ = res.Body.Close()
				t.Fatalf("got %d", res.StatusCode)
			}
			if o := f.next(); o.Result != router.ResultCanceled {
				t.Errorf("recorded %v", o.Result)
			}
		})
	}
	f.idle()
}
