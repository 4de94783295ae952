package generate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// Kind says in which way a request failed. The values are stable: they stand in
// the report.
type Kind string

// The kinds of failure.
const (
	KindDNS            Kind = "dns"              // the host's name has no address
	KindDial           Kind = "dial"             // no connection
	KindTLS            Kind = "tls"              // no secure connection
	KindTimeoutDial    Kind = "timeout_dial"     // the time was over before there was a connection
	KindTimeoutHead    Kind = "timeout_head"     // … before the answer's head
	KindTimeoutContent Kind = "timeout_content"  // … between the head and the first content
	KindTimeoutAnswer  Kind = "timeout_answer"   // … between the first content and the end
	KindReset          Kind = "reset"            // the connection ended before the answer's head
	KindCut            Kind = "cut"              // the connection ended inside the answer
	KindProtocol       Kind = "protocol"         // what came is no HTTP
	KindStatus         Kind = "status"           // a status other than 200; RequestError has it
	KindHTML           Kind = "html"             // status 200 with a page
	KindNotJSON        Kind = "not_json"         // an unstreamed answer that is no JSON object
	KindNotStream      Kind = "not_a_stream"     // a document where a stream was asked for
	KindBadEvent       Kind = "bad_event"        // an event that is neither JSON nor [DONE]
	KindErrorEvent     Kind = "error_event"      // an error inside a stream, or in a document with status 200
	KindEmpty          Kind = "empty"            // ended properly without any content
	KindNoDone         Kind = "no_done"          // a stream that ended properly without [DONE]
	KindNoFinish       Kind = "no_finish_reason" // ended without a finish_reason
	KindWrongLength    Kind = "wrong_length"     // other than the number of tokens asked for
	KindTooLong        Kind = "too_long"         // more bytes or events than are read of an answer
	KindBadUsage       Kind = "bad_usage"        // a usage with counts that cannot be
	KindOther          Kind = "other"            // none of the above
)

const (
	maxMessageBytes   = 300      // of a RequestError
	maxErrorBodyBytes = 64 << 10 // that are read of an answer that is not 200

	contentTypeHTML   = "text/html"
	contentTypeStream = "text/event-stream"
)

// RequestError is the error of a request that did not end as it should.
type RequestError struct {
	Kind    Kind
	Status  int    // of HTTP, with KindStatus
	Code    string // the code, else the type, that the answer's error names; "" if none
	Message string // what was seen, for people; at most some 300 bytes
	Err     error  // the cause; nil if the answer itself is at fault
}

// Error says what failed.
func (f *RequestError) Error() string {
	s := string(f.Kind)
	if f.Status != 0 {
		s += " " + strconv.Itoa(f.Status)
	}
	if f.Code != "" {
		s += " " + f.Code
	}
	if f.Message != "" {
		s += ": " + f.Message
	}
	return s
}

// Unwrap returns the cause.
func (f *RequestError) Unwrap() error { return f.Err }

// phase is how far a request came.
type phase int32

const (
	phaseDial phase = iota
	phaseHead
	phaseContent
	phaseAnswer
)

// progressed is a phase that callbacks of net/http move on.
type progressed struct{ v atomic.Int32 }

func (p *progressed) to(next phase) { p.v.Store(int32(next)) }
func (p *progressed) now() phase    { return phase(p.v.Load()) }

// failure names an error of the transport that ended a request in a phase.
func failure(err error, at phase) *RequestError {
	message := err.Error()
	if outer, ok := errors.AsType[*url.Error](err); ok {
		message = outer.Err.Error() // the method and URL are always the same
	}
	return &RequestError{Kind: kindOf(err, at), Message: cut(message), Err: err}
}

