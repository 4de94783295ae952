package openai

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/llmgw/llmgw/router/internal/apierror"
	"github.com/llmgw/llmgw/router/internal/secret"
)

// Values of Error.Code.
const (
	CodeInvalidRequest      = "invalid_request"
	CodeInvalidJSON         = "invalid_json"
	CodeInvalidForm         = "invalid_form"
	CodeBodyTruncated       = "body_truncated"
	CodeModelRequired       = "model_required"
	CodeUnsupportedParam    = "unsupported_parameter"
	CodeModelNotString      = "model_not_string"
	CodeDuplicateModel      = "duplicate_model"
	CodeModelNotFound       = "model_not_found"
	CodeResponseNotFound    = "response_not_found"
	CodePreviousNotFound    = "previous_response_not_found"
	CodeModelLoading        = "model_loading"
	CodeNoEndpoint          = "no_endpoint"
	CodeContextLength       = "context_length_exceeded"
	CodeBodyTooLarge        = "request_too_large"
	CodeBodyTimeout         = "request_timeout"
	CodeHeadersTooLarge     = "headers_too_large"
	CodeUnsupportedEncoding = "unsupported_encoding"
	CodeCorruptEncoding     = "corrupt_encoding"
	CodeUnknownURL          = "unknown_url"
	CodeMethodNotAllowed    = "method_not_allowed"
	CodeUpstreamFailed      = "upstream_failed"
	CodeUpstreamTimeout     = "upstream_timeout"
	CodeOverloaded          = "overloaded"
	CodeInvalidAPIKey       = "invalid_api_key"
	CodeRateLimitExceeded   = "rate_limit_exceeded"
	CodeInternal            = "internal_error"
)

// MaxLoadingRetry is the longest Retry-After of ModelLoading and NoEndpoint:
// openai-go caps longer ones to 8 s, openai-node ignores those over 60 s and
// comes back at once.
const MaxLoadingRetry = 8 * time.Second

// maxEchoBytes bounds what an error message repeats of a request.
const maxEchoBytes = 128

// PeekFailed is the answer, status 400, to a body that PeekBody refused with
// err.
func PeekFailed(err error) *Error {
	e := &Error{Status: http.StatusBadRequest, Type: TypeInvalidRequest, NoRetry: true}
	at := ""
	if pe, ok := errors.AsType[*PeekError](err); ok {
		at = " at byte " + strconv.Itoa(pe.Offset)
		if pe.Detail != "" {
			at += ": " + pe.Detail
		}
	}
	switch {
	case errors.Is(err, ErrNoModel):
		e.Code, e.Param = CodeModelRequired, "model"
		e.Message = `The request names no model. Set "model" to one of the names that GET /v1/models lists.`
	case errors.Is(err, ErrModelNotString):
		e.Code, e.Param = CodeModelNotString, "model"
		e.Message = `"model" must be a string. Set it to one of the names that GET /v1/models lists.`
	case errors.Is(err, ErrDuplicateModel):
		e.Code, e.Param = CodeDuplicateModel, "model"
		e.Message = `The request names "model" more than once, which parsers read differently. Send it once.`
	case errors.Is(err, ErrDuplicateField):
		field := "a field"
		if pe, ok := errors.AsType[*PeekError](err); ok && pe.Detail != "" {
			e.Param = pe.Detail
			field = strconv.Quote(pe.Detail)
		}
		e.Code = CodeInvalidRequest
		e.Message = "The request has " + field + " more than once, which parsers read differently. Send it once."
	case errors.Is(err, ErrTooDeep):
		e.Code = CodeInvalidJSON
		e.Message = fmt.Sprintf("The request body nests more than %d levels deep%s. Send a flatter body.", MaxDepth, at)
	case errors.Is(err, ErrNotObject):
		e.Code = CodeInvalidJSON
		e.Message = "The request body is JSON but not an object. Send one JSON object."
	case errors.Is(err, ErrTruncated):
		e.Code = CodeInvalidJSON
		e.Message = "The request body ends in the middle of its JSON" + at + ". Send the whole object."
	default:
		e.Code = CodeInvalidJSON
		e.Message = "The request body is not valid JSON" + at + ". Send one JSON object, encoded as UTF-8."
	}
	return e
}

