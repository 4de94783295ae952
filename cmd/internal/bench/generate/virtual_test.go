package generate_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/bench/generate"
	"github.com/llmgw/llmgw/engines/sim/simtest"
	"github.com/llmgw/llmgw/engines/sim/workload"
)

// virtually runs a trace against a handler under virtual time.
func virtually(t *testing.T, h http.HandlerFunc, tr *workload.Trace, change func(*generate.Config), check func(*testing.T, *generate.Report)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var network simtest.Network
		l, err := network.Listen("target:80")
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: h}
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		rt := &http.Transport{DialContext: network.Dial, MaxIdleConnsPerHost: 100}
		cfg := generate.DefaultConfig()
		cfg.URL, cfg.Model = "http://target", "m"
		change(&cfg)
		g, err := generate.New(cfg, generate.Deps{Trace: tr, Transport: rt})
		if err != nil {
			t.Fatal(err)
		}
		r, err := g.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		rt.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-served
		check(t, r)
	})
}

// paced streams two tokens: the first after a wait, the second after a gap.
func paced(first, gap time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		write := func(s string) {
			_, _ = io.WriteString(w, s)
			_ = http.NewResponseController(w).Flush()
		}
		w.Header().Set("Content-Type", "text/event-stream")
		write(": a comment\n\ndata: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n")
		time.Sleep(first)
		write(chunk)
		time.Sleep(gap)
		write(fmt.Sprintf(finalChunk, 2) + done)
	}
}

// expect compares milliseconds within a histogram's accuracy.
func expect(t *testing.T, name string, got, want float64) {
	t.Helper()
	if got < want*.995 || got > want*1.005 {
		t.Errorf("%s is %v ms, want %v", name, got, want)
	}
}

// The role is no content, and gaps lie between contents.
func TestTimesAreExact(t *testing.T) {
	virtually(t, paced(300*time.Millisecond, 40*time.Millisecond), trace(10, time.Second, 2), func(c *generate.Config) {
		c.SLO = generate.SLO{TTFT: 300 * time.Millisecond, ITL: 39 * time.Millisecond}
	}, func(t *testing.T, r *generate.Report) {
		t.Helper()
		if r.Requests.Complete != 10 || r.DurationS != 9.34 {
			t.Fatalf("%+v in %v s, %+v", r.Requests, r.DurationS, r.Errors)
		}
		expect(t, "TTFT", r.TTFT.P50MS, 300)
		expect(t, "gap", r.ITL.MaxMS, 40)
		expect(t, "TPOT", r.TPOT.MeanMS, 40)
		expect(t, "E2E", r.E2E.P99MS, 340)
		if r.Lag.MaxMS != 0 || *r.Requests.Late != 0 || r.Goodput.Met != 0 || r.Goodput.Missed["itl"] != 10 || r.Goodput.Missed["ttft"] != 0 {
			t.Errorf("lag %+v, goodput %+v", r.Lag, r.Goodput)
		}
	})
}

// What is due while all places are taken waits, and its wait is in the times
// from due only: no omission is coordinated.
func TestTimesFromDue(t *testing.T) {
	virtually(t, paced(900*time.Millisecond, 100*time.Millisecond), trace(4, 0, 2), func(c *generate.Config) {
		c.MaxOutstanding = 1
	}, func(t *testing.T, r *generate.Report) {
		t.Helper()
		expect(t, "E2E", r.E2E.MaxMS, 1000)
		expect(t, "TTFT", r.TTFT.MaxMS, 900)
		expect(t, "lag", r.Lag.MaxMS, 3000)
		expect(t, "TTFT from due", r.TTFTFromDue.MaxMS, 3900)
		expect(t, "E2E from due", r.E2EFromDue.MeanMS, 2500)
		if *r.Requests.Late != 3 {
			t.Errorf("late %d, want 3", *r.Requests.Late)
		}
	})
}

func TestTimeoutsByPhase(t *testing.T) {
	hang := func(head bool, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if head {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, body)
				_ = http.NewResponseController(w).Flush()
			}
			_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice that the client left
			<-r.Context().Done()
		}
	}
	for _, tt := range []struct {
		name  string
		serve http.HandlerFunc
		want  generate.Kind
	}{
		{"no head", hang(false, ""), generate.KindTimeoutHead},
		{"no content", hang(true, ": wait\n\n"), generate.KindTimeoutContent},
		{"no end", hang(true, chunk), generate.KindTimeoutAnswer},
	} {
		t.Run(tt.name, func(t *testing.T) {
			virtually(t, tt.serve, trace(2, 0, 2), func(c *generate.Config) { c.Timeout = time.Minute }, func(t *testing.T, r *generate.Report) {
				t.Helper()
				if r.Requests.Failed != 2 || len(r.Errors) != 1 || r.Errors[0].Kind != tt.want || r.DurationS != 60 {
					t.Errorf("%+v in %v s, errors %+v; want %s", r.Requests, r.DurationS, r.Errors, tt.want)
				}
			})
		})
	}
}

// A closed loop against a target that refuses is no busy loop.
func TestClosedLoopPauses(t *testing.T) {
	refuse := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
	virtually(t, refuse, trace(1000, 0, 2), func(c *generate.Config) { c.Concurrency, c.Duration = 2, time.Second }, func(t *testing.T, r *generate.Report) {
		t.Helper()
		if r.Requests.Failed != 200 {
			t.Errorf("%d requests in a second, want 200", r.Requests.Failed)
		}
	})
}
