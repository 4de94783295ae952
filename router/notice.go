package router

import (
	"log/slog"
	"sync"
	"time"
)

// noticeEvery is how often the same thing is logged about the same endpoint: what
// happens to each request of a busy router must not fill a disk.
const noticeEvery = time.Minute

// maxNotices bounds what is remembered; beyond it all is forgotten.
const maxNotices = 4096

// notices are log lines about endpoints, each at most once in noticeEvery.
type notices struct {
	log  *slog.Logger
	mu   sync.Mutex
	last map[notice]time.Time // guarded by mu
}

type notice struct {
	message, endpoint string
	status            int
}

func (n *notices) warn(now time.Time, what notice, attrs ...any) {
	n.mu.Lock()
	last, known := n.last[what]
	due := !known || now.Sub(last) >= noticeEvery
	if due {
		if n.last == nil || len(n.last) >= maxNotices {
			n.last = map[notice]time.Time{}
		}
		n.last[what] = now
	}
	n.mu.Unlock()
	if due {
		n.log.Warn(what.message, append([]any{"endpoint", what.endpoint, "status", what.status}, attrs...)...)
	}
}
