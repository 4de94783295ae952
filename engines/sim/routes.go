package sim

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// version is what GET /version reports, the vLLM release that is imitated.
const version = "0.26.0"

// maxBodyBytes bounds a request's body.
const maxBodyBytes = 256 << 20

// handler serves one POST route: body is whole, its error is sent.
type handler func(a *answer, body []byte) error

func (e *Engine) newRoutes() *http.ServeMux {
	mux := http.NewServeMux()
	post := func(path string, h handler) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost {
				methodNotAllowed(w, http.MethodPost)
				return
			}
			e.post(w, r, h)
		})
	}
	get := func(path string, h http.HandlerFunc) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet && r.Method != http.MethodHead {
				methodNotAllowed(w, http.MethodGet)
				return
			}
			h(w, r)
		})
	}
	post("/v1/chat/completions", e.chat)
	post("/v1/completions", e.completions)
	post("/v1/responses", e.responses)
	get("/v1/responses/{id}", e.showResponse)
	post("/v1/responses/{id}/cancel", e.cancelResponse)
	post("/v1/audio/transcriptions", e.transcribe)
	post("/v1/audio/translations", e.transcribe)
	post("/v1/messages", e.messages)
	post("/v1/messages/count_tokens", e.countTokens)
	post("/v1/embeddings", e.embeddings)
	for _, prefix := range []string{"", "/v1", "/v2"} {
		post(prefix+"/rerank", e.rerank)
	}
	post("/score", e.score)
	post("/v1/score", e.score)
	post("/tokenize", e.tokenize)
	post("/v1/chat/completions/render", e.renderChat)
	post("/v1/completions/render", e.renderCompletions)
	get("/v1/models", e.listModels)
	get("/health", e.health)
	mux.HandleFunc("/ping", e.health)
	get("/version", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"version": version})
	})
	get("/metrics", e.serveMetrics)
	if e.cfg.SleepMode {
		plain := func(path string, h http.HandlerFunc) {
			mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost {
					methodNotAllowed(w, http.MethodPost)
					return
				}
				h(w, r)
			})
		}
		plain("/sleep", e.fallAsleep)
		plain("/wake_up", e.wakeUp)
		get("/is_sleeping", e.isSleeping)
	}
	if e.cfg.FaultControl {
		mux.HandleFunc("/sim/faults", e.controlFaults)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusNotFound, map[string]any{"detail": "Not Found"})
	})
	return mux
}

// ServeHTTP answers as vLLM's server does, faults apart. An answer that is cut
// off (by Close, by a fault) panics with [http.ErrAbortHandler], which a server
// takes as the order to drop the connection.
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.once.Do(func() { e.created = time.Now() })
	rec := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
	defer func() {
		e.mu.Lock()
		e.metrics.request(e.routes, r, rec.status)
		e.mu.Unlock()
	}()
	rec.Header().Set("Server", "uvicorn")
	if e.cfg.APIKey != "" && r.Method != http.MethodOptions && strings.HasPrefix(r.URL.Path, "/v1") {
		key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || subtle.ConstantTimeCompare([]byte(key), []byte(e.cfg.APIKey)) != 1 {
			writeJSON(rec, http.StatusUnauthorized, map[string]any{"error": "Unauthorized"})
			return
		}
	}
	e.routes.ServeHTTP(rec, r)
}

// post reads the body, applies the faults that come before an answer, and
// calls h.
func (e *Engine) post(w http.ResponseWriter, r *http.Request, h handler) {
	state := e.faults.Load()
	faults := &state.Faults
	if text := r.Header.Get("X-Sim-Faults"); text != "" && e.cfg.FaultControl {
		f, err := ParseFaults(*faults, text)
		if err != nil {
			writeJSON(w, http.StatusBadRequest, map[string]any{"error": err.Error()})
			return
		}
		f.Script = state.Script
		faults = &f
	}
	a := &answer{engine: e, w: w, rc: http.NewResponseController(w), r: r, faults: faults}
	if faults.EarlyStatus != 0 {
		body, contentType := Answer{Status: faults.EarlyStatus}.scripted()
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(faults.EarlyStatus)
		_, _ = w.Write(body)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if err != nil {
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			writeJSON(w, http.StatusRequestEntityTooLarge, map[string]any{"detail": "Request Entity Too Large"})
		}
		return // else the client is gone
	}
	switch {
	case faults.HangHeaders:
		e.finish(a, a.hang())
		return
	case faults.CloseHeaders || faults.ResetHeaders:
		_ = a.hangUp(faults.ResetHeaders)
		return
	}
	if len(faults.Script) > 0 && strings.HasPrefix(r.URL.Path, "/v1/") {
		if i := int(state.answered.Add(1)) - 1; i < len(faults.Script) && faults.Script[i].Status != http.StatusOK {
			e.playScript(a, faults.Script[i])
			return
		}
	}
	e.finish(a, h(a, body))
}

func (e *Engine) playScript(a *answer, s Answer) {
	body, contentType := s.scripted()
	if s.RetryAfter != "" {
		a.w.Header().Set("Retry-After", s.RetryAfter)
	}
	a.w.Header().Set("Content-Type", contentType)
	_ = a.json(s.Status, body)
}

// finish sends the error a handler returned, if it can still be sent.
func (e *Engine) finish(a *answer, err error) {
	if err == nil || errors.Is(err, errEnded) {
		return
	}
	if refusal, ok := errors.AsType[*requestError](err); ok {
		_ = a.json(refusal.status, refusal.body(strings.HasPrefix(a.r.URL.Path, "/v1/messages")))
		return
	}
	if a.r.Context().Err() != nil {
		return // nobody listens
	}
	e.log.Debug("answer not delivered", "path", a.r.URL.Path, "err", err)
	panic(http.ErrAbortHandler) // so that no cut answer looks whole
}

// decode reads the body's JSON and checks the model.
func (e *Engine) decode(a *answer, body []byte, into interface{ model() string }) error {
	if ct := a.r.Header.Get("Content-Type"); ct != "" {
		media, _, _ := strings.Cut(ct, ";")
		if strings.TrimSpace(strings.ToLower(media)) != "application/json" {
			return badRequest("", "Unsupported Media Type: Only 'application/json' is allowed")
		}
	}
	if err := json.Unmarshal(body, into); err != nil {
		return invalidBody(err)
	}
	if name := into.model(); name != "" && name != e.cfg.Model && !slices.Contains(e.cfg.Aliases, name) {
		return unknownModel(name)
	}
	return nil
}

func (e *Engine) health(w http.ResponseWriter, _ *http.Request) {
	select {
	case <-e.done:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	default:
	}
	if e.faults.Load().Unhealthy {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusOK)
}

func (e *Engine) controlFaults(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPut {
		methodNotAllowed(w, http.MethodPut)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<10))
	if err != nil {
		return
	}
	f, err := ParseFaults(Faults{}, string(bytes.TrimSpace(body)))
	if err == nil {
		err = e.SetFaults(f)
	}
	if err != nil {
		writeJSON(w, http.StatusBadRequest, map[string]any{"error": err.Error()})
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func methodNotAllowed(w http.ResponseWriter, allow string) {
	w.Header().Set("Allow", allow)
	writeJSON(w, http.StatusMethodNotAllowed, map[string]any{"detail": "Method Not Allowed"})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encode(v))
}

// statusRecorder remembers the status for http_requests_total.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (s *statusRecorder) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the connection.
func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }
