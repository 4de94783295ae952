package load

import (
	"bytes"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/bench/wire"
)

// check follows one answer and compares it with the expected bytes while it
// comes, so that a good answer is never stored.
type check struct {
	want   wire.Answer
	pos    int    // bytes that agreed
	event  int    // events complete
	wrong  []byte // everything from the first difference on
	differ bool

	sent  time.Time
	first time.Duration // 0: not yet
	last  time.Time
	gaps  []time.Duration // between token events
}

// start makes c ready for an answer to a call sent at now.
func (c *check) start(want wire.Answer, now time.Time) {
	*c = check{want: want, sent: now, wrong: c.wrong[:0], gaps: c.gaps[:0]}
}

// feed takes the next piece of the body, which arrived at now.
func (c *check) feed(piece []byte, now time.Time) {
	if !c.differ && bytes.HasPrefix(c.want.Body[c.pos:], piece) {
		c.pos += len(piece)
		if c.want.Ends == nil {
			c.arrive(now)
			return
		}
		for c.event < len(c.want.Ends) && c.want.Ends[c.event] <= c.pos {
			c.event++
			// The role comes before the first token, [DONE] behind the last.
			if c.event > 1 && c.event < len(c.want.Ends) {
				c.arrive(now)
			}
		}
		return
	}
	c.differ = true
	c.wrong = append(c.wrong, piece...)
}

// arrive notes the time of a token event, or of an unstreamed body's piece.
func (c *check) arrive(now time.Time) {
	switch {
	case c.first == 0:
		c.first = max(now.Sub(c.sent), 1)
	case c.want.Ends != nil:
		c.gaps = append(c.gaps, now.Sub(c.last))
	}
	c.last = now
}

// tokens is the number of token events that came.
func (c *check) tokens() int {
	if c.want.Ends == nil {
		return 0
	}
	return max(min(c.event, len(c.want.Ends)-1)-1, 0)
}

// verdict says what is wrong with an answer that ended properly; empty when
// every byte is right.
func (c *check) verdict() Failure {
	if !c.differ && c.pos == len(c.want.Body) {
		return ""
	}
	if c.want.Ends == nil {
		return Altered
	}
	got := append(bytes.Clone(c.want.Body[:c.pos]), c.wrong...)
	switch {
	case !bytes.Contains(got, []byte("data: [DONE]")):
		return NoDone
	case bytes.Count(got, []byte("data:")) < len(c.want.Ends):
		return Lost
	}
	return Altered
}
