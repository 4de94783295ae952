package load_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/llmgw/llmgw/cmd/internal/bench/engine"
	"github.com/llmgw/llmgw/cmd/internal/bench/load"
	"github.com/llmgw/llmgw/cmd/internal/bench/wire"
)

func TestMain(m *testing.M) {
	// A server of net/http that gives up a connection lingers on it for half a
	// second, longer than goleak waits.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// engines starts n engines that end with the test.
func engines(t *testing.T, n int) ([]*engine.Engine, []string) {
	t.Helper()
	es, err := engine.Listen(t.Context(), n, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var addrs []string
	for _, e := range es {
		t.Cleanup(e.Close)
		addrs = append(addrs, e.Addr())
	}
	return es, addrs
}

func config(addrs []string, mix ...load.Shape) load.Config {
	return load.Config{Addrs: addrs, Mix: mix, Callers: 8, Warmup: 10 * time.Millisecond, Window: 100 * time.Millisecond, Timeout: 5 * time.Second}
}

func stream(events int) load.Shape {
	return load.Shape{Params: wire.Params{Events: events}, Stream: true, PromptBytes: 500, Prompts: 4}
}

func run(t *testing.T, cfg load.Config) *load.Result {
	t.Helper()
	res, err := load.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestNothingAltered(t *testing.T) {
	whole := load.Shape{Params: wire.Params{AnswerBytes: 1024}, PromptBytes: 1024, Prompts: 4}
	large := load.Shape{Params: wire.Params{AnswerBytes: 100_000}, PromptBytes: 200_000, Prompts: 2}
	paced := stream(5)
	paced.Gap, paced.FirstDelay = time.Millisecond, 2*time.Millisecond
	tests := []struct {
		name string
		mix  []load.Shape
		rate float64
	}{
		{"unstreamed", []load.Shape{whole}, 0},
		{"large", []load.Shape{large}, 0},
		{"streams", []load.Shape{stream(100), stream(1)}, 0},
		{"paced streams", []load.Shape{paced}, 0},
		{"mixed, open loop", []load.Shape{whole, paced}, 500},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			es, addrs := engines(t, 3)
			cfg := config(addrs, tt.mix...)
			cfg.Rate = tt.rate
			res := run(t, cfg)
			if res.FailedTotal() != 0 || res.Redials != 0 || res.Whole == 0 {
				t.Fatalf("%+v", res)
			}
			if res.Latency.Count != uint64(res.Window) || res.FirstEvent.Count != uint64(res.Window) || res.Window > 0 && res.Latency.P50MS <= 0 {
				t.Errorf("%d answers, latency %+v, first event %+v", res.Window, res.Latency, res.FirstEvent)
			}
			var answered int64
			for _, e := range es {
				e.Close() // waits for its connections, so the counters are final
				s := e.Stats()
				answered += s.Answered
				if diff := cmp.Diff(engine.Stats{Answered: s.Answered}, s); diff != "" {
					t.Error(diff)
				}
			}
			if answered != res.Whole {
				t.Errorf("engines answered %d, %d arrived whole", answered, res.Whole)
			}
			if tt.rate > 0 && (res.Lag.Count != uint64(res.Window) || res.Unsent != 0) {
				t.Errorf("open loop: lag of %d of %d calls, %d unsent", res.Lag.Count, res.Window, res.Unsent)
			}
		})
	}
}

func TestPacedStreamTimes(t *testing.T) {
	_, addrs := engines(t, 1)
	s := stream(4)
	s.FirstDelay, s.Gap = 20*time.Millisecond, 10*time.Millisecond
	cfg := config(addrs, s)
	cfg.Window = 300 * time.Millisecond
	res := run(t, cfg)
	// Sleeping takes at least its time; how much more is the machine's matter. A
	// late event shortens the gap behind it, since the engine keeps its schedule.
	if res.FirstEvent.P50MS < 19 || res.Latency.P50MS < 49 || res.Gap.MeanMS < 1 {
		t.Errorf("first %v, gap mean %v, latency %v ms; want at least 20, about 10, at least 50", res.FirstEvent.P50MS, res.Gap.MeanMS, res.Latency.P50MS)
	}
	if want := uint64(res.Window) * 3; res.Gap.Count != want || res.Events != res.Window*4 {
		t.Errorf("%d gaps, want %d; %d events", res.Gap.Count, want, res.Events)
	}
}

func TestEveryFaultIsFound(t *testing.T) {
	tests := []struct {
		fault  wire.Fault
		stream bool
		want   load.Failure
	}{
		{wire.FaultAlter, true, load.Altered},
		{wire.FaultAlter, false, load.Altered},
		{wire.FaultLose, true, load.Lost},
		{wire.FaultCut, true, load.Cut},
		{wire.FaultCut, false, load.Cut},
		{wire.FaultMute, true, load.NoDone},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s stream=%v", tt.fault, tt.stream), func(t *testing.T) {
			_, addrs := engines(t, 1)
			good := stream(10)
			bad := stream(10)
			bad.AnswerBytes, good.AnswerBytes = 2000, 2000
			bad.Stream, good.Stream = tt.stream, tt.stream
			bad.Fault = tt.fault
			res := run(t, config(addrs, good, bad))
			if res.Failed[tt.want] == 0 || len(res.Failed) != 1 || res.Whole == 0 {
				t.Errorf("%d whole, failed %v; want some whole, others %q only", res.Whole, res.Failed, tt.want)
			}
		})
	}
}

