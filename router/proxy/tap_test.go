package proxy_test

import (
	"errors"
	"testing"

	"github.com/llmgw/llmgw/router/proxy"
)

// refusing is a tap that gives nothing out and says why.
type refusing struct {
	lineTap
	flush string
}

var errRefused = errors.New("refused")

func (r *refusing) Feed([]byte) []byte { return nil }
func (r *refusing) Flush() []byte      { return []byte(r.flush) }
func (r *refusing) Err() error         { return errRefused }

// A tap can end an answer of which nothing has gone out, without waiting for the
// rest of it.
func TestTapRefuses(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string][]string{
		"chunks":        {okChunked, chunk("data: a\n\n")},
		"known length":  {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", "hello"},
		"until it ends": {okClose, "data: a\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			quit := make(chan struct{})
			e := newEngine(t, func(p *peer) {
				if p.request() == nil {
					return
				}
				for _, s := range answer {
					p.say(s)
				}
				<-quit
			})
			defer close(quit)
			w := newRecorder()
			got := newBench(t, e.url(), nil).relay(t.Context(), post(), w, &refusing{}, proxy.Options{})
			got.wantKind(t, proxy.KindRefused)
			if !errors.Is(got.err, errRefused) {
				t.Errorf("%v does not wrap what the tap said", got.err)
			}
			if got.out.Started || w.status != 0 || len(w.header) != 0 {
				t.Errorf("the client had %d %v", w.status, w.header)
			}
		})
	}
	t.Run("at the end", func(t *testing.T) {
		t.Parallel()
		e := answering(t, okChunked, chunk(""))
		newBench(t, e.url(), nil).relay(t.Context(), post(), newRecorder(), &refusing{}, proxy.Options{}).wantKind(t, proxy.KindRefused)
	})
	t.Run("not once something goes out", func(t *testing.T) {
		t.Parallel()
		e := answering(t, okChunked, chunk(""))
		newBench(t, e.url(), nil).relay(t.Context(), post(), newRecorder(), &refusing{flush: "x"}, proxy.Options{}).want(t, 200, "x")
	})
}

// Where a body is needed, an answer without one leaves the caller free to try
// another engine; elsewhere it is an answer.
func TestNeedBody(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"chunks":     okChunked + chunk(""),
		"length 0":   "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"all is cut": okChunked + chunk("data: cut\n\n") + chunk(""),
	} {
		for _, need := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				e := answering(t, answer)
				b := newBench(t, e.url(), nil)
				tap := &tapFuncs{feed: func([]byte) []byte { return nil }}
				w := newRecorder()
				got := b.relay(t.Context(), post(), w, tap, proxy.Options{NeedBody: need})
				if !need {
					got.want(t, 200, "")
					return
				}
				got.wantKind(t, proxy.KindCut)
				if got.out.Started || w.status != 0 || len(w.header) != 0 {
					t.Errorf("the client had %d %v", w.status, w.header)
				}
			})
		}
	}
}

func TestOpaque(t *testing.T) {
	t.Parallel()
	for coding, want := range map[string]bool{
		"": false, "identity": false, "Identity": false, "gzip": false, "X-GZIP": false, "deflate": false,
		"br": true, "zstd": true, "gzip, br": true,
	} {
		t.Run(coding, func(t *testing.T) {
			t.Parallel()
			header := ""
			if coding != "" {
				header = "Content-Encoding: " + coding + "\r\n"
			}
			e := answering(t, "HTTP/1.1 200 OK\r\n"+header+"Content-Length: 0\r\n\r\n")
			b := newBench(t, e.url(), nil)
			resp, err := b.Send(t.Context(), b.target, post())
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Close()
			if got := resp.Opaque(); got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}
