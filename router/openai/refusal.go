package openai

import (
	"cmp"
	"net/http"
	"time"
)

// Unauthorized is status 401, code invalid_api_key, for a caller who is not
// known. The message says what the caller can do; empty is one that names the
// header. It must not repeat the key. Clients are told not to try again.
func Unauthorized(message string) *Error {
	return &Error{
		Status: http.StatusUnauthorized, Type: TypeInvalidRequest, Code: CodeInvalidAPIKey, NoRetry: true,
		Message: cmp.Or(message, "The API key is missing or not known. Send a known one in the header Authorization, after \"Bearer \"."),
	}
}

// RateLimited is status 429, code rate_limit_exceeded, for a caller who has
// reached a limit that time lifts. The message says which one; empty is one
// that does not. Clients are told to come again after retryAfter, which is at
// least a second. OpenAI's SDKs do so by themselves, but sooner where it is long
// (see MaxLoadingRetry). For a limit that waiting does not lift, such as a
// budget that is spent, set NoRetry in what it returns.
func RateLimited(retryAfter time.Duration, message string) *Error {
	return &Error{
		Status: http.StatusTooManyRequests, Type: TypeRateLimit, Code: CodeRateLimitExceeded, RetryAfter: max(retryAfter, time.Second),
		Message: cmp.Or(message, "Too many requests or tokens in too short a time. Try again later, with fewer at once."),
	}
}
