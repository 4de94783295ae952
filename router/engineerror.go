package router

import (
	"net/http"
	"strconv"

	"github.com/llmgw/llmgw/router/anthropic"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/openai"
	"github.com/llmgw/llmgw/router/proxy"
)

// maxEngineError bounds what is read of an engine's error.
const maxEngineError = 64 << 10

// engineAnswer is an engine's error, kept while others are tried.
type engineAnswer struct {
	status      int
	retryAfter  string
	contentType string
	body        []byte
	hidden      bool // about our own secret: not for clients
}

// engineError takes an answer with an error status. It goes to the client, with
// its status, unless another endpoint may do better.
func (c *call) engineError(e *endpoint.Endpoint, resp *proxy.Response, v verdict) (again bool) {
	a := &engineAnswer{status: resp.Status, retryAfter: resp.Get("Retry-After"), contentType: resp.Get("Content-Type")}
	secret := e.Spec().Secret != ""
	a.hidden = secret && (a.status == http.StatusUnauthorized || a.status == http.StatusForbidden) || a.status < 400
	var err error
	a.body, err = resp.ReadAll(maxEngineError)
	if err != nil && c.ctx().Err() != nil {
		c.canceled()
		return false
	}
	if a.hidden {
		c.rt.log.Error("engine does not accept the gateway", "endpoint", e.ID(), "status", a.status)
		c.kind = proxy.KindLost
		return true
	}
	if v.retry {
		c.last = a
		return true
	}
	c.passOn(a)
	return false
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
	h := c.w.Header()
	c.idHeaders(h)
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if a.retryAfter != "" {
		h.Set("Retry-After", a.retryAfter)
	}
	c.out.Status, c.out.Result = a.status, ResultEngineRefused
	c.out.BytesOut = int64(len(body))
	c.w.WriteHeader(a.status)
	_, _ = c.w.Write(body)
}
