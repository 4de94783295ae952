package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// model is what the engine serves, and promptTokens what it says of every prompt.
const (
	model        = "m"
	promptTokens = 20
)

// What a request asks of the engine by the header X-Mode, which the gateway passes
// on.
const (
	modeDocument = "document" // answered whole
	modeStream   = "stream"   // answered whole
	modeError    = "error"    // 500
	modeHang     = "hang"     // never answered
	modeReset    = "reset"    // the connection is reset before the answer
	modeCut      = "cut"      // the connection is reset in the middle of a stream
	modeSlow     = "slow"     // answered late, and the client does not wait for it
	modeLeave    = "leave"    // streamed, and the client leaves in the middle
)

// eventGap lies between two events of a stream; slow is how late modeSlow is.
const (
	eventGap = 3 * time.Millisecond
	slow     = 300 * time.Millisecond
)

// truth is what the engine knows of one request: what it really cost, whatever
// became of the gateway that asked.
type truth struct {
	key    string // as the client calls it
	at     time.Time
	tokens int64
}

// engine is an inference engine that misbehaves as it is asked to and remembers
// what it did.
type engine struct {
	url    string
	server *http.Server

	mu      sync.Mutex
	done    map[string]truth // guarded by mu; by the request's ID
	running map[string]int   // guarded by mu; by key
	most    map[string]int   // guarded by mu; the most of running since the last peak
}

func startEngine(ctx context.Context) (*engine, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e := &engine{url: "http://" + l.Addr().String(), done: map[string]truth{}, running: map[string]int{}, most: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"`+model+`","object":"model"}]}`)
	})
	mux.HandleFunc("POST /v1/chat/completions", e.chat)
	e.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = e.server.Serve(l) }()
	return e, nil
}

func (e *engine) close() { _ = e.server.Close() }

// began enters that a request runs, and returns what enters its end, once.
func (e *engine) began(key string) func() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running[key]++
	e.most[key] = max(e.most[key], e.running[key])
	return sync.OnceFunc(func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.running[key]--
	})
}

// peak returns the most requests of a key that ran at once since it was called
// before.
func (e *engine) peak(key string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.most[key]
	e.most[key] = e.running[key]
	return n
}

// served enters so many tokens of a request.
func (e *engine) served(id, key string, at time.Time, tokens int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.done[id]
	e.done[id] = truth{key: key, at: at, tokens: t.tokens + tokens}
}

// all returns what was done.
func (e *engine) all() map[string]truth {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.done)
}

func (e *engine) chat(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Stream    bool  `json:"stream"`
		MaxTokens int64 `json:"max_tokens"`
		Options   struct {
			Usage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	at := time.Now()
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	mode, key, id := r.Header.Get("X-Mode"), r.Header.Get("X-Key"), r.Header.Get("X-Request-Id")
	end := e.began(key)
	defer end()
	rest := http.NewResponseController(w)
	switch mode {
	case modeError:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `{"error":{"message":"broken","type":"InternalServerError","param":null,"code":500}}`)
		return
	case modeHang:
		<-r.Context().Done()
		return
	case modeReset:
		panic(http.ErrAbortHandler)
	case modeSlow:
		if !pause(r.Context(), slow) {
			return
		}
	}
	tokens := 1 + int64(id[len(id)-1])%body.MaxTokens // as good as any
	if !body.Stream {
		if !pause(r.Context(), 2*eventGap) {
			return
		}
		e.served(id, key, at, promptTokens+tokens)
		w.Header().Set("Content-Type", "application/json")
		end()
		fmt.Fprintf(w, `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":%s}`,
			strings.Repeat("w ", int(tokens)), usageOf(tokens))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	event := func(delta, reason, usage string) bool {
		_, err := fmt.Fprintf(w, "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]%s}\n\n", delta, reason, usage)
		return err == nil && rest.Flush() == nil && pause(r.Context(), eventGap)
	}
	if !event(`{"role":"assistant"}`, "null", "") {
		return
	}
	e.served(id, key, at, promptTokens)
	for n := range tokens {
		if mode == modeCut && n == tokens/2 {
			panic(http.ErrAbortHandler)
		}
		e.served(id, key, at, 1)
		if !event(`{"content":"w "}`, "null", "") {
			return
		}
	}
	if !event(`{}`, `"stop"`, "") {
		return
	}
	end()
	if body.Options.Usage {
		fmt.Fprintf(w, "data: {\"object\":\"chat.completion.chunk\",\"choices\":[],\"usage\":%s}\n\n", usageOf(tokens))
	}
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

func usageOf(tokens int64) string {
	return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, promptTokens, tokens, promptTokens+tokens)
}

// pause reports whether d has passed before ctx was done.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
