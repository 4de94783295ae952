package engine

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// exchange is one request and its answer.
type exchange struct {
	w         http.ResponseWriter
	r         *http.Request
	behaviour string
	nth       int // 1 for the first request of this client and behaviour
	release   <-chan struct{}
}

// request is what the engine reads of a request, in whatever dialect.
type request struct {
	Model         string `json:"model"`
	Stream        bool   `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Input    json.RawMessage   `json:"input"`
	Encoding string            `json:"encoding_format"`
	Tools    []json.RawMessage `json:"tools"`
}

// wantsTool is whether to answer with a call: tools are there and no result yet.
func (q *request) wantsTool() bool {
	if len(q.Tools) == 0 {
		return false
	}
	for _, m := range q.Messages {
		if m.Role == "tool" || strings.Contains(string(m.Content), `"tool_result"`) {
			return false
		}
	}
	return !strings.Contains(string(q.Input), `"function_call_output"`)
}

func (x *exchange) serve(path string, body []byte) {
	if x.fault() {
		return
	}
	var q request
	if err := json.Unmarshal(body, &q); err != nil {
		x.failure(http.StatusBadRequest, "BadRequestError", err.Error())
		return
	}
	if q.Model != Model {
		x.failure(http.StatusNotFound, "NotFoundError", fmt.Sprintf("The model `%s` does not exist.", q.Model))
		return
	}
	var d dialect
	switch path {
	case "/v1/chat/completions":
		d = chat{tool: q.wantsTool(), usage: q.StreamOptions.IncludeUsage}
	case "/v1/responses":
		d = responses{tool: q.wantsTool()}
	case "/v1/messages":
		d = messages{tool: q.wantsTool()}
	case "/v1/messages/count_tokens":
		x.json(http.StatusOK, `{"input_tokens":11}`)
		return
	case "/v1/embeddings":
		x.json(http.StatusOK, embeddings(&q))
		return
	default:
		x.failure(http.StatusNotFound, "NotFoundError", "Not Found")
		return
	}
	if q.Stream {
		x.play(d.events(), d.failed(), path)
		return
	}
	switch x.behaviour {
	case "hang", "endless":
		<-x.r.Context().Done()
	case "slow":
		if x.wait(SlowBy) {
			x.json(http.StatusOK, d.full())
		}
	default:
		x.json(http.StatusOK, d.full())
	}
}

// fault answers with a failure if that is the behaviour.
func (x *exchange) fault() bool {
	switch {
	case x.behaviour == "limited" && x.nth == 1:
		x.w.Header().Set("Retry-After", "1")
		x.failure(http.StatusTooManyRequests, "RateLimitError", "scripted: slow down")
	case x.behaviour == "loading" && x.nth == 1:
		x.w.Header().Set("Retry-After", "1")
		x.failure(http.StatusServiceUnavailable, "ServiceUnavailableError", "scripted: loading model")
	case x.behaviour == "closing" && x.nth == 1:
		x.hangUp(false)
	case x.behaviour == "html502":
		x.w.Header().Set("Content-Type", "text/html")
		x.w.WriteHeader(http.StatusBadGateway)
		_, _ = x.w.Write([]byte("<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>\n"))
	case len(x.behaviour) == 4 && x.behaviour[0] == 's' && x.behaviour[1] < 'a':
		status, _ := strconv.Atoi(x.behaviour[1:])
		x.failure(status, http.StatusText(status), fmt.Sprintf("scripted failure %d", status))
	default:
		return false
	}
	return true
}

// failure is vLLM's error: nested, with a number for a code.
func (x *exchange) failure(status int, kind, message string) {
	x.json(status, marshal(object{"error": object{"message": message, "type": kind, "param": nil, "code": status}}))
}

func (x *exchange) json(status int, body string) {
	x.w.Header().Set("Content-Type", "application/json")
	x.w.WriteHeader(status)
	_, _ = x.w.Write([]byte(body))
}

// wait waits, unless the client leaves first.
func (x *exchange) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-x.r.Context().Done():
		return false
	}
}

// hangUp closes the connection in the middle of the answer.
func (x *exchange) hangUp(reset bool) {
	conn, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

type object = map[string]any

func marshal(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
