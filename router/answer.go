package router

import (
	"net/http"
	"strings"
	"time"

	"github.com/llmgw/llmgw/router/anthropic"
	"github.com/llmgw/llmgw/router/openai"
)

// refuse answers the client with an error of ours, in the shape of the API it
// called. It is the only place that does.
func (c *call) refuse(e *openai.Error) {
	o := &c.out
	if o.Result == ResultUnset {
		o.Result = ResultRefused
	}
	o.Status, o.Code = e.Status, e.Code
	c.rt.metrics.refusals.WithLabelValues(e.Code).Inc()
	if c.ctx().Err() != nil && e.Code == openai.CodeBodyTruncated {
		o.Result = ResultCanceled
	}
	c.leaveBody()
	h := c.w.Header()
	c.ownHeaders(h)
	if e.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if c.route.shape == shapeAnthropic {
		anthropic.WriteError(c.w, anthropicError(e), c.id)
		return
	}
	openai.WriteError(c.w, e, c.id)
}

// lingerBody is how long a connection waits for the rest of a body that nobody
// wants before it is closed: a client that is still sending sees the answer, and
// not a reset.
const lingerBody = 500 * time.Millisecond

// leaveBody prepares for an answer to a request whose body was not read to its
// end. net/http would wait for the rest of it, before the answer and after, and
// for as long as the client likes.
func (c *call) leaveBody() {
	c.boundWrite()
	if c.whole || c.req.ContentLength == 0 || c.req.ProtoMajor != 1 {
		return
	}
	c.w.Header().Set("Connection", "close")
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Now().Add(lingerBody))
}

// boundWrite bounds the writing of a short answer where a client can stop it at
// its first byte, as HTTP/2's windows let it. On HTTP/1.1 a socket's buffer takes
// such an answer at once.
func (c *call) boundWrite() {
	if c.req.ProtoMajor != 1 {
		_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(c.rt.deps.Proxy.ClientWrite()))
	}
}

// anthropicError is e in the other API's terms.
func anthropicError(e *openai.Error) *anthropic.Error {
	return &anthropic.Error{
		Status: e.Status, Message: e.Message, RetryAfter: e.RetryAfter, NoRetry: e.NoRetry, Allow: e.Allow,
	}
}

// errorEvent is e as the event that ends a stream of the call's dialect.
func (c *call) errorEvent(e *openai.Error) []byte {
	switch c.route.dialect {
	case openai.DialectMessages:
		return anthropic.ErrorEvent(anthropicError(e), c.id)
	case openai.DialectResponses:
		return openai.ResponsesErrorEvent(e, c.tap.stream.Events())
	}
	return openai.ChatErrorEvent(e)
}

// idHeaders names the request to the client, under both APIs' names, and adds
// ownHeaders.
func (c *call) idHeaders(h http.Header) {
	ids := []string{c.id}
	h["X-Request-Id"] = ids
	h["Request-Id"] = ids
	c.ownHeaders(h)
}

// ownHeaders are what the hook that charges has to say, and how the request's
// endpoint was chosen if that was asked.
func (c *call) ownHeaders(h http.Header) {
	if c.headers != nil {
		c.headers.AnswerHeader(h)
	}
	c.explain(h)
}

// Refuse answers a request that does not get to the router, as one without a known
// key, in the shape of the API that its path speaks. Nobody records it.
func (rt *Router) Refuse(w http.ResponseWriter, r *http.Request, e *openai.Error) {
	c := &call{}
	c.begin(rt, w, r, time.Now())
	c.refuse(e)
}

func notJSONType() *openai.Error {
	return &openai.Error{
		Status: http.StatusUnsupportedMediaType, Type: openai.TypeInvalidRequest, Code: openai.CodeInvalidRequest,
		Message: "This path takes a JSON body, not a multipart form. Send application/json.",
	}
}

// notFound says what is wrong with a path that is not served.
func notFound(r *http.Request) *openai.Error {
	e := openai.NotFound(r.Method, r.URL.Path)
	switch {
	case strings.HasPrefix(r.URL.Path, twice):
		e.Message = "The path begins with /v1/v1: your client adds /v1 by itself. Use a base URL that does not end in /v1."
	case azure(r.URL.Path):
		e.Message = "The path is one of Azure's API, which is not served here. Use your SDK's client for OpenAI, not the one for Azure, " +
			"with a base URL that ends in /v1 and the model's name in place of a deployment's."
	}
	return e
}
