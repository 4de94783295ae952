package router

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestNoticesAreRare(t *testing.T) {
	var out bytes.Buffer
	n := notices{log: slog.New(slog.NewTextHandler(&out, nil))}
	now := time.Unix(1e9, 0)
	lines := func() int { return strings.Count(out.String(), "\n") }
	for range 1000 {
		n.warn(now, notice{"slow", "e1", 503})
	}
	if lines() != 1 {
		t.Errorf("%d lines of the same notice within a minute; want 1", lines())
	}
	n.warn(now, notice{"slow", "e2", 503})
	n.warn(now, notice{"slow", "e1", 500})
	n.warn(now.Add(noticeEvery), notice{"slow", "e1", 503}, "model", "m")
	if lines() != 4 || !strings.HasSuffix(out.String(), "endpoint=e1 status=503 model=m\n") {
		t.Errorf("want 4 lines, the last with its model:\n%s", out.String())
	}
	for i := range 3 * maxNotices {
		n.warn(now, notice{"slow", "e1", i})
	}
	if len(n.last) > maxNotices {
		t.Errorf("%d notices are remembered; want at most %d", len(n.last), maxNotices)
	}
}
