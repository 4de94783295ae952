package auth

import (
	"errors"
	"net/http"
	"strconv"
	"time"
)

// What becomes of a request without an Identity. [*RefusedError] wraps one.
var (
	// ErrMissing says that there is no key. 401.
	ErrMissing = errors.New("auth: no key")
	// ErrMalformed says that what came as a key cannot be one of ours: cut short,
	// mistyped, or of another service. 401.
	ErrMalformed = errors.New("auth: malformed key")
	// ErrUnknown says that the key opens nothing: never made, expired or revoked, or
	// its account is suspended, which a client cannot tell apart. 401.
	ErrUnknown = errors.New("auth: unknown key")
	// ErrConflicting says that there are several keys, and not the same. 400.
	ErrConflicting = errors.New("auth: conflicting keys")
	// ErrInURL says that a key stands in the URL. 400.
	ErrInURL = errors.New("auth: key in the URL")
	// ErrUnavailable says that the key is not known here and cannot be looked up
	// now. It says nothing of the key. 503.
	ErrUnavailable = errors.New("auth: keys cannot be looked up now")
)

// Reason is why a request was refused. Its String is a metric label.
type Reason uint8

// The reasons.
const (
	ReasonUnset       Reason = iota
	ReasonMissing            // ErrMissing, 401
	ReasonMalformed          // ErrMalformed, 401
	ReasonUnknown            // ErrUnknown, 401: the store has no such key
	ReasonExpired            // ErrUnknown, 401: it has ended by itself
	ReasonRevoked            // ErrUnknown, 401: it was ended
	ReasonSuspended          // ErrUnknown, 401: its account may do nothing now
	ReasonConflicting        // ErrConflicting, 400
	ReasonInURL              // ErrInURL, 400
	ReasonUnavailable        // ErrUnavailable, 503: the store does not answer
	ReasonBusy               // ErrUnavailable, 503: too many unknown keys wait to be looked up
	ReasonCanceled           // ErrUnavailable; the client has left, so no status
	reasons
)

var reasonNames = [reasons]string{ //nolint:gochecknoglobals // constant table
	"unset", "missing", "malformed", "unknown", "expired", "revoked", "suspended", "conflicting", "in_url", "unavailable", "busy", "canceled",
}

// String returns the reason as metrics show it.
func (r Reason) String() string {
	if r < reasons {
		return reasonNames[r]
	}
	return "unset"
}

// RefusedError is why a request has no Identity. It is one of the sentinels
// above. What a client may see of it is Status, Message and RetryAfter: they are
// the same for keys that were never made, have expired or were revoked, or whose
// account is suspended. Nothing in it repeats a key.
type RefusedError struct {
	// Reason says why, for the operator.
	Reason Reason
	// KeyID is the ID of a key that expired or was revoked or suspended; else empty. For the
	// operator.
	KeyID string
	// Cause is what the store said, or the end of the request's context; else nil.
	// For the operator.
	Cause error
}

// Error returns the sentinel's text.
func (e *RefusedError) Error() string { return e.sentinel().Error() }

// Unwrap returns the sentinel and the cause.
func (e *RefusedError) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.sentinel()}
	}
	return []error{e.sentinel(), e.Cause}
}

func (e *RefusedError) sentinel() error {
	switch e.Reason {
	case ReasonMissing:
		return ErrMissing
	case ReasonMalformed:
		return ErrMalformed
	case ReasonUnknown, ReasonExpired, ReasonRevoked, ReasonSuspended:
		return ErrUnknown
	case ReasonConflicting:
		return ErrConflicting
	case ReasonInURL:
		return ErrInURL
	default:
		return ErrUnavailable
	}
}

// Status returns the HTTP status for the client: 400, 401 or 503.
func (e *RefusedError) Status() int {
	switch e.Reason {
	case ReasonConflicting, ReasonInURL:
		return http.StatusBadRequest
	case ReasonMissing, ReasonMalformed, ReasonUnknown, ReasonExpired, ReasonRevoked, ReasonSuspended:
		return http.StatusUnauthorized
	default:
		return http.StatusServiceUnavailable
	}
}

// RetryAfter returns when the client may come again; 0 if that would not help.
func (e *RefusedError) RetryAfter() time.Duration {
	if e.Status() == http.StatusServiceUnavailable {
		return storeRetry
	}
	return 0
}

// Message returns what the client is told.
func (e *RefusedError) Message() string {
	switch e.Reason {
	case ReasonMissing:
		return "An API key is needed and none came. Send it in the header Authorization, after \"Bearer \", or in x-api-key or api-key. " +
			"Whoever runs this server makes keys, with llmgw keys create."
	case ReasonMalformed:
		return "What came as API key cannot be one of this server. Its keys begin with " + keyPrefix +
			" and have " + strconv.Itoa(keyChars) + " characters. Look whether it was cut short, has a typo, or belongs to another service."
	case ReasonUnknown, ReasonExpired, ReasonRevoked, ReasonSuspended:
		return "The API key is not known here, or not valid any more. Ask whoever gave it to you for another one."
	case ReasonConflicting:
		return "The headers Authorization, x-api-key and api-key hold different API keys. Send one key, in one of them."
	case ReasonInURL:
		return "An API key must not stand in the URL, where logs, proxies and browsers keep it. Have that key revoked, " +
			"and send a new one in the header Authorization, after \"Bearer \"."
	default:
		return "The API key cannot be looked up at the moment. Try again shortly."
	}
}
