package calibrate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// client talks to one engine. It may be used concurrently.
type client struct {
	http    *http.Client
	cfg     Config
	model   string
	timeout time.Duration
	sent    atomic.Int64 // requests for an answer
}

// newTransport keeps every connection, so that no request pays for a dial,
// and asks for no compression, which would hold tokens back.
func newTransport(connections int) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = connections, connections
	t.DisableCompression = true
	return t
}

// discover finds the model and what else the engine tells about itself.
func (c *client) discover(ctx context.Context) (Told, error) {
	var list struct {
		Data *[]struct {
			ID          string `json:"id"`
			MaxModelLen int    `json:"max_model_len"`
		} `json:"data"`
	}
	if err := c.get(ctx, "/v1/models", &list); err != nil {
		return Told{}, err
	}
	if list.Data == nil {
		return Told{}, fmt.Errorf("%w: GET /v1/models answers JSON without a list \"data\"", ErrNotEngine)
	}
	var told Told
	var names []string
	for _, m := range *list.Data {
		names = append(names, m.ID)
		if m.ID == c.cfg.Model || (c.cfg.Model == "" && len(*list.Data) == 1) {
			told.Model, told.MaxModelLen = m.ID, max(m.MaxModelLen, 0)
		}
	}
	if told.Model == "" {
		slices.Sort(names)
		return Told{}, &ModelError{Asked: c.cfg.Model, Served: names}
	}
	c.model = told.Model
	// llama.cpp only; anything else answers 404 or an error, which tells
	// nothing and is no failure.
	var props struct {
		Slots    int `json:"total_slots"`
		Defaults struct {
			Context int `json:"n_ctx"`
		} `json:"default_generation_settings"`
	}
	if c.get(ctx, "/props", &props) == nil {
		told.Slots = max(props.Slots, 0)
		if told.MaxModelLen == 0 {
			told.MaxModelLen = max(props.Defaults.Context, 0)
		}
	}
	return told, context.Cause(ctx)
}

// get decodes a JSON document of at most a megabyte.
func (c *client) get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	op := "GET " + path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.cfg.base()+path, nil)
	if err != nil {
		return fmt.Errorf("calibrate: %s: %w", op, err)
	}
	resp, err := c.do(req, op)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnreachable, op, err)
	}
	if json.Unmarshal(body, into) != nil {
		return fmt.Errorf("%w: %s answers %s", ErrNotEngine, op, describe(resp, body))
	}
	return nil
}

// ask is one request for a streamed answer.
type ask struct {
	text   string
	output int         // tokens
	seen   func(n int) // called after each event with content; nil: nobody listens
}

// stream sends a request and reads its answer. The reading is there with an
// error too, as far as it came, unless the answer did not begin.
func (c *client) stream(ctx context.Context, a ask) (*reading, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout,
		fmt.Errorf("no whole answer within %v, the limit for one request", c.timeout))
	defer cancel()
	body := map[string]any{
		"model": c.model, "stream": true, "max_tokens": a.output, "temperature": 0, "ignore_eos": true,
		"stream_options": map[string]any{"include_usage": true},
	}
	path := "/v1/chat/completions"
	if c.cfg.API == Completions {
		path = "/v1/completions"
		body["prompt"] = a.text
	} else {
		body["messages"] = []any{map[string]any{"role": "user", "content": a.text}}
	}
	op := "POST " + path
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("calibrate: %s: %w", op, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.cfg.base()+path, bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("calibrate: %s: %w", op, err)
	}
	req.Header.Set("Content-Type", "application/json")
	// An engine may close an idle connection as it is used. To the transport
	// this key, which is not sent, means that asking again does no harm.
	req.Header["Idempotency-Key"] = nil
	c.sent.Add(1)
	r := &reading{sent: time.Now()}
	resp, err := c.do(req, op)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != "text/event-stream" {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)) // only for the message
		return nil, fmt.Errorf("%w: %s answers %s instead of a stream of events", ErrNotEngine, op, describe(resp, text))
	}
	if err := r.readStream(resp.Body, a.seen); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w: %w", err, cause)
		}
		return r, fmt.Errorf("%s: %w", op, err)
	}
	return r, nil
}

// do sends a request and accepts status 200 alone.
func (c *client) do(req *http.Request, op string) (*http.Response, error) {
	if c.cfg.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.APIKey)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if cause := context.Cause(req.Context()); cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", err, cause)
		}
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // only for the message
	if resp.StatusCode < 400 || isHTML(resp, body) {
		return nil, fmt.Errorf("%w: %s answers %s", ErrNotEngine, op, describe(resp, body))
	}
	status := &StatusError{Op: op, Status: resp.StatusCode, Message: message(body)}
	if resp.StatusCode == http.StatusNotFound && strings.HasPrefix(op, "POST") && strings.Contains(strings.ToLower(status.Message), "model") {
		return nil, fmt.Errorf("%w: %w", ErrModel, status)
	}
	return nil, status
}

// message is the text of an engine's error, in any of the shapes in use.
func message(body []byte) string {
	var e struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &e) != nil {
		return shorten(string(body))
	}
	var inner struct {
		Message string `json:"message"`
	}
	var text string
	switch {
	case json.Unmarshal(e.Error, &inner) == nil && inner.Message != "":
		return shorten(inner.Message)
	case json.Unmarshal(e.Error, &text) == nil && text != "":
		return shorten(text)
	case e.Message != "":
		return shorten(e.Message)
	case json.Unmarshal(e.Detail, &text) == nil && text != "":
		return shorten(text)
	default:
		return shorten(string(body))
	}
}

func isHTML(resp *http.Response, body []byte) bool {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return kind == "text/html" || bytes.HasPrefix(bytes.TrimSpace(body), []byte("<"))
}

// describe says what came instead of what was wanted.
func describe(resp *http.Response, body []byte) string {
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return fmt.Sprintf("a redirect to %q; give that address", resp.Header.Get("Location"))
	case isHTML(resp, body):
		return fmt.Sprintf("HTML (status %d); is there a web server at that address?", resp.StatusCode)
	case len(body) == 0:
		return fmt.Sprintf("nothing (status %d)", resp.StatusCode)
	default:
		return fmt.Sprintf("%q (status %d)", shorten(string(body[:min(len(body), 300)])), resp.StatusCode)
	}
}
