package sim

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// requestError is a refusal of a client's request, in vLLM's words.
type requestError struct {
	status  int
	kind    string // type
	param   string
	message string
}

func (e *requestError) Error() string { return e.message }

func badRequest(param, format string, args ...any) *requestError {
	return &requestError{http.StatusBadRequest, "BadRequestError", param, fmt.Sprintf(format, args...)}
}

// invalidBody is what vLLM answers when a body does not decode.
func invalidBody(err error) *requestError {
	return &requestError{http.StatusBadRequest, "Bad Request", "", "1 validation error: " + err.Error()}
}

func unknownModel(name string) *requestError {
	return &requestError{http.StatusNotFound, "NotFoundError", "model",
		fmt.Sprintf("The model `%s` does not exist.", name)}
}

func tooLong(limit, prompt, output int) *requestError {
	return badRequest("input_tokens", "This model's maximum context length is %d tokens. However, you requested "+
		"%d output tokens and your prompt contains at least %d input tokens, for a total of at least %d tokens. "+
		"Please reduce the length of the input prompt or the number of requested output tokens. "+
		"(parameter=input_tokens, value=%d)", limit, output, prompt, prompt+output, prompt)
}

// errorNested is vLLM's error body; param "" is null.
func errorNested(message, kind, param string, code int) []byte {
	return encode(map[string]any{"error": errorFields(message, kind, param, code)})
}

func errorFields(message, kind, param string, code int) map[string]any {
	m := map[string]any{"message": message, "type": kind, "param": nil, "code": code}
	if param != "" {
		m["param"] = param
	}
	return m
}

// body is the error in the shape of the dialect.
func (e *requestError) body(anthropic bool) []byte {
	if anthropic {
		return encode(map[string]any{
			"type":  "error",
			"error": map[string]any{"type": e.kind, "message": e.message},
		})
	}
	return errorNested(e.message, e.kind, e.param, e.status)
}

// scripted is the body of a script's entry and its content type.
func (s Answer) scripted() (body []byte, contentType string) {
	const message = "scripted failure"
	kind := http.StatusText(s.Status)
	switch s.Body {
	case "flat":
		flat := errorFields(message, kind, "", s.Status)
		flat["object"] = "error"
		return encode(flat), "application/json"
	case "string":
		return encode(map[string]any{"error": message}), "application/json"
	case "detail":
		return encode(map[string]any{"detail": message}), "application/json"
	case "html":
		return []byte("<html><head><title>" + kind + "</title></head><body><h1>" + message + "</h1></body></html>\n"),
			"text/html; charset=utf-8"
	case "text":
		return []byte(message + "\n"), "text/plain; charset=utf-8"
	case "empty":
		return nil, "text/plain; charset=utf-8"
	default:
		return errorNested(message, kind, "", s.Status), "application/json"
	}
}

// encode is the JSON of a value that has one.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("sim: encode: %v", err))
	}
	return b
}
