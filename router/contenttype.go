package router

import (
	"maps"
	"net/http"
	"strings"

	"github.com/llmgw/llmgw/router/openai"
)

// A body is read as a form where its content type says so, and as JSON
// everywhere else: half of the first requests ever sent are a curl -d, which
// says application/x-www-form-urlencoded. An engine that went by such a type
// would read another model than the one that was allowed here. So engines are
// told how the body was read, and never what the client called it.

const jsonType = "application/json"

// jsonTypes is the header's value for a body that was read as JSON.
var jsonTypes = []string{jsonType} //nolint:gochecknoglobals // constant header value

// reads says by which type the body of the request is read.
func (c *call) reads() (form bool, err *openai.Error) {
	types := c.req.Header["Content-Type"]
	switch {
	case len(types) > 1:
		return false, severalTypes()
	case len(types) == 1 && isMultipart(types[0]):
		if !c.route.form {
			return false, notJSONType()
		}
		return true, nil
	case c.req.Header["Origin"] != nil && (len(types) == 0 || !isJSON(types[0])):
		// A web page of anybody's can have a browser send this anywhere without
		// asking the server first; JSON it cannot.
		return false, pageType()
	}
	return false, nil
}

// priorityHeader is the header by which vLLM takes a priority.
const priorityHeader = "X-Vllm-Priority"

// header is the header that engines get: the client's without its band, without
// a priority where the band says that, and with the content type by which the body
// was read.
func (c *call) header() http.Header {
	h := c.req.Header
	_, strip := h[c.rt.cfg.BandHeader]
	if c.identity.HasPriority { // the band says who goes first, not the client
		_, asks := h[priorityHeader]
		strip = strip || asks
	}
	typed := true
	if c.route.kind == routeInference && c.spool == nil { // else there is no body, or its type holds the boundary
		types := h["Content-Type"]
		typed = len(types) == 1 && types[0] == jsonType
	}
	if !strip && typed {
		return h
	}
	h = maps.Clone(h) // the request is not ours to change
	delete(h, c.rt.cfg.BandHeader)
	if c.identity.HasPriority {
		delete(h, priorityHeader)
	}
	if !typed {
		h["Content-Type"] = jsonTypes
	}
	return h
}

// isJSON reports whether a content type is JSON by its name.
func isJSON(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == jsonType || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")
}

func severalTypes() *openai.Error {
	return wrongType("The request has more than one Content-Type, of which servers read different ones. Send one, application/json.")
}

func pageType() *openai.Error {
	return wrongType("Requests of web pages must say that they are JSON. Send the header Content-Type: application/json.")
}

func wrongType(message string) *openai.Error {
	return &openai.Error{
		Status: http.StatusUnsupportedMediaType, Type: openai.TypeInvalidRequest, Code: openai.CodeInvalidRequest, NoRetry: true,
		Message: message,
	}
}