// FormFailed is the answer, status 400, to a body that a Form refused with err;
// with ErrNotForm it is status 415.
func FormFailed(err error) *Error {
	e := &Error{Status: http.StatusBadRequest, Type: TypeInvalidRequest, Code: CodeInvalidForm, NoRetry: true}
	at, why := "", ""
	if pe, ok := errors.AsType[*PeekError](err); ok {
		at = " at byte " + strconv.Itoa(pe.Offset)
		if pe.Detail != "" {
			why = ": " + pe.Detail
		}
	}
	switch {
	case errors.Is(err, ErrNoModel):
		e.Code, e.Param = CodeModelRequired, "model"
		e.Message = `The form names no model. Add a part "model" with one of the names that GET /v1/models lists.`
	case errors.Is(err, ErrModelNotString):
		e.Code, e.Param = CodeModelNotString, "model"
		e.Message = `The part "model" must be plain text in UTF-8, not a file. Set it to one of the names that GET /v1/models lists.`
	case errors.Is(err, ErrDuplicateModel):
		e.Code, e.Param = CodeDuplicateModel, "model"
		e.Message = `The form names "model" more than once, which servers read differently. Send it once.`
	case errors.Is(err, ErrNotForm):
		e.Status, e.Code = http.StatusUnsupportedMediaType, CodeInvalidRequest
		e.Message = "This path takes a form. Send multipart/form-data."
	case errors.Is(err, ErrNoBoundary):
		e.Message = "The form cannot be read" + why + ". Send the Content-Type that your HTTP library makes for a form, with its boundary."
	case errors.Is(err, ErrTruncated):
		e.Message = "The form ends before its last boundary" + at + ". Send all of it, and the boundary that Content-Type names."
	case errors.Is(err, ErrFormLimit):
		e.Message = "The form is not accepted" + at + why + ". Send fewer or shorter parts."
	default:
		e.Message = "The form is malformed" + at + why + ". Send it as your HTTP library writes forms."
	}
	return e
}

// FormTooLarge is status 413 for a form; limit is in bytes.
func FormTooLarge(limit int64) *Error {
	e := BodyTooLarge(limit)
	e.Message = fmt.Sprintf("The form is larger than %d bytes. Send a shorter or more compressed file.", limit)
	return e
}

// FormDoesNotFit is status 413 for a form that the disk has no room for, and not
// because of other forms.
func FormDoesNotFit() *Error {
	e := BodyTooLarge(0)
	e.Message = "The form is larger than the room that the service's disk has for it. " +
		"Send a smaller file; if it is small, tell the operator the request's id (header x-request-id)."
	return e
}

// SpoolFull says that there is no room on the disk for the form at the moment.
func SpoolFull(retryAfter time.Duration) *Error {
	e := Overloaded(retryAfter)
	e.Message = "The spool, where the service keeps large forms until they are sent on, has no room at the moment. Try again in some seconds, or with a smaller file."
	return e
}

// PreviousNotFound is the answer to a previous_response_id that cannot be
// continued: nobody knows which engine has that response, or that engine is
// gone.
func PreviousNotFound(id string) *Error {
	return &Error{
		Status: http.StatusBadRequest, Type: TypeInvalidRequest, Code: CodePreviousNotFound, Param: "previous_response_id", NoRetry: true,
		Message: fmt.Sprintf("Previous response with id %s not found: it is not stored, has expired, or its engine is gone. "+
			"Send the whole conversation as input, without previous_response_id.", echo(id)),
	}
}

// UnsupportedParam is the answer, status 400, to a field of a request that
// cannot be served as it is meant; instead says what to do, a sentence.
func UnsupportedParam(param, instead string) *Error {
	return &Error{
		Status: http.StatusBadRequest, Type: TypeInvalidRequest, Code: CodeUnsupportedParam, Param: param, NoRetry: true,
		Message: fmt.Sprintf("%q is not supported here. %s", param, instead),
	}
}

// ResponseNotFound is the answer to the id of a response that is not stored, or
// not for this caller.
func ResponseNotFound(id string) *Error {
	return &Error{
		Status: http.StatusNotFound, Type: TypeInvalidRequest, Code: CodeResponseNotFound, NoRetry: true,
		Message: fmt.Sprintf("Response with id %s not found. It is not stored, has expired, or its engine is gone.", echo(id)),
	}
}

// ResponseAway says that the engine which has a stored response cannot be asked
// at the moment.
func ResponseAway(retryAfter time.Duration) *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, Type: TypeServer, Code: CodeNoEndpoint, RetryAfter: retry(retryAfter),
		Message: "The engine that has the stored response takes no requests at the moment. " +
			"Try again shortly, or send the whole conversation as input, without previous_response_id.",
	}
}

// UnknownModel is the answer to a model that is not there, or not for this
// caller: the same text, so that names do not leak.
func UnknownModel(model string) *Error {
	return &Error{
		Status: http.StatusNotFound, Type: TypeInvalidRequest, Code: CodeModelNotFound, Param: "model", NoRetry: true,
		Message: fmt.Sprintf("The model %s does not exist or you do not have access to it. GET /v1/models lists the models you can use.", echo(model)),
	}
}

// NoEndpoint says that the model is known but no engine serves it right now.
func NoEndpoint(model string, retryAfter time.Duration) *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, Type: TypeServer, Code: CodeNoEndpoint,
		RetryAfter: retry(retryAfter),
		Message:    fmt.Sprintf("No engine serves the model %s at the moment. Try again shortly, or use another model.", echo(model)),
	}
}

// ModelLoading says that an engine is being started for the model.
func ModelLoading(model string, retryAfter time.Duration) *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, Type: TypeServer, Code: CodeModelLoading,
		RetryAfter: retry(retryAfter),
		Message:    fmt.Sprintf("The model %s is loading. Try again in a few seconds.", echo(model)),
	}
}

