//go:build unix

package gateway

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router/endpoint"
)

// What prefix affinity, admission and the ring of decisions add to a request, each
// alone and all together: of prompts that come again, and of such as are always new.
// There is no HTTP server, and an engine that does no more than it must, so that what
// they add is not lost in what that costs: it is for differences, which in a server,
// whose caches other work fills, are two to three times as large. With -cpu 1 they
// are steady on a busy machine, too.
func BenchmarkAdded(b *testing.B) {
	for _, prompt := range []struct {
		bytes int
		fresh bool
	}{{1 << 10, false}, {1 << 10, true}, {32 << 10, false}} {
		for _, on := range []struct {
			name                        string
			prefix, admission, recorder bool
		}{
			{"none", false, false, false},
			{"prefix", true, false, false},
			{"admission", false, true, false},
			{"recorder", false, false, true},
			{"all", true, true, true},
		} {
			b.Run(fmt.Sprintf("prompt=%d/new=%v/on=%s", prompt.bytes, prompt.fresh, on.name), func(b *testing.B) {
				cfg := DefaultConfig()
				cfg.Prefix.Enabled, cfg.Admission.Core.Enabled = on.prefix, on.admission
				if !on.recorder {
					cfg.Recorder.RingBytes = 0
				}
				benchmarkServe(b, cfg, prompt.bytes, prompt.fresh)
			})
		}
	}
}

func benchmarkServe(b *testing.B, cfg Config, promptBytes int, fresh bool) {
	cfg.Models = []catalog.Model{{Name: "m"}}
	for i := range 3 {
		id := "engine-" + strconv.Itoa(i)
		cfg.Endpoints = append(cfg.Endpoints, Endpoint{Spec: endpoint.Spec{
			ID: id, URL: newAnswering(b), MaxRunning: 4096, Models: []endpoint.Model{{Name: "m"}},
		}})
	}
	g, err := New(cfg, Deps{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		cfg.Endpoints = nil
		if err := g.Reload(cfg); err != nil { // closes the connections to engines
			b.Error(err)
		}
	})
	for _, e := range g.endpoints.Snapshot().All() {
		e.SetLoad(&endpoint.LoadState{At: time.Now().Add(time.Hour), Load: engines.Load{
			Running: engines.Read(20), Waiting: engines.Read(0), KVUsedRatio: engines.Read(.3),
		}})
	}
	const paragraph = `A router reads the request, finds the model it names and hands it to a replica that has room. ` +
		`What the replica writes goes back to the caller while it is being written, one event for each token.\n`
	const begin = `{"messages":[{"role":"user","content":"`
	prose := strings.Repeat(paragraph, promptBytes/len(paragraph)+1)[:promptBytes-8]
	body := []byte(begin + "00000000" + strings.TrimRight(prose, `\`) + `"}],"model":"m","max_tokens":1` + lastOfBody)
	number := body[len(begin):][:8]
	target := &url.URL{Path: chatRoute}
	header := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"bench"}, "Accept": {"*/*"}}
	ctx := b.Context()
	w := &nowhere{header: http.Header{}}
	b.ReportAllocs()
	before := cpuTime()
	for i := 0; b.Loop(); i++ {
		n := i
		if !fresh {
			n %= 64
		}
		for k := range number {
			number[k] = '0' + byte(n>>(3*k)&7)
		}
		clear(w.header)
		w.status = 0
		g.ServeHTTP(w, (&http.Request{
			Method: "POST", URL: target, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, RemoteAddr: "127.0.0.1:1234",
			Header: header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
		}).WithContext(ctx))
		if w.status != http.StatusOK {
			b.Fatal(w.status)
		}
	}
	b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
}

// cpuTime is what the process has used of all cores, which other work on the machine
// disturbs less than the time by the clock.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

const lastOfBody = `,"user":"somebody"}`

// nowhere takes an answer.
type nowhere struct {
	header http.Header
	status int
}

func (w *nowhere) Header() http.Header         { return w.header }
func (w *nowhere) WriteHeader(status int)      { w.status = status }
func (w *nowhere) Write(b []byte) (int, error) { return len(b), nil }

// newAnswering returns the address of an engine that does no more than it must.
func newAnswering(b *testing.B) string {
	ln, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	text := `{"id":"chatcmpl-bench","object":"chat.completion","created":1750000000,"model":"m","choices":[{"index":0,` +
		`"message":{"role":"assistant","content":"` + strings.Repeat("some words ", 75) + `"},"logprobs":null,"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":256,"total_tokens":406,"completion_tokens":150}}`
	answer := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	var serving sync.WaitGroup
	b.Cleanup(func() {
		_ = ln.Close()
		serving.Wait()
	})
	serving.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { answerAll(c, answer) })
		}
	})
	return "http://" + ln.Addr().String()
}

// answerAll reads of requests what they end with.
func answerAll(c net.Conn, answer []byte) {
	defer func() { _ = c.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		if !bytes.HasSuffix(buf[:n], []byte(lastOfBody)) {
			continue
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}
