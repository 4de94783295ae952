package shared

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/llmgw/llmgw/auth/limit"
)

// young knows until when Redis may not have seen all of a window: it was started
// less than one ago, and what it had before it may have forgotten. Who has used
// up a limit by then, by Redis and by the routers while it was away, would use it
// up a third time by a Redis that knows of neither. So each router keeps its part
// until then, beside what Redis says.
type young struct {
	until atomic.Pointer[time.Time] // nil: it is not known to be young
}

// at reports whether Redis is young.
func (y *young) at(now time.Time) bool {
	until := y.until.Load()
	return until != nil && now.Before(*until)
}

// greet asks Redis, on a new connection, for how long it has run. Whoever speaks
// with a Redis that was started anew has connected anew.
func (l *Limiter) greet(ctx context.Context, c *redis.Conn) error {
	info, err := c.Info(ctx, "server").Result()
	if _, said := errors.AsType[redis.Error](err); said {
		return nil //nolint:nilerr // it may not be asked: then what it forgets passes once more
	}
	if err != nil {
		return err
	}
	ran, ok := uptime(info)
	if !ok || ran > limit.Window {
		return nil
	}
	// Both clocks may round, and windows last up to a second longer.
	until := time.Now().Add(limit.Window + 2*time.Second - ran)
	if before := l.young.until.Swap(&until); before == nil || time.Until(*before) <= 0 {
		l.log.Info("redis was started less than a minute ago and may have forgotten what passed; until it has seen a minute each router also keeps its part of the rates",
			"started_ago", ran, "routers", l.live.Load())
	}
	return nil
}

// stricter returns of each rate the one that has less left.
func stricter(a, b limit.Rates) limit.Rates {
	if b.Requests.Remaining < a.Requests.Remaining {
		a.Requests = b.Requests
	}
	if b.Tokens.Remaining < a.Tokens.Remaining {
		a.Tokens = b.Tokens
	}
	return a
}

// uptime reads for how long a server has run from what it says of itself.
func uptime(info string) (time.Duration, bool) {
	_, rest, ok := strings.Cut(info, "uptime_in_seconds:")
	if !ok {
		return 0, false
	}
	text, _, _ := strings.Cut(rest, "\r")
	n, err := strconv.ParseInt(text, 10, 32)
	return time.Duration(n) * time.Second, err == nil && n >= 0
}
