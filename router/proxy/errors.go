package proxy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
)

// Kind says what ended an exchange. Its String is a metric label.
type Kind uint8

// The kinds of failure. Those up to KindProtocol, and KindStranger, can happen before a byte has
// gone to the client, when another engine may be tried.
const (
	_ Kind = iota
	// KindDial: no connection could be opened. 502.
	KindDial
	// KindLost: a fresh connection broke before any byte of an answer. 502.
	KindLost
	// KindHeaderTimeout: no head within Timeouts.ResponseHeader. 504.
	KindHeaderTimeout
	// KindFirstTokenTimeout: no content within Timeouts.FirstToken. 504.
	KindFirstTokenTimeout
	// KindIdleTimeout: silence longer than Timeouts.Idle within an answer. 504.
	KindIdleTimeout
	// KindTotalTimeout: the request outlived Timeouts.Total. 504.
	KindTotalTimeout
	// KindCut: the answer ended before its end. 502.
	KindCut
	// KindProtocol: the answer's framing is not HTTP/1.1, or is ambiguous. 502.
	KindProtocol
	// KindCanceled: the caller's context ended, as it does when the client
	// leaves. 499.
	KindCanceled
	// KindClient: the client took no bytes for Config.ClientWrite, or its
	// connection broke while an answer was written. 499.
	KindClient
	// KindBody: the request's own body could not be read (Request.Open). It can
	// happen before a byte has gone to the client, too. 503.
	KindBody
	// KindRefused: the answer says itself that it is none (Tap.Err). What the
	// client gets is the caller's.
	KindRefused
	// KindStranger: what answers at the address is not the engine that was meant
	// (Identify.Check). Another engine may be tried. 502.
	KindStranger
)

var kindNames = [...]string{
	"unset", "dial", "lost", "header_timeout", "first_token_timeout", "idle_timeout", "total_timeout",
	"cut", "protocol", "canceled", "client", "body", "refused", "stranger",
}

// String returns the kind's name as metrics and logs show it.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// Timeout reports whether one of the deadlines of Timeouts ended the exchange.
func (k Kind) Timeout() bool {
	switch k {
	case KindHeaderTimeout, KindFirstTokenTimeout, KindIdleTimeout, KindTotalTimeout:
		return true
	}
	return false
}

// Error is why an exchange failed. It never holds bytes of a request or an
// answer.
type Error struct {
	Kind   Kind
	Target string // the engine's host and port
	Err    error  // the cause
}

func (e *Error) Error() string {
	return fmt.Sprintf("proxy: engine %s: %s: %v", e.Target, e.Kind, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Causes of a KindProtocol error.
var (
	errStatusLine  = errors.New("not an HTTP/1.x status line")
	errHeadTooLong = errors.New("the answer's head is longer than 64 KiB")
	errHeaderLine  = errors.New("a header line without a valid name")
	errObsFold     = errors.New("a folded header line")
	errTEAndCL     = errors.New("Transfer-Encoding and Content-Length together")
	errTwoLengths  = errors.New("more than one Content-Length")
	errLength      = errors.New("a Content-Length that is no number")
	errTE          = errors.New("a Transfer-Encoding other than one chunked")
	errUpgrade     = errors.New("101 Switching Protocols, which nobody asked for")
	errChunk       = errors.New("a malformed chunk")
	errTooMany1xx  = errors.New("more than 16 interim answers")
	errEncoding    = errors.New("a content coding that does not decode")
)

var (
	errClosed   = errors.New("the engine closed the connection")
	errShort    = errors.New("the engine closed the connection within the answer")
	errNothing  = errors.New("the answer ended with nothing in it")
	errDeadline = errors.New("the deadline passed")
)

func isTimeout(err error) bool {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}

// eofIs names a bare io.EOF for people.
func eofIs(err, named error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return named
	}
	return err
}
