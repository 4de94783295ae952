package router

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/llmgw/llmgw/router/anthropic"
	"github.com/llmgw/llmgw/router/openai"
)

// owner is who models belong to, as far as a client is told.
const owner = "llmgw"

// serveModels answers /v1/models and /v1/models/{model}, in either API's shape.
// It lists what the caller may use, whether or not an engine serves it now; where it
// is known, with a word on that.
func (c *call) serveModels() *openai.Error {
	r := c.req
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return openai.MethodNotAllowed(r.Method, "GET, HEAD")
	}
	catalog := c.rt.deps.Models.Catalog()
	if c.route.kind == routeModel {
		name, ok := modelOf(r.URL)
		if !ok {
			return openai.UnknownModel("")
		}
		m, ok := catalog.Resolve(name)
		if !ok || !c.identity.allows(m.Name) {
			return openai.UnknownModel(name)
		}
		// The id is the name that was asked for: clients compare them.
		if c.route.shape == shapeAnthropic {
			c.json(anthropic.Model{ID: name, Created: c.rt.created, State: c.stateOf(m.Name)}.JSON())
		} else {
			c.json(openai.Model{ID: name, Created: c.rt.created, OwnedBy: owner, State: c.stateOf(m.Name)}.JSON())
		}
		return nil
	}
	list := catalog.List()
	if c.route.shape == shapeAnthropic {
		return c.anthropicModels(list)
	}
	out := make([]openai.Model, 0, len(list))
	for i := range list {
		if c.identity.allows(list[i].Name) {
			out = append(out, openai.Model{ID: list[i].Name, Created: c.rt.created, OwnedBy: owner, State: c.stateOf(list[i].Name)})
		}
	}
	c.json(openai.ModelList(out))
	return nil
}

// stateOf is how a model stands; empty: not known.
func (c *call) stateOf(model string) string {
	if t, tells := c.rt.deps.Waker.(StateTeller); tells {
		return t.ModelState(model)
	}
	return ""
}

func (c *call) anthropicModels(list []Model) *openai.Error {
	out := make([]anthropic.Model, 0, len(list))
	for i := range list {
		if c.identity.allows(list[i].Name) {
			out = append(out, anthropic.Model{ID: list[i].Name, Created: c.rt.created, State: c.stateOf(list[i].Name)})
		}
	}
	page, err := anthropic.ParsePage(c.req.URL.Query())
	var body []byte
	if err == nil {
		body, err = anthropic.ModelList(out, page)
	}
	if e, ok := errors.AsType[*anthropic.Error](err); ok {
		return &openai.Error{Status: e.Status, Type: openai.TypeInvalidRequest, Code: openai.CodeInvalidRequest, Message: e.Message}
	}
	c.json(body)
	return nil
}

// modelOf reads the model's name from the path: one segment with its slashes
// escaped, as some SDKs send it, or several, as others do.
func modelOf(u *url.URL) (string, bool) {
	raw := strings.TrimPrefix(strings.TrimPrefix(u.EscapedPath(), "/v1"), "/models/")
	name, err := url.PathUnescape(raw)
	if err != nil || name == "" {
		return "", false
	}
	for seg := range strings.SplitSeq(name, "/") {
		if seg == "." || seg == ".." {
			return "", false
		}
	}
	return name, true
}

// json answers with a document of ours.
func (c *call) json(body []byte) {
	c.leaveBody()
	h := c.w.Header()
	c.idHeaders(h)
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	c.out.Status, c.out.Result, c.out.BytesOut = http.StatusOK, ResultOK, int64(len(body))
	c.w.WriteHeader(http.StatusOK)
	if c.req.Method != http.MethodHead {
		_, _ = c.w.Write(body)
	}
}
