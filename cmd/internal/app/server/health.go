package server

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// health answers whether the process lives and whether it can serve. Both are
// two loads of memory, so they answer under any load.
type health struct {
	serving  atomic.Bool // set once listeners are served, cleared first of all on shutdown
	stopping atomic.Bool
	ready    func() error // why the data plane has nowhere to send a request
}

// liveness answers 200 as long as the process can answer at all.
func (h *health) liveness(w http.ResponseWriter, _ *http.Request) {
	writePlain(w, http.StatusOK, "ok\n")
}

// readiness answers 200 if a request that comes now has somewhere to go and 503
// with the reason if not.
func (h *health) readiness(w http.ResponseWriter, _ *http.Request) {
	if err := h.check(); err != nil {
		writePlain(w, http.StatusServiceUnavailable, fmt.Sprintf("not ready: %v\n", err))
		return
	}
	writePlain(w, http.StatusOK, "ready\n")
}

type notReady string

func (e notReady) Error() string { return string(e) }

func (h *health) check() error {
	switch {
	case h.stopping.Load():
		return notReady("shutting down")
	case !h.serving.Load():
		return notReady("starting")
	default:
		return h.ready()
	}
}

// actor makes readiness true while it runs. Its stop takes grace, in which load
// balancers see /ready fail while requests are still served.
func (h *health) actor(grace time.Duration, serving func()) Actor {
	return Actor{
		Name: "readiness", Stage: StageReadiness,
		Run: func(ctx context.Context) error {
			h.serving.Store(true)
			if serving != nil {
				serving()
			}
			<-ctx.Done()
			return nil
		},
		Stop: func() {
			h.stopping.Store(true)
			// A second signal kills the process, so this wait needs no
			// other way out.
			<-time.After(grace)
		},
	}
}

func writePlain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // a client that left wants no answer
}