// proxy answers like a gateway that misbehaves in front of the engine.
func proxy(t *testing.T, handle func(w io.Writer, r *http.Request, body []byte) (keep bool)) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			br := bufio.NewReader(c)
			for {
				r, err := http.ReadRequest(br)
				if err != nil {
					break
				}
				body, err := io.ReadAll(r.Body)
				if err != nil || !handle(c, r, body) {
					break
				}
			}
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

func TestFailuresOfAGateway(t *testing.T) {
	answer := wire.WholeAnswer(1000).Body
	tests := []struct {
		name   string
		handle func(w io.Writer, r *http.Request, body []byte) bool
		want   load.Failure
	}{
		{"status", func(w io.Writer, _ *http.Request, _ []byte) bool {
			w.Write(wire.Reply(503, "application/json", []byte("{}")))
			return true
		}, "status 503"},
		{"no answer", func(io.Writer, *http.Request, []byte) bool { return false }, load.NoAnswer},
		{"not HTTP", func(w io.Writer, _ *http.Request, _ []byte) bool {
			io.WriteString(w, "HTTP/1.1 200 OK\r\nwhat\r\n\r\n")
			return false
		}, load.Malformed},
		{"longer", func(w io.Writer, _ *http.Request, _ []byte) bool {
			w.Write(wire.Reply(200, "application/json", append(answer[:len(answer):len(answer)], ' ')))
			return true
		}, load.Altered},
		{"shorter", func(w io.Writer, _ *http.Request, _ []byte) bool {
			w.Write(wire.Reply(200, "application/json", answer[:len(answer)-1]))
			return true
		}, load.Altered},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			addr := proxy(t, tt.handle)
			cfg := config([]string{addr}, load.Shape{Params: wire.Params{AnswerBytes: 1000}, PromptBytes: 100, Prompts: 1})
			cfg.Callers, cfg.Window = 1, 20*time.Millisecond
			res := run(t, cfg)
			if res.Failed[tt.want] == 0 || len(res.Failed) != 1 || res.Whole != 0 {
				t.Errorf("%d whole, failed %v; want %q only", res.Whole, res.Failed, tt.want)
			}
		})
	}
}

func TestClosedConnectionsAreRedialled(t *testing.T) {
	answer := wire.Reply(200, "application/json", wire.WholeAnswer(1000).Body)
	addr := proxy(t, func(w io.Writer, _ *http.Request, _ []byte) bool {
		w.Write(answer)
		return false // closes without having said so
	})
	cfg := config([]string{addr}, load.Shape{Params: wire.Params{AnswerBytes: 1000}, PromptBytes: 100, Prompts: 1})
	cfg.Callers = 1
	res := run(t, cfg)
	if res.Whole < 2 || res.FailedTotal() != 0 || res.Redials == 0 {
		t.Errorf("%d whole, failed %v, %d redials", res.Whole, res.Failed, res.Redials)
	}
}

func TestHangUps(t *testing.T) {
	es, addrs := engines(t, 1)
	s := stream(50)
	s.Gap = time.Millisecond
	cfg := config(addrs, s)
	cfg.HangUpRatio = .5
	res := run(t, cfg)
	if res.HungUp == 0 || res.FailedTotal() != 0 {
		t.Errorf("%d hung up, failed %v", res.HungUp, res.Failed)
	}
	es[0].Close()
	if s := es[0].Stats(); s.Aborted == 0 || s.Running != 0 || s.Connections != 0 {
		t.Errorf("engine: %+v", s)
	}
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	es, err := engine.Listen(t.Context(), 1, engine.Options{Idle: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(es[0].Close)
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", es[0].Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /health HTTP/1.1\r\n\r\n")
	all, err := io.ReadAll(c) // ends when the engine has closed
	if err != nil || !strings.HasPrefix(string(all), "HTTP/1.1 200 OK") {
		t.Errorf("%q, %v", all, err)
	}
}

func TestRefusedPromptShows(t *testing.T) {
	es, addrs := engines(t, 1)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := strings.Replace(string(wire.RequestBody(wire.Model, false, 300, 1, wire.Params{})), "model it", "modem it", 1)
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := es[0].Stats().PromptAltered; resp.StatusCode != 400 || got != 1 {
		t.Errorf("status %d, %d prompts altered", resp.StatusCode, got)
	}
}

func TestValidate(t *testing.T) {
	ok := config([]string{"127.0.0.1:80"}, stream(1))
	if err := ok.Validate(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		change func(*load.Config)
		want   string
	}{
		{"elsewhere", func(c *load.Config) { c.Addrs = []string{"192.0.2.1:80"} }, "192.0.2.1:80 is no loopback"},
		{"by name", func(c *load.Config) { c.Addrs = []string{"example.com:80"} }, "no loopback"},
		{"nothing to send", func(c *load.Config) { c.Mix = nil }, "no shape"},
		{"no events", func(c *load.Config) { c.Mix = []load.Shape{stream(0)} }, "shape 0"},
		{"too long", func(c *load.Config) { c.Window = 2 * time.Hour }, "1ms to 1h"},
		{"nobody", func(c *load.Config) { c.Callers = 0 }, "at least 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := ok
			tt.change(&cfg)
			_, err := load.Run(t.Context(), cfg)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestEndsWithItsContext(t *testing.T) {
	_, addrs := engines(t, 1)
	cfg := config(addrs, stream(3))
	cfg.Window = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	res, err := load.Run(ctx, cfg)
	if err != nil || res.FailedTotal() != 0 {
		t.Errorf("%v, %+v", err, res)
	}
}
