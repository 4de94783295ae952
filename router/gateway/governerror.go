package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/limit"
	"github.com/llmgw/llmgw/router/openai"
)

// The codes of what keys' limits refuse, beside openai.CodeRateLimitExceeded.
const (
	codeInsufficientQuota = "insufficient_quota" // also the type, as OpenAI has it
	codeBoundRequired     = "max_tokens_required"
	codeBudgetUnavailable = "budget_unavailable"
	codeKeysUnavailable   = "keys_unavailable"
)

// authRefusal is what a client gets whose key opens nothing. It repeats no key.
func authRefusal(err *auth.RefusedError) *openai.Error {
	switch err.Status() {
	case http.StatusUnauthorized:
		return openai.Unauthorized(err.Message())
	case http.StatusBadRequest:
		return &openai.Error{
			Status: http.StatusBadRequest, Type: openai.TypeInvalidRequest, Code: openai.CodeInvalidAPIKey, NoRetry: true, Message: err.Message(),
		}
	default:
		return &openai.Error{
			Status: http.StatusServiceUnavailable, Type: openai.TypeServer, Code: codeKeysUnavailable,
			RetryAfter: max(err.RetryAfter(), time.Second), Message: err.Message(),
		}
	}
}

// limitRefusal is what a client gets that its key's limits refuse; errors of
// another kind are returned as they are.
func limitRefusal(err error, anthropic bool) error {
	if limited, ok := errors.AsType[*limit.LimitedError](err); ok {
		return &limitedError{shown(limited), limited.Rates, anthropic}
	}
	if errors.Is(err, limit.ErrUnavailable) {
		return &openai.Error{
			Status: http.StatusServiceUnavailable, Type: openai.TypeServer, Code: codeBudgetUnavailable, RetryAfter: time.Second,
			Message: "What is left of your key's budget cannot be looked up at the moment. Try again shortly.",
		}
	}
	return err
}

// limitedError is a refusal with the headers that tell where limits stand.
type limitedError struct {
	told      *openai.Error
	rates     limit.Rates
	anthropic bool
}

// Error returns what the client is told.
func (e *limitedError) Error() string { return e.told.Error() }

// Unwrap returns what the client gets.
func (e *limitedError) Unwrap() error { return e.told }

// AnswerHeader implements [router.Headers].
func (e *limitedError) AnswerHeader(h http.Header) { rateHeaders(h, e.rates, e.anthropic) }

// rateHeaders says where the limits of a key stand, in the words of the API that
// its client speaks.
func rateHeaders(h http.Header, r limit.Rates, anthropic bool) {
	if anthropic {
		r.Anthropic(h)
	} else {
		r.OpenAI(h)
	}
}

// shown is a refusal in words for the client.
func shown(e *limit.LimitedError) *openai.Error {
	out := &openai.Error{
		Status: http.StatusTooManyRequests, Type: openai.TypeRateLimit, Code: openai.CodeRateLimitExceeded,
		RetryAfter: max(e.RetryAfter, time.Millisecond), NoRetry: !e.Reason.Retriable(),
	}
	wait := e.RetryAfter.Round(time.Millisecond)
	switch e.Reason {
	case limit.ReasonRequests:
		out.Message = fmt.Sprintf("Your key may send %s a minute, and has. Try again in %v.", requests(e.Limit), wait)
	case limit.ReasonTokens:
		out.Message = fmt.Sprintf("Your key may use %d tokens a minute and has %d left; this request may take %d. Try again in %v, or set max_tokens, or a smaller one.",
			e.Limit, e.Remaining, e.Need, wait)
	case limit.ReasonConcurrency:
		out.Message = fmt.Sprintf("Your key may have %s under way, and has. Send the next one when one has ended.", requests(e.Limit))
	case limit.ReasonTooLarge:
		out.Message = fmt.Sprintf("This request may take %d tokens, and your key may use %d in a whole minute. Send a shorter prompt, or set max_tokens, or a smaller one.",
			e.Need, e.Limit)
	case limit.ReasonBudgetHeld:
		out.Message = "What is left of your key's budget is held for its requests under way. Send this one again when one of them has ended."
	case limit.ReasonBudget:
		out.Type, out.Code = codeInsufficientQuota, codeInsufficientQuota
		out.Message = budgetMessage(e)
	default:
		out.Message = "Your key has reached a limit. Try again later."
	}
	return out
}

func requests(n int64) string {
	if n == 1 {
		return "1 request"
	}
	return fmt.Sprintf("%d requests", n)
}

// budgetMessage says how far a request is from what its budget covers. What is
// left of it is known to all routers together only.
func budgetMessage(e *limit.LimitedError) string {
	left, anew := "more than is left", ""
	if e.Need > e.Limit {
		left = "more than all"
	} else if e.Reset > 0 {
		anew = fmt.Sprintf(" It begins anew in %v.", max(e.Reset.Round(time.Minute), time.Minute))
	}
	return fmt.Sprintf("This request may cost up to %s, %s of your key's budget of %s. Set max_tokens, or a smaller one, or ask whoever gave you the key for a larger budget.%s",
		auth.FormatAmount(e.Need), left, auth.FormatAmount(e.Limit), anew)
}

// unbounded refuses a request of a key with a budget of which nobody knows what it
// may cost at most.
func unbounded(model string) error {
	return &openai.Error{
		Status: http.StatusBadRequest, Type: openai.TypeInvalidRequest, Code: codeBoundRequired, Param: "max_tokens", NoRetry: true,
		Message: fmt.Sprintf("Your key has a budget, and how long an answer of %s can get is not known here. Set max_tokens.", model),
	}
}
