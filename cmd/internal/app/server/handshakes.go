package server

import (
	"io"
	"log"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"
)

// How long a handshake that failed is not logged again for the same host and
// reason, and how many of them are remembered for that.
const (
	handshakeAgain = time.Minute
	maxHandshakes  = 1024
)

// handshakes logs what net/http says of the listener of agents. An agent whose
// certificate is of no authority that is known here ends in its handshake, before it
// can say who it is: a line of the log is all that there is to see of it.
type handshakes struct {
	http io.Writer // takes everything else
	log  *slog.Logger

	mu   sync.Mutex
	said map[string]time.Time // guarded by mu; by host and reason
}

func agentErrors(logger *slog.Logger) *log.Logger {
	return log.New(&handshakes{http: httpLog{logger}, log: logger, said: map[string]time.Time{}}, "", 0)
}

// Write logs one message.
func (h *handshakes) Write(p []byte) (int, error) {
	remote, reason, ok := handshakeError(string(p))
	if !ok || !h.news(remote, reason) {
		return h.http.Write(p)
	}
	h.log.Warn("an agent, or who else dialled its listener, was refused in its TLS handshake",
		"remote", remote, "reason", reason, "advice", "llmgw ctl cert show on that machine says what is wrong with its certificate")
	return len(p), nil
}

// handshakeError takes a message of net/http apart. That somebody hung up, as
// probes of ports do, is none.
func handshakeError(text string) (remote, reason string, ok bool) {
	text, ok = strings.CutPrefix(strings.TrimSpace(text), "http: TLS handshake error from ")
	remote, reason, found := strings.Cut(text, ": ")
	if !ok || !found || reason == "EOF" || strings.Contains(reason, "connection reset by peer") {
		return "", "", false
	}
	return remote, reason, true
}

// news reports whether a failure was not logged for a while, and notes it.
func (h *handshakes) news(remote, reason string) bool {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	what, now := host+" "+reason, time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if last, known := h.said[what]; known && now.Sub(last) < handshakeAgain {
		return false
	}
	if len(h.said) >= maxHandshakes {
		clear(h.said)
	}
	h.said[what] = now
	return true
}
