// Package engine is a scripted inference engine that misbehaves on purpose, for
// the client matrix. What it answers is fixed, so that a suite can compare every
// byte; how it answers is a behaviour, the second part of its base path:
//
//	http://127.0.0.1:PORT/CLIENT/BEHAVIOUR/v1/chat/completions
//
// Each CLIENT/BEHAVIOUR is an endpoint of its own to the gateway, with its own
// breaker, and has its own book here: GET /-/seen/CLIENT/BEHAVIOUR shows what
// came in and how many requests still run.
package engine

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Behaviours are how the engine can be asked to answer.
//
//	plain      as it should
//	framing    CRLF, no space after "data:", comments, one byte per write
//	slow       the first token comes after SlowBy
//	hang       a stream stops after its first token; anything else never answers
//	endless    a stream has no end
//	limited    429 with Retry-After: 1, then plain
//	loading    503 with Retry-After: 1, then plain
//	closing    the connection closes instead of the first answer, then plain
//	cut        a stream's connection closes after two tokens
//	reset      the same with a reset, once GET /-/release/CLIENT/reset says so
//	short      a stream's body ends as if it were whole after two tokens
//	errorevent after two tokens a stream says what went wrong, and [DONE]
//	html502    a page of a web server with status 502
//	s400 …     this status with vLLM's error body
func Behaviours() []string {
	return []string{
		"plain", "framing", "slow", "hang", "endless", "limited", "loading", "closing", "cut", "short", "reset", "errorevent",
		"html502", "s400", "s401", "s403", "s404", "s409", "s413", "s422", "s429", "s500", "s503", "s529",
	}
}

// Model is the engine's own name for what it serves: not the name that clients
// use, so that each request shows that the gateway renames.
const Model = "Upstream-Org/Scripted-1B"

// SlowBy is how long the behaviour slow waits before its first token.
const SlowBy = 600 * time.Millisecond

// Seen is what a book holds.
type Seen struct {
	Running  int       `json:"running"` // requests whose handler has not returned
	Requests []Request `json:"requests"`
}

// Request is one that came in.
type Request struct {
	AtMillis int64       `json:"at_ms"` // since the engine started
	Target   string      `json:"target"`
	Header   http.Header `json:"header"`
	Body     string      `json:"body"`
	Status   int         `json:"status"` // at the door; else 0, and there until it is answered
}

// Engine is an http.Handler. All methods may be called concurrently.
type Engine struct {
	started time.Time
	mu      sync.Mutex
	books   map[string]*book // guarded by mu
}

type book struct {
	seen    Seen          // guarded by Engine.mu
	release chan struct{} // closed by a release; guarded by Engine.mu
	open    bool          // guarded by Engine.mu
}

// New returns an engine with empty books.
func New() *Engine { return &Engine{started: time.Now(), books: map[string]*book{}} }

// ServeHTTP serves the control paths below /-/ and the engine's own.
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.SplitN(strings.TrimPrefix(r.URL.Path, "/"), "/", 3)
	if len(parts) < 3 {
		http.NotFound(w, r)
		return
	}
	if parts[0] == "-" {
		e.control(w, parts[1], parts[2])
		return
	}
	if r.Method != http.MethodPost {
		http.NotFound(w, r) // the gateway scrapes /metrics; this engine has none
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	b, nth := e.enter(parts[0]+"/"+parts[1], r, body)
	defer e.leave(b)
	x := &exchange{w: w, r: r, release: b.release, nth: nth, behaviour: parts[1]}
	x.serve("/"+parts[2], body)
}

func (e *Engine) control(w http.ResponseWriter, verb, name string) {
	e.mu.Lock()
	b := e.book(name)
	if verb == "release" && !b.open {
		b.open = true
		close(b.release)
	}
	out, err := json.Marshal(b.seen)
	e.mu.Unlock()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(out)
}

// book finds or begins a book. The caller holds mu.
func (e *Engine) book(name string) *book {
	b := e.books[name]
	if b == nil {
		b = &book{release: make(chan struct{}), seen: Seen{Requests: []Request{}}}
		e.books[name] = b
	}
	return b
}

func (e *Engine) enter(name string, r *http.Request, body []byte) (b *book, nth int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b = e.book(name)
	b.seen.Running++
	b.seen.Requests = append(b.seen.Requests, Request{
		AtMillis: time.Since(e.started).Milliseconds(), Target: r.URL.RequestURI(), Header: r.Header.Clone(), Body: string(body),
	})
	return b, len(b.seen.Requests)
}

func (e *Engine) leave(b *book) {
	e.mu.Lock()
	b.seen.Running--
	e.mu.Unlock()
}
