package proxy

import (
	"context"
	"net"
	"sync"
	"syscall"
	"time"
)

const readBuffer = 8 << 10

// conn is one connection to an engine and the scratch space of the exchange that
// uses it. It belongs to one goroutine at a time; only abort may run beside it.
type conn struct {
	t   *Target
	nc  net.Conn
	raw syscall.RawConn

	buf   []byte // reads go here
	data  []byte // the part of buf that was read and not yet decoded
	wbuf  []byte // head, and body where it is small
	hbuf  []byte // the answer's head, which outlives the reads after it
	vec   net.Buffers
	armed time.Time // the read deadline that nc has; zero: none

	// The exchange under way, and what reads it.
	resp      Response
	head      headSink
	relay     relay
	idleSince time.Time

	abort func()             // ends blocked reads and writes; runs when a context ends
	look  func(uintptr)      // sets still
	peek  func(uintptr)      // sets early
	ready func(uintptr) bool // method value of onReady
	still bool
	early bool

	// The pump's state, in use while pump runs.
	sink  sink
	first []byte // to be written before the first read; nil: nothing
	check bool   // look before writing first
	short bool   // the last read took all there was, and an end that came with it is not seen yet
	later bool   // the deadline that nc has is too far away
	err   error  // what ended the pump; nil: the sink did
	werr  error  // what writing first said
}

// sink takes the bytes of a connection's reads.
type sink interface {
	// room returns where the next read goes.
	room() []byte
	// took is told that n bytes stand there, and says whether more are wanted.
	took(n int) (more bool)
	// limit is when the wait for the next bytes ends.
	limit() time.Time
}

// watchAfter is how long an exchange that is not expected to last waits before
// it asks to be told of its context's end. Until then it looks when its deadline
// fires. Being told costs a twentieth of a 1 KiB call; a client that leaves is
// still noticed at once by any measure of people. On a stream the deadline that
// fires would cost more than that.
const watchAfter = 25 * time.Millisecond

// lostEnd bounds how late an engine's end is seen that came in one piece with
// its last bytes; see [conn.onReady].
const lostEnd = time.Second

var pastDeadline = time.Unix(1, 0) //nolint:gochecknoglobals // a constant

func newConn(t *Target, nc net.Conn) (*conn, error) {
	c := &conn{t: t, nc: nc, buf: make([]byte, readBuffer)}
	raw, err := nc.(syscall.Conn).SyscallConn() // a TCP connection always has one
	if err != nil {
		return nil, err
	}
	c.raw = raw
	c.abort = func() { _ = nc.SetDeadline(pastDeadline) }
	c.look = func(fd uintptr) { c.still = quiet(fd) }
	c.peek = func(fd uintptr) { c.early = answered(fd) }
	c.ready = c.onReady
	return c, nil
}

func (c *conn) close() { _ = c.nc.Close() }

// quiet reports whether nothing can be read from the connection.
func (c *conn) quiet() bool {
	c.still = false
	return c.raw.Control(c.look) == nil && c.still
}

// answered reports whether the engine has answered before it has the whole
// request, or has gone.
func (c *conn) answered() bool {
	c.early = true
	return c.raw.Control(c.peek) != nil || c.early
}

// pump hands what can be read to s until it wants no more. The error is io.EOF
// at the connection's end, errDeadline once s's limit has passed, and the
// context's cause once ctx has ended.
//
// A deadline that was set earlier and is sooner stays: when it fires too early
// it is moved, which costs one wake-up in place of a call a read.
func (c *conn) pump(ctx context.Context, s sink) error {
	c.sink, c.err = s, nil
	err := c.wait(ctx, s)
	c.sink = nil
	return err
}

func (c *conn) wait(ctx context.Context, s sink) error {
	for now := time.Now(); ; now = time.Now() {
		limit := c.due(now)
		if limit.Before(c.armed) || !now.Before(c.armed) {
			_ = c.nc.SetReadDeadline(limit)
			c.armed = limit
			// abort may have run before the line above and been undone by it.
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		c.later = false
		err := readReady(c)
		switch {
		case err == nil && c.later:
			continue
		case err == nil:
			return c.err
		case !isTimeout(err):
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !time.Now().Before(s.limit()):
			return errDeadline
		}
		c.armed = time.Time{}
		c.resp.watch()
	}
}

// due is when a wait that begins now must end: at the sink's limit, or before it
// to look for what nothing tells of.
func (c *conn) due(now time.Time) time.Time {
	limit := c.sink.limit()
	switch {
	case c.resp.stop == nil:
		limit = minTime(limit, now.Add(watchAfter))
	case c.short:
		limit = minTime(limit, now.Add(lostEnd))
	}
	return limit
}

// tooFar reports whether the next wait must end before the deadline that nc has,
// as it must when the first token starts the clock of the next one.
func (c *conn) tooFar() bool {
	c.later = c.due(time.Now()).Before(c.armed)
	return c.later
}

// headBuffers hold the rare heads that are longer than readBuffer.
var headBuffers = sync.Pool{New: func() any { b := make([]byte, maxHead); return &b }} //nolint:gochecknoglobals // a free list
