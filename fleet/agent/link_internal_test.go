package agent

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A certificate that the other end does not take is a refusal, in whatever way the
// connection is seen to break after that; a connection that breaks by itself is none.
func TestBarred(t *testing.T) {
	before := false
	for i, tt := range []struct {
		err  string
		want bool
	}{
		{"write tcp 127.0.0.1:37622->127.0.0.1:16596: write: broken pipe", false},
		{"unavailable: remote error: tls: unknown certificate authority", true},
		{"write tcp 127.0.0.1:37623->127.0.0.1:16596: write: broken pipe", true},
		{"unavailable: http2: client conn could not be established", true},
		{"unavailable: dial tcp 127.0.0.1:16596: connect: connection refused", false},
		{"read tcp 127.0.0.1:37623->127.0.0.1:16596: read: connection reset by peer", false},
	} {
		before = barred(errors.New(tt.err), before)
		if before != tt.want {
			t.Errorf("%d: %s: barred %t", i, tt.err, before)
		}
	}
}

// A failure is logged once a minute, however often it comes, whatever ports are in
// its text, and whatever other failures come between; and never beyond a bound of
// different ones.
func TestFailuresAreSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := link{log: slog.New(slog.NewTextHandler(&log, nil)), certificate: func() string { return "none" }}
		for port := range 100 {
			l.tell("s", false, false, fmt.Errorf("write to port %d: broken pipe", 30000+port), time.Second)
			l.tell("s", false, true, errors.New("tls: unknown certificate authority"), time.Second)
		}
		if n := strings.Count(log.String(), "\n"); n != 2 {
			t.Errorf("%d lines; want 2:\n%s", n, log.String())
		}
		time.Sleep(saidAgain)
		l.tell("s", false, false, errors.New("write to port 1: broken pipe"), time.Second)
		if n := strings.Count(log.String(), "\n"); n != 3 {
			t.Errorf("%d lines after a minute; want 3:\n%s", n, log.String())
		}
		for i := range 10 * maxSaid {
			l.tell("s", false, false, errors.New(strings.Repeat("x", i)), time.Second)
		}
		if len(l.said) > maxSaid {
			t.Errorf("%d failures are remembered", len(l.said))
		}
	})
}
