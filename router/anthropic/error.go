package anthropic

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/llmgw/llmgw/router/internal/apierror"
)

// StatusOverloaded is the API's status for a service that is too busy.
const StatusOverloaded = 529

// Values of Error.Type.
const (
	TypeInvalidRequest  = "invalid_request_error"
	TypeAuthentication  = "authentication_error"
	TypeBilling         = "billing_error"
	TypePermission      = "permission_error"
	TypeNotFound        = "not_found_error"
	TypeRequestTooLarge = "request_too_large"
	TypeRateLimit       = "rate_limit_error"
	TypeAPI             = "api_error"
	TypeTimeout         = "timeout_error"
	TypeOverloaded      = "overloaded_error"
)

// Error is an error of ours as a client sees it. It holds nothing of the
// inside: no address, no cause, no key.
type Error struct {
	Status  int    // of HTTP, or StatusOverloaded
	Type    string // empty: by Status
	Message string // says what to do next

	RetryAfter time.Duration // 0: no such header
	NoRetry    bool          // x-should-retry: false; RetryAfter is then not sent
	Allow      string        // methods that the path has, with status 405
}

// Error returns the message with the type before it.
func (e *Error) Error() string { return e.kind() + ": " + e.Message }

func (e *Error) kind() string {
	if e.Type != "" {
		return e.Type
	}
	return TypeOf(e.Status)
}

// known reports whether clients that tell errors apart by type know it.
func known(typ string) bool {
	switch typ {
	case TypeInvalidRequest, TypeAuthentication, TypeBilling, TypePermission, TypeNotFound,
		TypeRequestTooLarge, TypeRateLimit, TypeAPI, TypeTimeout, TypeOverloaded:
		return true
	}
	return false
}

// TypeOf is the type that errors with this status have.
func TypeOf(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return TypeAuthentication
	case http.StatusPaymentRequired:
		return TypeBilling
	case http.StatusForbidden:
		return TypePermission
	case http.StatusNotFound:
		return TypeNotFound
	case http.StatusRequestEntityTooLarge:
		return TypeRequestTooLarge
	case http.StatusTooManyRequests:
		return TypeRateLimit
	case http.StatusGatewayTimeout:
		return TypeTimeout
	case http.StatusServiceUnavailable, StatusOverloaded:
		return TypeOverloaded
	}
	if status >= 500 {
		return TypeAPI
	}
	return TypeInvalidRequest
}

// errorDoc is the body: {"type":"error","error":{"type","message"},"request_id"}.
type errorDoc struct {
	Type  string `json:"type"`
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
	RequestID *string `json:"request_id,omitempty"`
}

// JSON is the body of e; without a request id that member is left out.
func (e *Error) JSON(requestID string) []byte {
	doc := errorDoc{Type: "error"}
	doc.Error.Type, doc.Error.Message = e.kind(), e.Message
	if requestID != "" {
		doc.RequestID = &requestID
	}
	return marshal(doc)
}

// marshal encodes structs of strings, which cannot fail.
func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// WriteError answers w with e. The request id goes into the body and the
// headers x-request-id and request-id; empty writes none. Headers that w
// already has stay, but for those of an error answer. It must be called before
// anything was written.
func WriteError(w http.ResponseWriter, e *Error, requestID string) {
	body := e.JSON(requestID)
	h := w.Header()
	apierror.SetHeaders(h, requestID, apierror.Hints{RetryAfter: e.RetryAfter, NoRetry: e.NoRetry, Allow: e.Allow})
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(e.Status)
	_, _ = w.Write(body) // a client that left needs no error
}

// ErrorEvent is the event that ends a stream which failed after its first
// byte; no message_stop follows it.
func ErrorEvent(e *Error, requestID string) []byte {
	event := append([]byte("event: error\ndata: "), e.JSON(requestID)...)
	return append(event, "\n\n"...)
}

// NormalizeError returns the body of an engine's answer with an error status
// in the shape of the Anthropic API. A body that has it is returned as it is:
// "type" is "error" and an "error" object has a message and one of the API's
// types (vLLM gives the shape its own, as BadRequestError). Others, those of the
// OpenAI API included, are wrapped; their message is kept, cut at 4 KiB, and the
// type goes by the status. The body must be whole and decoded,
// and small enough to be parsed at once.
func NormalizeError(status int, contentType string, body []byte, requestID string) []byte {
	f := apierror.Read(contentType, body)
	if f.Shape == apierror.ShapeNested && f.Root == "error" && known(f.Type) && f.Message != "" {
		return body
	}
	e := Error{Status: status, Message: f.Message}
	if e.Message == "" {
		e.Message = fmt.Sprintf("The engine answered %d %s without saying why. "+
			"Try again, or ask the operator with the id of this request.", status, http.StatusText(status))
	}
	return e.JSON(requestID)
}
