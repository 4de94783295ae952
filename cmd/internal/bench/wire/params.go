package wire

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Fault is damage that the engine does to an answer on request, so that tests
// can show that the generator notices it.
type Fault string

// The faults that an engine knows.
const (
	NoFault    Fault = ""
	FaultAlter Fault = "alter"  // one byte of the answer differs
	FaultLose  Fault = "lose"   // one event in the middle is left out
	FaultCut   Fault = "cut"    // the connection ends in the middle of the answer
	FaultMute  Fault = "nodone" // the stream ends properly, without its [DONE]
)

// Params is what one request asks of the engine.
type Params struct {
	// FirstDelay passes before the first byte of the answer. 0 or more; sent in
	// whole microseconds.
	FirstDelay time.Duration `json:"first_delay,omitempty"`
	// Gap lies between two events of a stream. 0 or more; whole microseconds.
	Gap time.Duration `json:"gap,omitempty"`
	// Events is the number of token events of a stream; at least 1.
	Events int `json:"events,omitempty"`
	// AnswerBytes is the least size of an unstreamed answer's body.
	AnswerBytes int `json:"answer_bytes,omitempty"`
	// Fault damages the answer; empty for none.
	Fault Fault `json:"fault,omitempty"`
}

// userPrefix begins the value of the field "user" of every request of the bench.
const userPrefix = "bench;"

// user renders p and the length and checksum of the messages as the value of
// the field "user", which gateways pass on unread.
func (p Params) user(length int, sum uint32) string {
	s := fmt.Sprintf("%sfirst=%d;gap=%d;events=%d;bytes=%d;len=%d;sum=%d", userPrefix,
		p.FirstDelay.Microseconds(), p.Gap.Microseconds(), p.Events, p.AnswerBytes, length, sum)
	if p.Fault != NoFault {
		s += ";fault=" + string(p.Fault)
	}
	return s
}

// parseUser reads what [Params.user] wrote.
func parseUser(s string) (p Params, length int, sum uint32, err error) {
	rest, ok := strings.CutPrefix(s, userPrefix)
	if !ok {
		return p, 0, 0, fmt.Errorf("wire: user %q does not begin with %q", s, userPrefix)
	}
	for field := range strings.SplitSeq(rest, ";") {
		key, value, _ := strings.Cut(field, "=")
		if key == "fault" {
			p.Fault = Fault(value)
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 {
			return p, 0, 0, fmt.Errorf("wire: user: %s=%q is not a number of 0 or more", key, value)
		}
		switch key {
		case "first":
			p.FirstDelay = time.Duration(n) * time.Microsecond
		case "gap":
			p.Gap = time.Duration(n) * time.Microsecond
		case "events":
			p.Events = int(n)
		case "bytes":
			p.AnswerBytes = int(n)
		case "len":
			length = int(n)
		case "sum":
			sum = uint32(n)
		}
	}
	return p, length, sum, nil
}
