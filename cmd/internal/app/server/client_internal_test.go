package server

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// deadlined remembers until when an answer may be read.
type deadlined struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (d *deadlined) SetWriteDeadline(t time.Time) error {
	d.until = t
	return nil
}

// A client that opens no window on HTTP/2 does not hold the answer of /health for ever.
func TestHealthIsNotHeld(t *testing.T) {
	h := new(client).handler(http.NotFoundHandler(), nil, &health{ready: func() error { return nil }})
	for version, bounded := range map[int]bool{1: false, 2: true} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/health", nil)
		r.ProtoMajor = version
		w := &deadlined{ResponseRecorder: httptest.NewRecorder()}
		if h.ServeHTTP(w, r); w.Code != http.StatusOK || w.until.IsZero() == bounded || time.Until(w.until) > healthTime {
			t.Errorf("on HTTP/%d: %d, to be read until %v", version, w.Code, w.until)
		}
	}
}
