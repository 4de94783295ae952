package openai

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/llmgw/llmgw/router/internal/apierror"
)

// NormalizeError returns the body of an engine's answer with an error status
// in the shape of the OpenAI API. A body that has it is returned as it is: an
// "error" object with string message and type whose code and param are absent,
// null or symbolic strings. Others are wrapped: flat ones, strings, "detail"
// of FastAPI, "error_type" of TGI, text and HTML; their message is kept, cut at
// 4 KiB, and a numeric code becomes a symbolic one. The body must be whole and
// decoded, and small enough to be parsed at once.
func NormalizeError(status int, contentType string, body []byte) []byte {
	f := apierror.Read(contentType, body)
	if f.Shape == apierror.ShapeNested && f.Strict {
		return body
	}
	e := Error{Status: status, Type: f.Type, Code: f.Code, Param: f.Param, Message: f.Message}
	if e.Type == "" || f.Root == "error" && f.Type == "" {
		e.Type = typeOf(status)
	}
	if apierror.Numeric(e.Code) {
		e.Code = codeOf(status, e.Message)
	}
	if e.Message == "" {
		e.Message = fmt.Sprintf("The engine answered %d %s without saying why. "+
			"Try again, or ask the operator with the id of this request.", status, http.StatusText(status))
	}
	return e.JSON()
}

// typeOf is the type of errors with this status that name none.
func typeOf(status int) string {
	switch {
	case status == http.StatusTooManyRequests:
		return TypeRateLimit
	case status == http.StatusForbidden:
		return TypePermission
	case status >= 500:
		return TypeServer
	}
	return TypeInvalidRequest
}

// codeOf is the symbolic code for an engine's error that has only a number.
func codeOf(status int, message string) string {
	lower := strings.ToLower(message)
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		for _, phrase := range []string{"maximum context length", "context length", "context size", "context window", "max_model_len"} {
			if strings.Contains(lower, phrase) {
				return CodeContextLength
			}
		}
		return CodeInvalidRequest
	case http.StatusUnauthorized:
		return CodeInvalidAPIKey
	case http.StatusForbidden:
		return "permission_denied"
	case http.StatusNotFound:
		if strings.Contains(lower, "model") {
			return CodeModelNotFound
		}
		return "not_found"
	case http.StatusRequestTimeout:
		return CodeBodyTimeout
	case http.StatusConflict:
		return "conflict"
	case http.StatusRequestEntityTooLarge:
		return CodeBodyTooLarge
	case http.StatusTooManyRequests:
		return CodeRateLimitExceeded
	case http.StatusServiceUnavailable:
		if strings.HasPrefix(lower, "loading model") {
			return CodeModelLoading // llama-server
		}
		return CodeOverloaded
	case 529:
		return CodeOverloaded
	case http.StatusBadGateway:
		return CodeUpstreamFailed
	case http.StatusGatewayTimeout:
		return CodeUpstreamTimeout
	}
	if status >= 500 {
		return CodeInternal
	}
	return CodeInvalidRequest
}