// Overloaded says that a bound of our own was reached, before the work began.
func Overloaded(retryAfter time.Duration) *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, Type: TypeServer, Code: CodeOverloaded,
		RetryAfter: retry(retryAfter),
		Message:    "The service has as much work as it can hold. Try again shortly, with fewer requests at once.",
	}
}

// UpstreamTimeout says that an engine did not answer in time; what names the
// part of the answer that was waited for, such as "its first token".
func UpstreamTimeout(what string) *Error {
	return &Error{
		Status: http.StatusGatewayTimeout, Type: TypeServer, Code: CodeUpstreamTimeout,
		Message: "The engine did not send " + what + " in time. Try again, with a shorter prompt or fewer tokens if it happens again.",
	}
}

// UpstreamFailed says that an engine could not be reached, broke off, or sent
// what is no answer.
func UpstreamFailed() *Error {
	return &Error{
		Status: http.StatusBadGateway, Type: TypeServer, Code: CodeUpstreamFailed,
		Message: "The engine failed before its answer was complete. Try again; if it happens again, tell the operator the request's id (header x-request-id).",
	}
}

// BodyTooLarge is status 413; limit is in bytes.
func BodyTooLarge(limit int64) *Error {
	return &Error{
		Status: http.StatusRequestEntityTooLarge, Type: TypeInvalidRequest, Code: CodeBodyTooLarge, NoRetry: true,
		Message: fmt.Sprintf("The request body is larger than %d bytes. Shorten the prompt, or send files by reference.", limit),
	}
}

// BodyTruncated says that the client sent less than it had announced.
func BodyTruncated() *Error {
	return &Error{
		Status: http.StatusBadRequest, Type: TypeInvalidRequest, Code: CodeBodyTruncated,
		Message: "The request body ended before its announced length. Send it again.",
	}
}

// BodyTimeout says that the client took too long to send its body.
func BodyTimeout() *Error {
	return &Error{
		Status: http.StatusRequestTimeout, Type: TypeInvalidRequest, Code: CodeBodyTimeout,
		Message: "The request body did not arrive in time. Send it again, on a faster connection or with less in it.",
	}
}

// HeadersTooLarge is status 431.
func HeadersTooLarge() *Error {
	return &Error{
		Status: http.StatusRequestHeaderFieldsTooLarge, Type: TypeInvalidRequest, Code: CodeHeadersTooLarge, NoRetry: true,
		Message: "The request headers are too large. Send fewer or shorter ones.",
	}
}

// UnsupportedEncoding is status 415; encoding is what the client named and
// accepted what would have been taken, such as "gzip, zstd".
func UnsupportedEncoding(encoding, accepted string) *Error {
	return &Error{
		Status: http.StatusUnsupportedMediaType, Type: TypeInvalidRequest, Code: CodeUnsupportedEncoding, NoRetry: true,
		Message: fmt.Sprintf("The content encoding %s is not supported. Use one of %s, or none.", echo(encoding), accepted),
	}
}

// CorruptEncoding says that the body does not decode as it claims to.
func CorruptEncoding(encoding string) *Error {
	return &Error{
		Status: http.StatusBadRequest, Type: TypeInvalidRequest, Code: CodeCorruptEncoding, NoRetry: true,
		Message: fmt.Sprintf("The request body is not valid %s data. Compress it again, or send it without content-encoding.", echo(encoding)),
	}
}

// NotFound is the answer to a path that is not served.
func NotFound(method, path string) *Error {
	return &Error{
		Status: http.StatusNotFound, Type: TypeInvalidRequest, Code: CodeUnknownURL, NoRetry: true,
		Message: fmt.Sprintf("There is no %s %s here. Check the base URL: it usually ends in /v1.", bare(method), bare(path)),
	}
}

// MethodNotAllowed names the methods that the path has, as in "GET, HEAD".
func MethodNotAllowed(method, allow string) *Error {
	return &Error{
		Status: http.StatusMethodNotAllowed, Type: TypeInvalidRequest, Code: CodeMethodNotAllowed, NoRetry: true, Allow: allow,
		Message: fmt.Sprintf("The method %s is not allowed here. Use %s.", bare(method), allow),
	}
}

// Internal is the answer to a fault of our own.
func Internal() *Error {
	return &Error{
		Status: http.StatusInternalServerError, Type: TypeServer, Code: CodeInternal,
		Message: "Something went wrong on our side. Try again; if it happens again, tell the operator the request's id (header x-request-id).",
	}
}

func retry(d time.Duration) time.Duration {
	return min(max(d, time.Second), MaxLoadingRetry)
}

// echo quotes a short piece of a request for an error message.
func echo(s string) string { return "'" + bare(s) + "'" }

// bare makes a piece of a request fit to be shown: short, and without keys and what
// a terminal would act on.
func bare(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, apierror.Cut(secret.Without(strings.ToValidUTF8(s, "\uFFFD")), maxEchoBytes))
}
