package router

import (
	"bytes"
	"net/http"
	"strconv"
	"time"

	"github.com/llmgw/llmgw/router/anthropic"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/openai"
	"github.com/llmgw/llmgw/router/proxy"
)

// maxEngineError bounds what is read of an engine's error.
const maxEngineError = 64 << 10

// errorPatience is how long the body of an error may take that another endpoint
// will probably make good.
const errorPatience = time.Second

// engineAnswer is an engine's error, kept while others are tried.
type engineAnswer struct {
	status      int
	retryAfter  string
	contentType string
	body        []byte
}

// engineError takes an answer with an error status. It goes to the client, with
// its status, unless another endpoint may do better.
func (c *call) engineError(e *endpoint.Endpoint, m Model, resp *proxy.Response, v verdict) (again bool) {
	a := &engineAnswer{status: resp.Status, retryAfter: resp.Get("Retry-After"), contentType: resp.Get("Content-Type")}
	var err error
	var patience time.Duration
	if v.retry {
		patience = errorPatience // the head has said enough
	}
	a.body, err = resp.ReadAll(maxEngineError, patience)
	if err != nil && c.ctx().Err() != nil {
		c.canceled()
		return false
	}
	return c.refused(e, m, a, v)
}

// engineEvent takes the data of an error event that came before anything else, as
// if the engine had answered with the status that it stands for.
func (c *call) engineEvent(e *endpoint.Endpoint, m Model, data []byte) (again bool) {
	now := time.Now()
	a := &engineAnswer{status: openai.ErrorStatus(data), contentType: "application/json", body: data}
	v := judgeEvent(a.status, e.Spec().Secret != "", now)
	v.tell(e, now)
	return c.refused(e, m, a, v)
}

// refused tells the operator of an engine's error, and the client unless another
// endpoint may do better.
func (c *call) refused(e *endpoint.Endpoint, m Model, a *engineAnswer, v verdict) (again bool) {
	note := func(message string, attrs ...any) {
		c.rt.notices.warn(time.Now(), notice{message, e.ID(), a.status}, append(attrs, "request", c.id)...)
	}
	switch secret := e.Spec().Secret != ""; {
	case a.status < 400:
		note("engine redirects; is its URL that of an engine?")
		c.kind = proxy.KindProtocol
		return true
	case a.status == http.StatusUnauthorized || a.status == http.StatusForbidden:
		if secret {
			note("engine does not accept its key; check key_env or key_file")
			c.kind = proxy.KindLost
			return true
		}
		// No caller's credentials ever reach an engine, so this is not about
		// them; but the engine has spoken, and its word stands.
		note("engine wants a key and has none; set key_env or key_file")
	case a.status == http.StatusNotFound && c.pin == "" && deniesModel(a.body, e.UpstreamModel(m.Name)):
		note("engine does not know the model; give its own name for it as upstream", "model", m.Name, "asked", e.UpstreamModel(m.Name))
		v.retry = true // another engine may know it
	case v.retry:
		note("engine refuses requests")
	}
	if v.retry {
		c.last = a
		return true
	}
	c.passOn(a)
	return false
}

// deniesModel reports whether an engine's 404 says that it has no such model,
// and not that it has no such path.
func deniesModel(body []byte, name string) bool {
	return bytes.Contains(body, []byte(name)) &&
		(bytes.Contains(body, []byte("not exist")) || bytes.Contains(body, []byte("not found")) ||
			bytes.Contains(body, []byte(openai.CodeModelNotFound)))
}

// passOn answers the client with an engine's error, in the shape of the API it
// called.
func (c *call) passOn(a *engineAnswer) {
	var body []byte
	if c.route.shape == shapeAnthropic {
		body = anthropic.NormalizeError(a.status, a.contentType, a.body, c.id)
	} else {
		body = openai.NormalizeError(a.status, a.contentType, a.body)
	}
	c.boundWrite()
	h := c.w.Header()
	c.idHeaders(h)
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if parseRetryAfter(a.retryAfter, time.Now()) <= endpoint.MaxCooldown && a.retryAfter != "" {
		h.Set("Retry-After", a.retryAfter)
	}
	c.out.Status, c.out.Result = a.status, ResultEngineRefused
	c.out.BytesOut = int64(len(body))
	c.w.WriteHeader(a.status)
	_, _ = c.w.Write(body)
}
