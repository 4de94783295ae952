package router

import (
	"net/http"
	"strconv"
	"time"

	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/proxy"
)

// verdict is what an attempt's end says of its endpoint and of the request.
type verdict struct {
	blame blame
	wait  time.Duration // for blameCool; 0: the endpoint's own cooldown
	retry bool          // another endpoint may do better
}

// blame is what the endpoint's breaker is told.
type blame uint8

const (
	blameNobody blame = iota
	blameNone         // the engine works
	blameFail         // it does not
	blameCool         // it wants time
)

// judgeStatus judges the head of an answer. Mistakes of a client are no failure
// of an engine; 429, and 503 with Retry-After, are load. secret says that the
// request carried a secret of ours, which makes a 401 or 403 a disagreement
// between us and the engine and no fault of the client.
func judgeStatus(status int, retryAfter string, secret bool, now time.Time) verdict {
	switch {
	case status == http.StatusTooManyRequests:
		return verdict{blameCool, min(parseRetryAfter(retryAfter, now), endpoint.MaxCooldown), true}
	case status == http.StatusServiceUnavailable && retryAfter != "":
		return verdict{blameCool, min(parseRetryAfter(retryAfter, now), endpoint.MaxCooldown), true}
	case secret && (status == http.StatusUnauthorized || status == http.StatusForbidden):
		return verdict{blameCool, 0, true}
	case status == http.StatusNotImplemented:
		// The engine was not started for what is asked: llama-server says so to
		// whoever wants embeddings of a chat model. Another one may have been.
		return verdict{blameNone, 0, true}
	case status >= 500:
		return verdict{blameFail, 0, true}
	case status >= 300 && status < 400:
		return verdict{blameFail, 0, true} // engines do not redirect; something else answers there
	}
	return verdict{blame: blameNone}
}

// judgeEvent judges an error event that stands for a status. Its engine is up and
// talks, so that "unavailable" means load, even without a time to wait.
func judgeEvent(status int, secret bool, now time.Time) verdict {
	if status == http.StatusServiceUnavailable || status == statusOverloaded {
		return verdict{blameCool, 0, true}
	}
	return judgeStatus(status, "", secret, now)
}

// statusOverloaded is what Anthropic's API answers when it has too much to do.
const statusOverloaded = 529

// judgeError judges an exchange that failed before a byte went to the client.
func judgeError(k proxy.Kind) verdict {
	switch k {
	case proxy.KindCanceled, proxy.KindClient:
		return verdict{}
	case proxy.KindTotalTimeout:
		return verdict{blame: blameFail}
	case proxy.KindBody: // ours is the fault, and may be of the moment
		return verdict{retry: true}
	case proxy.KindStranger: // nobody failed: who was meant is elsewhere
		return verdict{blameCool, 0, true}
	}
	return verdict{blameFail, 0, true}
}

// tell passes the verdict on to the endpoint.
func (v verdict) tell(e *endpoint.Endpoint, now time.Time) {
	switch v.blame {
	case blameNone:
		e.Succeeded(now)
	case blameFail:
		e.Failed(now)
	case blameCool:
		e.CoolDown(now, v.wait)
	}
}

// parseRetryAfter reads seconds or an HTTP date; 0 if it is neither, or in the
// past.
func parseRetryAfter(s string, now time.Time) time.Duration {
	if s == "" {
		return 0
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		if f > 0 && f < 1e9 {
			return time.Duration(f * float64(time.Second))
		}
		return 0
	}
	if t, err := http.ParseTime(s); err == nil {
		return max(t.Sub(now), 0)
	}
	return 0
}