func kindOf(err error, at phase) Kind {
	deadline := errors.Is(err, context.DeadlineExceeded)
	switch {
	case is[*net.DNSError](err) && !deadline: // a resolver may give up by itself
		return KindDNS
	// The deadline first: it shows as an error of whatever it interrupted.
	case deadline || timedOut(err):
		return [...]Kind{KindTimeoutDial, KindTimeoutHead, KindTimeoutContent, KindTimeoutAnswer}[at]
	case isTLS(err):
		return KindTLS
	case at == phaseDial:
		return KindDial
	// net/http has no value for it.
	case errors.Is(err, errTooLong), strings.Contains(err.Error(), "response headers exceeded"):
		return KindTooLong
	case errors.Is(err, errBadEvent):
		return KindBadEvent
	case ended(err) && at == phaseHead:
		return KindReset
	case ended(err):
		return KindCut
	case at == phaseHead && strings.Contains(err.Error(), "malformed HTTP"), at > phaseHead && !is[net.Error](err):
		return KindProtocol
	}
	return KindOther
}

func timedOut(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// ended is whether err is how a connection's end looks to its reader or writer.
func ended(err error) bool {
	for _, target := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, net.ErrClosed} {
		if errors.Is(err, target) {
			return true
		}
	}
	// net/http has no value for it.
	return strings.Contains(err.Error(), "server closed idle connection")
}

func isTLS(err error) bool {
	return errors.Is(err, http.ErrSchemeMismatch) || is[*tls.CertificateVerificationError](err) || is[tls.RecordHeaderError](err) ||
		is[tls.AlertError](err) || is[x509.UnknownAuthorityError](err) || is[x509.HostnameError](err) ||
		is[x509.CertificateInvalidError](err)
}

func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

// refused is the failure of an answer whose status is not 200.
func refused(status int, contentType string, body []byte) *RequestError {
	f := &RequestError{Kind: KindStatus, Status: status}
	f.Code, f.Message = apiError(body)
	if f.Code == "" && isHTML(contentType, body) {
		f.Code = "html"
	}
	if f.Message == "" {
		f.Message = cut(strings.TrimSpace(string(body)))
	}
	return f
}

// apiError reads the usual shapes of an error: OpenAI's {"error": {…}}, SGLang's
// flat one, {"error": "…"} and FastAPI's {"detail": …}.
func apiError(body []byte) (code, message string) {
	type fields struct {
		Code    json.RawMessage `json:"code"`
		Type    string          `json:"type"`
		Message string          `json:"message"`
	}
	var doc struct {
		fields
		Error  json.RawMessage `json:"error"`
		Detail json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &doc) != nil {
		return "", ""
	}
	f := doc.fields
	if len(doc.Error) > 0 {
		var text string
		if json.Unmarshal(doc.Error, &text) == nil {
			f.Message = text
		} else {
			_ = json.Unmarshal(doc.Error, &f) // what it cannot read stays empty
		}
	} else if f.Message == "" && len(doc.Detail) > 0 {
		f.Message = strings.Trim(string(doc.Detail), `"`)
	}
	// A code may be a number; vLLM repeats the status there, and its type says
	// more.
	code = strings.Trim(string(f.Code), `"`)
	if _, err := strconv.Atoi(code); code == "null" || err == nil && f.Type != "" {
		code = ""
	}
	if code == "" {
		code = f.Type
	}
	return oneLine(code, 64), cut(f.Message)
}

func isHTML(contentType string, body []byte) bool {
	if strings.HasPrefix(strings.ToLower(contentType), contentTypeHTML) {
		return true
	}
	start := strings.ToLower(strings.TrimSpace(string(body[:min(len(body), 64)])))
	return strings.HasPrefix(start, "<!doctype") || strings.HasPrefix(start, "<html")
}

// cut bounds what a stranger wrote.
func cut(s string) string { return oneLine(s, maxMessageBytes) }

// oneLine bounds s and keeps it, and a terminal that shows it, in order.
func oneLine(s string, most int) string {
	short := s[:min(len(s), most)]
	short = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0xfffd {
			return ' '
		}
		return r
	}, short)
	if len(short) < len(s) && len(s) > most {
		short += "…"
	}
	return short
}
