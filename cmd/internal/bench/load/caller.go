package load

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/bench/wire"
)

// call is one call prepared: its bytes and what must come back.
type call struct {
	request []byte
	want    wire.Answer
}

// caller sends calls over one connection, one after another.
type caller struct {
	run      *run
	addr     string
	calls    []call
	rng      *rand.Rand
	conn     net.Conn // nil: dial
	kept     bool     // conn has answered before
	deadline time.Time
	reader   *wire.Reader
	check    check
}

// do sends one call drawn from the mix and records how it went. due is when an
// open loop wanted it sent; zero in a closed one.
func (c *caller) do(ctx context.Context, due time.Time) {
	k := &c.calls[c.rng.IntN(len(c.calls))]
	failure, again := c.once(ctx, k, due)
	if again { // a kept connection was closed: as every client does, once more
		c.hangUp()
		c.run.redial()
		failure, _ = c.once(ctx, k, due)
	}
	if failure == "" {
		return
	}
	c.hangUp()
	c.run.fail(failure)
	if due.IsZero() { // a target that refuses must not make this a busy loop
		pause(ctx, 2*time.Millisecond)
	}
}

// once sends k. again says that a kept connection ended without a byte of answer.
func (c *caller) once(ctx context.Context, k *call, due time.Time) (failure Failure, again bool) {
	if c.conn == nil {
		if !c.dial(ctx) {
			return Refused, false
		}
	}
	now := time.Now()
	// Moving a deadline costs; half the timeout early is good enough to end.
	if limit := now.Add(c.run.cfg.Timeout); limit.Sub(c.deadline) > c.run.cfg.Timeout/2 {
		c.deadline = limit
		if err := c.conn.SetDeadline(limit); err != nil {
			return Refused, false
		}
	}
	c.check.start(k.want, now)
	leave := 0
	if k.want.Ends != nil && c.rng.Float64() < c.run.cfg.HangUpRatio {
		leave = 1 + c.rng.IntN(len(k.want.Ends)-1)
	}
	_, sendErr := c.conn.Write(k.request)
	head, err := c.reader.Head(true)
	if err != nil {
		return cause(err, NoAnswer), c.kept && closed(err)
	}
	// "HTTP/1.1 200 OK"
	status := ""
	if len(head.Start) >= 12 {
		status = string(head.Start[9:12])
	}
	closing := head.Close
	for {
		piece, err := c.reader.Piece()
		if err != nil {
			if errors.Is(err, io.EOF) {
				break
			}
			return cause(err, Cut), false
		}
		if status == "200" {
			c.check.feed(piece, c.reader.Arrived())
		}
		if leave > 0 && c.check.event >= leave {
			c.hangUp()
			c.run.hungUp()
			return "", false
		}
	}
	c.kept = true
	if closing {
		c.hangUp()
		c.run.redial()
	}
	switch {
	case status != "200":
		return Failure("status " + status), false
	case sendErr != nil:
		return NoAnswer, false
	}
	if f := c.check.verdict(); f != "" {
		return f, false
	}
	c.run.good(&c.check, c.reader.Arrived(), due)
	return "", false
}

func (c *caller) dial(ctx context.Context) bool {
	d := net.Dialer{Timeout: 5 * time.Second}
	conn, err := d.DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return false
	}
	c.conn, c.kept, c.deadline = conn, false, time.Time{}
	if c.reader == nil {
		c.reader = wire.NewReader(conn)
	} else {
		c.reader.Reset(conn)
	}
	return true
}

// hangUp closes the connection; the next call dials.
func (c *caller) hangUp() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// cause names a read's error; ended is the name for a connection that ended.
func cause(err error, ended Failure) Failure {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return Timeout
	case errors.Is(err, wire.ErrMalformed):
		return Malformed
	}
	return ended
}

// closed reports whether err is how a read finds that the other side had closed
// the connection before the call.
func closed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// pause waits d or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
