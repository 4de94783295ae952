package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A handshake that fails is one line a minute for each host and reason; who hangs
// up is none, and what is remembered is bounded.
func TestHandshakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var buf bytes.Buffer
		log := slog.New(slog.NewTextHandler(&buf, nil))
		h := &handshakes{http: httpLog{log}, log: log, said: map[string]time.Time{}}
		write := func(remote, reason string) {
			t.Helper()
			if _, err := fmt.Fprintf(h, "http: TLS handshake error from %s: %s\n", remote, reason); err != nil {
				t.Fatal(err)
			}
		}
		const unknown = "tls: failed to verify certificate: x509: certificate signed by unknown authority"
		lines := func(want int) {
			t.Helper()
			if n := strings.Count(buf.String(), "level=WARN"); n != want {
				t.Errorf("%d lines; want %d:\n%s", n, want, buf.String())
			}
		}
		for port := range 10 {
			write(fmt.Sprintf("10.0.0.1:%d", 40000+port), unknown)
			write(fmt.Sprintf("[fd00::1]:%d", 40000+port), "EOF")
		}
		lines(1)
		if !strings.Contains(buf.String(), `remote=10.0.0.1:40000 reason="`+unknown+`"`) {
			t.Errorf("it says %s", buf.String())
		}
		write("[fd00::1]:40000", unknown)
		lines(2)
		time.Sleep(handshakeAgain)
		write("10.0.0.1:41000", unknown)
		lines(3)
		for i := range 2 * maxHandshakes {
			write(fmt.Sprintf("10.0.%d.%d:1", i/256, i%256), unknown)
		}
		if len(h.said) > maxHandshakes {
			t.Errorf("%d are remembered", len(h.said))
		}
		if _, err := h.Write([]byte("http: something else")); err != nil || strings.Contains(buf.String(), "something else") {
			t.Errorf("what is of HTTP is logged for all: %v", err)
		}
	})
}
