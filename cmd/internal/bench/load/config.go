// Package load sends chat completions to what stands in front of the bench's
// fake engines, in a closed loop (so many callers, each waiting for its answer)
// or an open one (so many calls a second, come what may), and compares every
// answer byte by byte with the one that the engine sends. It talks to loopback
// addresses only.
package load

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/bench/measure"
	"github.com/llmgw/llmgw/cmd/internal/bench/wire"
)

// Shape is one kind of call.
type Shape struct {
	wire.Params
	// Stream asks for server-sent events.
	Stream bool `json:"stream,omitempty"`
	// PromptBytes is the prompt's size; at least 1.
	PromptBytes int `json:"prompt_bytes"`
	// Prompts is the number of different prompts; at least 1. Each is a session
	// of its own for a gateway that tells sessions by the field user.
	Prompts int `json:"prompts"`
}

// Config is one load. A zero Rate makes a closed loop.
type Config struct {
	// Addrs are loopback addresses (host:port); callers are spread over them.
	Addrs []string `json:"addrs"`
	// Mix are the kinds of call; each call draws one.
	Mix []Shape `json:"mix"`
	// Key is sent as a bearer token; empty: none.
	Key string `json:"key,omitempty"`
	// Callers is the number of connections, at least 1: in a closed loop also
	// that of calls under way, in an open loop their limit.
	Callers int `json:"callers"`
	// Rate is the open loop's calls a second, as a Poisson process.
	Rate float64 `json:"rate,omitempty"`
	// HangUpRatio is the share of streams, in [0,1], that the caller leaves in
	// the middle by closing its connection.
	HangUpRatio float64 `json:"hang_up_ratio,omitempty"`
	// Warmup comes before Window; only answers that end within Window count for
	// rates and times, all answers for whole and failed.
	Warmup time.Duration `json:"warmup"`
	Window time.Duration `json:"window"` // 1 ms to 1 h
	// Timeout is the longest that one answer may take.
	Timeout time.Duration `json:"timeout"`
}

// Validate returns every problem of c, joined.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("load: "+format, args...)) }
	if len(c.Addrs) == 0 {
		bad("no address")
	}
	for _, a := range c.Addrs {
		host, _, err := net.SplitHostPort(a)
		if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
			bad("%s is no loopback address with a port", a)
		}
	}
	if len(c.Mix) == 0 {
		bad("no shape of call")
	}
	for i, s := range c.Mix {
		if s.PromptBytes < 1 || s.Prompts < 1 || s.Stream && s.Events < 1 {
			bad("shape %d: prompt bytes, prompts and a stream's events must be at least 1", i)
		}
	}
	if c.Callers < 1 {
		bad("%d callers; at least 1", c.Callers)
	}
	if c.Rate < 0 || c.HangUpRatio < 0 || c.HangUpRatio > 1 || c.Warmup < 0 {
		bad("a negative rate or warm-up, or a hang-up ratio outside [0,1]")
	}
	if c.Window < time.Millisecond || c.Window > time.Hour {
		bad("window of %s; 1ms to 1h", c.Window)
	}
	if c.Timeout <= 0 {
		bad("timeout of %s; must be positive", c.Timeout)
	}
	return errors.Join(errs...)
}

// Failure is the reason why an answer was not whole.
type Failure string

// The failures. A status other than 200 is "status 503" and so on.
const (
	Altered   Failure = "altered"   // complete, but not the engine's bytes
	Lost      Failure = "lost"      // a stream that ended properly with events missing
	NoDone    Failure = "no [DONE]" // a stream that ended properly without its last event
	Cut       Failure = "cut"       // the connection ended inside the answer
	NoAnswer  Failure = "no answer" // the connection ended before the answer
	Timeout   Failure = "timeout"
	Refused   Failure = "refused" // no connection
	Malformed Failure = "malformed"
)

// Result is what a load saw.
type Result struct {
	Config Config `json:"config"`
	// Whole counts all answers that were complete and unaltered; Window those
	// of them that ended within the window.
	Whole  int64 `json:"whole"`
	Window int64 `json:"window"`
	// Events counts the token events of the window's streams.
	Events int64 `json:"events"`
	// Failed counts the others by reason.
	Failed map[Failure]int64 `json:"failed,omitempty"`
	// HungUp counts the streams that the caller left on purpose.
	HungUp int64 `json:"hung_up,omitempty"`
	// Redials counts kept connections that turned out closed when the next call
	// was sent, or were closed behind an answer; the call then went over a new one.
	Redials int64 `json:"redials,omitempty"`
	// Unsent counts calls of an open loop that found thousands waiting.
	Unsent int64 `json:"unsent,omitempty"`

	Latency    measure.Summary `json:"latency"`     // call sent to answer complete
	FirstEvent measure.Summary `json:"first_event"` // call sent to first token event
	Gap        measure.Summary `json:"gap"`         // between a stream's token events
	Lag        measure.Summary `json:"lag"`         // open loop: call due to call sent
	CPUSeconds float64         `json:"cpu_s"`       // of this process, while the load ran
}

// AnswersPerSecond is the rate within the window.
func (r *Result) AnswersPerSecond() float64 { return float64(r.Window) / r.Config.Window.Seconds() }

// FailedTotal is the number of answers that were not whole.
func (r *Result) FailedTotal() int64 {
	var n int64
	for _, k := range r.Failed {
		n += k
	}
	return n
}
