package gateway_test

import (
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/llmgw/llmgw/router"
)

// newTLS serves h over TLS and returns its address and the file with its
// authority.
func newTLS(t *testing.T, h http.HandlerFunc) (url, ca string) {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return srv.URL, ca
}

// Behind TLS a request's body may still be read when its answer, or its end,
// has come. Its memory is then nobody else's: each request arrives as it was
// sent, at the second engine too.
func TestBodiesBehindTLS(t *testing.T) {
	t.Parallel()
	early, ca1 := newTLS(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError) // before the body is read
	})
	whole, ca2 := newTLS(t, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		mark := r.Header.Get("X-Mark")
		if err != nil || strings.Count(string(b), mark) != 4000 || !strings.Contains(string(b), `"model":"upstream"`) {
			http.Error(w, "not what was sent", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, completion)
	})
	a, b := first(at("early", early)), at("whole", whole)
	a.CAFile, b.CAFile = ca1, ca2
	a.Models[0].Upstream, b.Models[0].Upstream = "other-name", "upstream"
	cfg := config(a, b)
	cfg.Router.Breaker.FailureThreshold = 1 << 20
	cfg.Router.Core.RetryBudgetMin = 1 << 20
	f := newFleet(t, cfg)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 15 {
				mark := fmt.Sprintf("<%02d-%02d>", i, j)
				got := f.do("POST", chatPath, `{"model":"m","x":"`+strings.Repeat(mark, 4000)+`"}`, "X-Mark", mark)
				if got.status != 200 || got.body != completion {
					t.Errorf("got %d %.200s, %v", got.status, got.body, got.err)
				}
			}
		})
	}
	wg.Wait()
	if f.metric("llmgw_router_retries_total") == 0 {
		t.Error("nothing was sent twice")
	}
	f.idle()
}

// An engine whose certificate nobody vouches for gets no request.
func TestUntrustedEngine(t *testing.T) {
	url, _ := newTLS(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, completion) })
	f := newFleet(t, config(at("e", url)))
	if got := f.chat(); got.status != 502 || got.code() != "upstream_failed" || strings.Contains(got.body, "x509") {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if o := f.next(); o.Result != router.ResultFailed {
		t.Errorf("recorded %v", o.Result)
	}
}
