package gateway

import (
	"testing"
	"time"

	"github.com/llmgw/llmgw/auth/limit"
)

// What a client is told of a limit has its numbers, and what helps.
func TestShown(t *testing.T) {
	for _, test := range []struct {
		err  limit.LimitedError
		want string
	}{
		{
			limit.LimitedError{Reason: limit.ReasonRequests, Limit: 1, RetryAfter: 1500 * time.Millisecond},
			"Your key may send 1 request a minute, and has. Try again in 1.5s.",
		},
		{
			limit.LimitedError{Reason: limit.ReasonConcurrency, Limit: 2, RetryAfter: time.Second},
			"Your key may have 2 requests under way, and has. Send the next one when one has ended.",
		},
		{
			limit.LimitedError{Reason: limit.ReasonBudget, Limit: 5_000_000_000, Need: 1_638_400_000, Reset: 90*time.Minute + time.Second},
			"This request may cost up to 1.6384, more than is left of your key's budget of 5.00. Set max_tokens, or a smaller one, " +
				"or ask whoever gave you the key for a larger budget. It begins anew in 1h30m0s.",
		},
		{
			limit.LimitedError{Reason: limit.ReasonBudget, Limit: 1_000_000_000, Need: 1_638_400_000, Reset: time.Hour},
			"This request may cost up to 1.6384, more than all of your key's budget of 1.00. Set max_tokens, or a smaller one, " +
				"or ask whoever gave you the key for a larger budget.",
		},
	} {
		if got := shown(&test.err); got.Message != test.want {
			t.Errorf("got %q\nwant %q", got.Message, test.want)
		}
	}
}
