package openai

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/llmgw/llmgw/router/internal/apierror"
)

// Values of Error.Type.
const (
	TypeInvalidRequest = "invalid_request_error"
	TypePermission     = "permission_error"
	TypeRateLimit      = "rate_limit_error"
	TypeServer         = "server_error"
)

// Error is an error of ours as a client sees it. It holds nothing of the
// inside: no address, no cause, no key.
type Error struct {
	Status  int    // of HTTP
	Type    string // empty: by Status
	Code    string // symbolic; empty is null
	Param   string // the field at fault; empty is null
	Message string // says what to do next

	RetryAfter time.Duration // 0: no such header
	NoRetry    bool          // x-should-retry: false; RetryAfter is then not sent
	Allow      string        // methods that the path has, with status 405
}

// Error returns the message with the code before it.
func (e *Error) Error() string {
	if e.Code == "" {
		return e.Message
	}
	return e.Code + ": " + e.Message
}

// WriteError answers w with e. The request id goes into the headers
// x-request-id and request-id; empty writes neither. Headers that w already
// has stay, but for those of an error answer. It must be called before
// anything was written.
func WriteError(w http.ResponseWriter, e *Error, requestID string) {
	body := e.JSON()
	h := w.Header()
	apierror.SetHeaders(h, requestID, apierror.Hints{RetryAfter: e.RetryAfter, NoRetry: e.NoRetry, Allow: e.Allow})
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(e.Status)
	_, _ = w.Write(body) // a client that left needs no error
}

// JSON is the body of e: {"error":{"message","type","param","code"}}.
func (e *Error) JSON() []byte {
	var doc struct {
		Error errorFields `json:"error"`
	}
	doc.Error = e.fields()
	return marshal(doc)
}

type errorFields struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func (e *Error) fields() errorFields {
	kind := e.Type
	if kind == "" {
		kind = typeOf(e.Status)
	}
	return errorFields{Message: e.Message, Type: kind, Param: orNull(e.Param), Code: orNull(e.Code)}
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// marshal encodes structs of strings and numbers, which cannot fail.
func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// ChatErrorEvent is the event that ends a stream of chat completions or
// completions which failed after its first byte. No [DONE] follows it: the
// OpenAI SDKs raise an API error on the event and take a [DONE] for success.
// When the stream stopped inside an event (Stream.MidEvent), EventSeparator
// goes before it.
func ChatErrorEvent(e *Error) []byte {
	event := append([]byte("data: "), e.JSON()...)
	return append(event, "\n\n"...)
}

// ResponsesErrorEvent is the same for the Responses API. Sequence is the
// event's sequence_number: one more than the last one's, which is the number
// of events so far (Stream.Events).
func ResponsesErrorEvent(e *Error, sequence int64) []byte {
	f := e.fields()
	var doc struct {
		Type     string  `json:"type"`
		Code     *string `json:"code"`
		Message  string  `json:"message"`
		Param    *string `json:"param"`
		Sequence int64   `json:"sequence_number"`
	}
	doc.Type, doc.Code, doc.Message, doc.Param, doc.Sequence = "error", f.Code, f.Message, f.Param, sequence
	event := append([]byte("event: error\ndata: "), marshal(doc)...)
	return append(event, "\n\n"...)
}

// EventSeparator ends an unfinished event, so that one of ours is not glued
// to it.
const EventSeparator = "\n\n"
