package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/router/proxy"
)

// An engine that is asked who it is is asked on each new connection, before
// anything else, and gets no request if it is not who was meant.
func TestIdentify(t *testing.T) {
	doc := func(status int, body string, header string) string {
		return fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: %d\r\n%s\r\n%s", status, len(body), header, body)
	}
	const done = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	tests := []struct {
		name  string
		says  []string // what each connection says to the question; "": nothing
		kind  proxy.Kind
		seen  string // the paths asked for
		dials int
	}{
		{"it is who was meant", []string{doc(200, "me", "")}, 0, "/base/who /base/do /base/do", 1},
		{"it is another one", []string{doc(200, "you", "")}, proxy.KindStranger, "/base/who", 1},
		{"it does not know", []string{doc(404, "me", "")}, 0, "/base/who /base/do /base/do", 1},
		{"it is loading", []string{doc(503, "me", "")}, proxy.KindLost, "/base/who", 1},
		{"it closes after each answer", []string{doc(200, "me", "Connection: close\r\n"), ""}, 0, "/base/who /base/do /base/do", 2},
		{"it says no HTTP", []string{"me\r\n\r\n"}, proxy.KindLost, "/base/who", 1},
		{"it says nothing", []string{""}, proxy.KindHeaderTimeout, "/base/who", 1},
		{"it says too much", []string{doc(200, strings.Repeat("x", 1<<20+1), "")}, proxy.KindLost, "/base/who", 1},
		{"its head does not end", []string{doc(200, "me", strings.Repeat("X-Pad: "+strings.Repeat("x", 1000)+"\r\n", 3000))}, proxy.KindLost, "/base/who", 1},
		{"it says more than it was asked", []string{doc(200, "me", "") + done, ""}, 0, "/base/who /base/do /base/do", 2},
	}
	for _, through := range []string{"TCP", "a dialer"} {
		for _, tt := range tests {
			t.Run(tt.name+" over "+through, func(t *testing.T) {
				t.Parallel()
				e := newEngine(t, func(p *peer) {
					for r := p.request(); r != nil; r = p.request() {
						say := done
						if strings.HasSuffix(r.URL.Path, "/who") {
							say = tt.says[p.n]
						}
						if say == "" {
							<-p.e.quit
							return
						}
						p.say(say)
						if strings.Contains(say, "Connection: close") {
							return
						}
					}
				})
				b := newBench(t, e.url(), func(c *proxy.Config) {
					if tt.kind == proxy.KindHeaderTimeout {
						c.Timeouts.ResponseHeader = time.Second // long enough for an engine to read what it is asked
					}
				})
				cfg := proxy.TargetConfig{URL: e.url() + "/base", Identify: &proxy.Identify{Path: "/who", Check: func(_ int, body []byte) error {
					if string(body) != "me" {
						return errors.New("who is that?")
					}
					return nil
				}}}
				if through != "TCP" {
					cfg.Dial = (&net.Dialer{}).DialContext
				}
				target := newTarget(t, b.Proxy, cfg)
				var kind proxy.Kind
				for range 2 {
					resp, err := b.Send(t.Context(), target, &proxy.Request{Method: "GET", Path: "/do"})
					if err != nil {
						pe, ok := errors.AsType[*proxy.Error](err)
						if !ok {
							t.Fatalf("an error of type %T: %v", err, err)
						}
						kind = pe.Kind
						break
					}
					if _, err := resp.ReadAll(10, 0); err != nil {
						t.Fatal(err)
					}
				}
				if kind != tt.kind {
					t.Errorf("failed by %v; want %v", kind, tt.kind)
				}
				var seen []string
				for _, r := range e.requests() {
					seen = append(seen, r.URL.Path)
				}
				if got := strings.Join(seen, " "); got != tt.seen || e.dials() != tt.dials {
					t.Errorf("asked for %q over %d connections; want %q over %d", got, e.dials(), tt.seen, tt.dials)
				}
			})
		}
	}
}

// Who leaves while an engine is asked does not wait for its word.
func TestIdentifyCanceled(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	e := newEngine(t, func(p *peer) {
		p.request()
		close(asked)
		<-p.e.quit
	})
	b := newBench(t, e.url(), nil)
	target := newTarget(t, b.Proxy, proxy.TargetConfig{URL: e.url(), Identify: &proxy.Identify{Path: "/who"}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	_, err := b.Send(ctx, target, &proxy.Request{Method: "GET", Path: "/do"})
	if pe, ok := errors.AsType[*proxy.Error](err); !ok || pe.Kind != proxy.KindCanceled {
		t.Errorf("%v; want it canceled", err)
	}
}

func TestIdentifyOverTLS(t *testing.T) {
	t.Parallel()
	b := newBench(t, "http://127.0.0.1:1", nil)
	for _, scheme := range []string{"https", "h2c"} {
		if _, err := b.NewTarget(proxy.TargetConfig{URL: scheme + "://127.0.0.1:1", Identify: &proxy.Identify{}}); err == nil || !strings.Contains(err.Error(), "over http only") {
			t.Errorf("%s: %v", scheme, err)
		}
	}
}
