package shared

import (
	"context"
	"crypto/sha256"
	_ "embed" // the script
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/llmgw/llmgw/auth/limit"
)

//go:embed window.lua
var windowScript string

// The modes of the script.
const (
	modeAcquire = "acquire"
	modePeek    = "peek"
	modeSettle  = "settle"
	modeRenew   = "renew"
)

// The script's reasons.
const (
	refusedByRequests    = 1
	refusedByTokens      = 2
	refusedByConcurrency = 3
)

// hold is for how long what a router says of requests under way holds. It says
// so anew three times as often, so that the requests of a router that died count
// for no longer.
const hold = 30 * time.Second

// answer is what the script says.
type answer struct {
	refused                 int64
	requests, tokens, debt  int64
	wait                    time.Duration
	resetRequests, resetTok time.Duration
	second                  int64
	inflight                int64
}

// call is one call of the script.
type call struct {
	mode    string
	subject string
	limits  limit.Limits
	tokens  int64 // estimate
	place   limit.Place
	second  int64 // of the charge
	real    int64
	undone  bool
}

// keys returns the two keys of a subject, which a cluster keeps together. The
// subject's ID is hashed: it may have any length and any bytes.
func (l *Limiter) keys(subject string) []string {
	sum := sha256.Sum256([]byte(subject))
	name := l.cfg.RedisPrefix + "limit:{" + hex.EncodeToString(sum[:16]) + "}:"
	return []string{name + "window", name + "places"}
}

func (l *Limiter) args(c *call) []any {
	undone := "0"
	if c.undone {
		undone = "1"
	}
	return []any{
		c.mode, c.limits.RequestsPerMinute, c.limits.TokensPerMinute, c.limits.Concurrency, c.tokens,
		l.deps.RouterID, c.place.Order, c.place.Inflight, hold.Milliseconds(), c.second, c.real, undone,
	}
}

// run calls the script once. Who asked may have left: what is begun is waited
// for, since it is not known otherwise whether it was done.
func (l *Limiter) run(ctx context.Context, c *call) (answer, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.cfg.RedisTimeout)
	defer cancel()
	return parse(l.script.Run(ctx, l.redis, l.keys(c.subject), l.args(c)...))
}

// runAll calls the script for many in one round trip, and returns how many were
// not done.
func (l *Limiter) runAll(ctx context.Context, calls []call) (failed int, err error) {
	for _, load := range []bool{false, true} {
		if load {
			if err := l.script.Load(ctx, l.redis).Err(); err != nil {
				return len(calls), err
			}
		}
		pipe := l.redis.Pipeline()
		cmds := make([]*redis.Cmd, len(calls))
		for i := range calls {
			cmds[i] = l.script.EvalSha(ctx, pipe, l.keys(calls[i].subject), l.args(&calls[i])...)
		}
		_, _ = pipe.Exec(ctx) // each has its own error
		var again []call
		for i, cmd := range cmds {
			switch e := cmd.Err(); {
			case e == nil:
			case !load && redis.HasErrorPrefix(e, "NOSCRIPT"):
				again = append(again, calls[i])
			default:
				failed++
				err = e
			}
		}
		if calls = again; len(calls) == 0 {
			return failed, err
		}
	}
	return failed, err
}

var errAnswer = errors.New("the script's answer is not one")

func parse(cmd *redis.Cmd) (answer, error) {
	n, err := cmd.Int64Slice()
	if err != nil {
		return answer{}, err
	}
	if len(n) != 9 {
		return answer{}, fmt.Errorf("%w: %d numbers", errAnswer, len(n))
	}
	return answer{
		refused: n[0], requests: n[1], tokens: n[2], debt: n[3], wait: micros(n[4]),
		resetRequests: micros(n[5]), resetTok: micros(n[6]), second: n[7], inflight: n[8],
	}, nil
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// rates returns what headers say.
func (a *answer) rates(now time.Time, lim limit.Limits) limit.Rates {
	r := limit.Rates{At: now}
	if n := lim.RequestsPerMinute; n > 0 {
		r.Requests = limit.Rate{Limit: n, Remaining: max(0, n-a.requests), Reset: a.resetRequests}
	}
	if n := lim.TokensPerMinute; n > 0 {
		r.Tokens = limit.Rate{Limit: n, Remaining: max(0, n-a.tokens), Reset: a.resetTok}
	}
	return r
}

// refusal returns why a request was refused, nil if it was not.
func (a *answer) refusal(now time.Time, s *limit.Subject, r limit.Request) *limit.LimitedError {
	e := &limit.LimitedError{
		Subject: s.ID, Rates: a.rates(now, s.Limits),
		// The seconds of a clock are up to one longer. SDKs wait for a minute at
		// most and take more for no advice at all.
		RetryAfter: min(a.wait, limit.Window),
	}
	switch a.refused {
	case 0:
		return nil
	case refusedByRequests:
		e.Reason, e.Limit, e.Need, e.Reset = limit.ReasonRequests, s.Limits.RequestsPerMinute, 1, a.resetRequests
	case refusedByTokens:
		e.Reason, e.Limit, e.Need, e.Remaining, e.Reset = limit.ReasonTokens, s.Limits.TokensPerMinute, r.Tokens, e.Rates.Tokens.Remaining, a.resetTok
	default:
		e.Reason, e.Limit, e.Need = limit.ReasonConcurrency, s.Limits.Concurrency, 1
	}
	return e
}

// ofOneKey reports whether an error says something of one key, not of Redis: its
// name is used by something else, or what it holds was damaged.
func ofOneKey(err error) bool {
	if errors.Is(err, errAnswer) || redis.HasErrorPrefix(err, "WRONGTYPE") {
		return true
	}
	// A fault of the script, which has none but with what it finds. Old servers
	// report what the server refuses in this form too.
	if !redis.HasErrorPrefix(err, "user_script") && !redis.HasErrorPrefix(err, "Error running script") {
		return false
	}
	for _, server := range []string{"READONLY", "OOM", "MISCONF", "NOREPLICAS", "MASTERDOWN", "NOPERM"} {
		if strings.Contains(err.Error(), server) {
			return false
		}
	}
	return true
}

// QuietDriver stops the Redis driver from writing to stderr, for the whole
// process: it has lines of its own for each failed dial. What matters is in
// Deps.Logger. For a program to call as it starts; libraries leave it alone.
func QuietDriver() { redis.SetLogger(quiet{}) }

type quiet struct{}

// Printf implements the driver's logger.
func (quiet) Printf(context.Context, string, ...any) {}
