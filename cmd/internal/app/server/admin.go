package server

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"time"
)

// newMetricsMux serves metrics and health and nothing else.
func newMetricsMux(e *exposer, h *health) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", e)
	mux.HandleFunc("GET /health", h.liveness)
	mux.HandleFunc("GET /ready", h.readiness)
	return mux
}

// newAdminMux adds what only operators on this machine may see. pprof stands
// here alone, because the heap holds keys and prompts. decisions is nil where the
// data plane remembers none.
func newAdminMux(e *exposer, h *health, decisions http.Handler, m management, pages adminPages) http.Handler {
	mux := newMetricsMux(e, h)
	if decisions != nil {
		mux.Handle("GET /debug/decisions", decisions)
	}
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	for _, path := range m.paths {
		mux.Handle(path, m.handler)
	}
	pages.mount(mux)
	// A page in a browser on this machine can send requests here, too. What it
	// says about itself cannot be forged from there.
	return onlyLocal(http.NewCrossOriginProtection().Handler(mux))
}

// onlyLocal refuses requests that name another host: the listener is on
// loopback, so such a request was led here by a name that somebody points at
// 127.0.0.1 to read this page from a browser (DNS rebinding).
func onlyLocal(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if n := len(host); n > 1 && host[0] == '[' && host[n-1] == ']' {
			host = host[1 : n-1]
		}
		ip, err := netip.ParseAddr(host)
		if host != "localhost" && (err != nil || !ip.IsLoopback()) {
			writePlain(w, http.StatusMisdirectedRequest, "the admin listener answers to localhost and loopback addresses only\n")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// operators serves a page for operators. It ends last and is cut, not drained:
// a scrape or a profile that is lost is asked for again.
//
// listener is asked when the actor runs, since listeners are opened after the
// graph is built; without one the actor only waits for its end.
func operators(name string, listener func() net.Listener, h http.Handler, logger *slog.Logger) Actor {
	s := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          errorLog(logger),
	}
	return Actor{
		Name: name, Stage: StageOperators,
		Run: func(ctx context.Context) error {
			l := listener()
			if l == nil {
				<-ctx.Done()
				return nil
			}
			return served(s.Serve(l))
		},
		Stop: func() { _ = s.Close() }, // the listener is closed either way
	}
}
