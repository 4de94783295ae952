// Package zmtp is the part of ZMTP 3.0 that publish and replay need: the NULL
// mechanism, frames, multipart messages and subscriptions, on any connection.
// It is what libzmq 4 speaks; the tests in .ci/kvevents prove it.
//
// Source: ZMTP 3.0, https://rfc.zeromq.org/spec/23/; PING and PONG are from 3.1,
// https://rfc.zeromq.org/spec/37/.
package zmtp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
)

// What a peer may do wrong. Errors of this package wrap one of these, or the
// connection's own.
var (
	ErrProtocol = errors.New("zmtp: protocol error")
	ErrTooLarge = errors.New("zmtp: message too large")
	ErrRefused  = errors.New("zmtp: refused by the peer")
)

// SocketType says what a side of a connection is.
type SocketType string

// The socket types that engines and their readers have.
const (
	Sub    SocketType = "SUB"
	Pub    SocketType = "PUB"
	Dealer SocketType = "DEALER"
	Router SocketType = "ROUTER"
)

// accepts says whether peers of type peer may talk to t (ZMTP 3.0, "Socket-Type").
func (t SocketType) accepts(peer string) bool {
	switch t {
	case Sub:
		return peer == "PUB" || peer == "XPUB"
	case Pub:
		return peer == "SUB" || peer == "XSUB"
	case Dealer:
		return peer == "REP" || peer == "DEALER" || peer == "ROUTER"
	case Router:
		return peer == "REQ" || peer == "DEALER" || peer == "ROUTER"
	}
	return false
}

const (
	flagMore    = 1
	flagLong    = 2
	flagCommand = 4

	maxFrames       = 16
	maxCommandBytes = 1 << 16
	greetingBytes   = 64
)

// Conn is a connection after its handshake. One goroutine may read while others
// write.
type Conn struct {
	net   net.Conn
	r     *bufio.Reader
	limit int
	body  []byte   // of the last message, reused
	ends  []int    // of its frames
	parts [][]byte // what Read returned

	mu sync.Mutex    // one message at a time
	w  *bufio.Writer // guarded by mu
}

// Handshake makes a connection of type t out of c. limit bounds the messages
// that are read, all frames together, in bytes. It blocks until the peer
// answered: the caller sets a deadline, and closes c if it fails.
func Handshake(c net.Conn, t SocketType, limit int) (*Conn, error) {
	z := &Conn{net: c, r: bufio.NewReaderSize(c, 64<<10), w: bufio.NewWriterSize(c, 16<<10), limit: limit}
	// Both sides greet without waiting for the other. On a connection that
	// does not buffer (net.Pipe) writing has to go on while we read.
	sent := make(chan error, 1)
	go func() { sent <- z.greet(t) }()
	err := z.expect(t)
	if err != nil {
		// The writer may wait for a peer that reads no more.
		_ = c.Close()
	}
	if werr := <-sent; err == nil && werr != nil {
		err = werr
	}
	if err != nil {
		return nil, err
	}
	return z, nil
}

// greet sends the greeting and the READY command.
func (c *Conn) greet(t SocketType) error {
	var g [greetingBytes]byte
	g[0], g[9], g[10] = 0xff, 0x7f, 3
	copy(g[12:32], "NULL")
	ready := append([]byte{5}, "READY"...)
	ready = appendProperty(ready, "Socket-Type", string(t))
	if t == Dealer {
		ready = appendProperty(ready, "Identity", "")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.w.Write(g[:]) // its error stays until the flush
	_ = c.writeFrame(flagCommand, ready)
	return c.w.Flush()
}

func appendProperty(dst []byte, name, value string) []byte {
	dst = append(dst, byte(len(name)))
	dst = append(dst, name...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(value)))
	return append(dst, value...)
}

// expect reads the peer's greeting and READY.
func (c *Conn) expect(t SocketType) error {
	var g [greetingBytes]byte
	// The first ten bytes tell whether the peer speaks this at all; one that
	// does not need not send 64.
	if _, err := io.ReadFull(c.r, g[:10]); err != nil {
		return fmt.Errorf("zmtp: greeting: %w", err)
	}
	if g[0] != 0xff || g[9]&1 != 1 {
		return fmt.Errorf("%w: greeting begins with % x; the peer does not speak ZMTP", ErrProtocol, g[:10])
	}
	if _, err := io.ReadFull(c.r, g[10:]); err != nil {
		return fmt.Errorf("zmtp: greeting: %w", err)
	}
	if g[10] < 3 {
		return fmt.Errorf("%w: the peer speaks ZMTP %d; want 3 or later", ErrProtocol, g[10])
	}
	if mechanism := cString(g[12:32]); mechanism != "NULL" {
		return fmt.Errorf("%w: the peer wants the mechanism %q; only NULL is supported", ErrProtocol, mechanism)
	}
	flags, body, err := c.readFrame(nil, maxCommandBytes)
	if err != nil {
		return fmt.Errorf("zmtp: handshake: %w", err)
	}
	if flags&flagCommand == 0 {
		return fmt.Errorf("%w: a message in place of READY", ErrProtocol)
	}
	name, data, err := command(body)
	switch {
	case err != nil:
		return err
	case name == "ERROR":
		reason := ""
		if len(data) > 0 && int(data[0]) < len(data) {
			reason = string(data[1 : 1+int(data[0])])
		}
		return fmt.Errorf("%w: %q", ErrRefused, reason)
	case name != "READY":
		return fmt.Errorf("%w: %.20q in place of READY", ErrProtocol, name)
	}
	peer, err := property(data, "Socket-Type")
	if err != nil {
		return err
	}
	if !t.accepts(peer) {
		return fmt.Errorf("%w: the peer is a %.20q socket, which does not talk to %s", ErrProtocol, peer, t)
	}
	return nil
}

func cString(b []byte) string {
	if i := slices.Index(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// command splits a command's body.
func command(body []byte) (name string, data []byte, err error) {
	if len(body) == 0 || int(body[0]) >= len(body) {
		return "", nil, fmt.Errorf("%w: a command of %d bytes without a whole name", ErrProtocol, len(body))
	}
	n := 1 + int(body[0])
	return string(body[1:n]), body[n:], nil
}

// property finds a property in READY's metadata; names have no case.
func property(data []byte, want string) (string, error) {
	for len(data) > 0 {
		n := int(data[0])
		if len(data) < 1+n+4 {
			return "", fmt.Errorf("%w: metadata is cut off", ErrProtocol)
		}
		name := string(data[1 : 1+n])
		size := binary.BigEndian.Uint32(data[1+n:])
		data = data[1+n+4:]
		if uint64(size) > uint64(len(data)) {
			return "", fmt.Errorf("%w: metadata is cut off", ErrProtocol)
		}
		if strings.EqualFold(name, want) {
			return string(data[:size]), nil
		}
		data = data[size:]
	}
	return "", fmt.Errorf("%w: READY without %s", ErrProtocol, want)
}

// Read returns the next message's frames. They are valid until the next call.
// It answers PINGs on the way and skips other commands. After an error the
// connection is of no more use.
func (c *Conn) Read() ([][]byte, error) {
	if cap(c.body) > 1<<20 {
		c.body = nil // one large message is not kept for ever
	}
	c.body, c.ends = c.body[:0], c.ends[:0]
	for {
		flags, body, err := c.readFrame(c.body, c.limit)
		if err != nil {
			return nil, err
		}
		if flags&flagCommand != 0 {
			if err := c.obey(body[len(c.body):]); err != nil {
				return nil, err
			}
			continue
		}
		c.body = body
		if c.ends = append(c.ends, len(body)); len(c.ends) > maxFrames {
			return nil, fmt.Errorf("%w: more than %d frames", ErrTooLarge, maxFrames)
		}
		if flags&flagMore == 0 {
			break
		}
	}
	c.parts = c.parts[:0]
	from := 0
	for _, end := range c.ends {
		c.parts = append(c.parts, c.body[from:end:end])
		from = end
	}
	return c.parts, nil
}

// obey answers a command.
func (c *Conn) obey(body []byte) error {
	if len(body) > maxCommandBytes {
		return fmt.Errorf("%w: a command of %d bytes", ErrTooLarge, len(body))
	}
	name, data, err := command(body)
	if err != nil {
		return err
	}
	switch name {
	case "PING": // a time to live of two bytes, and a context to send back
		if len(data) < 2 || len(data) > 2+16 {
			return fmt.Errorf("%w: PING of %d bytes", ErrProtocol, len(data))
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		_ = c.writeFrame(flagCommand, append(append([]byte{4}, "PONG"...), data[2:]...))
		return c.w.Flush()
	case "ERROR":
		return fmt.Errorf("%w: an error after the handshake", ErrRefused)
	}
	return nil
}

// readFrame appends a frame's body to dst, which may then have limit bytes.
func (c *Conn) readFrame(dst []byte, limit int) (flags byte, _ []byte, err error) {
	if flags, err = c.r.ReadByte(); err != nil {
		return 0, nil, err
	}
	if flags&^(flagMore|flagLong|flagCommand) != 0 || flags&flagCommand != 0 && flags&flagMore != 0 {
		return 0, nil, fmt.Errorf("%w: frame with the flags %#x", ErrProtocol, flags)
	}
	var head [8]byte
	width := 1
	if flags&flagLong != 0 {
		width = 8
	}
	if _, err := io.ReadFull(c.r, head[8-width:]); err != nil {
		return 0, nil, unexpected(err)
	}
	size := binary.BigEndian.Uint64(head[:])
	if size > uint64(limit-len(dst)) {
		return 0, nil, fmt.Errorf("%w: a frame of %d bytes; want at most %d in a message", ErrTooLarge, size, limit)
	}
	// Memory grows with what has come, not with what was announced.
	for left := int(size); left > 0; {
		n := min(left, 64<<10)
		from := len(dst)
		dst = slices.Grow(dst, n)[:from+n]
		if _, err := io.ReadFull(c.r, dst[from:]); err != nil {
			return 0, nil, unexpected(err)
		}
		left -= n
	}
	return flags, dst, nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Write sends frames as one message.
func (c *Conn) Write(frames ...[]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.writeMessage(frames) // its error stays until the flush
	return c.w.Flush()
}

// WriteBuffered is Write without the flush, which [Conn.Flush] makes up for.
func (c *Conn) WriteBuffered(frames ...[]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writeMessage(frames)
}

// Flush sends what WriteBuffered left.
func (c *Conn) Flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.w.Flush()
}

func (c *Conn) writeMessage(frames [][]byte) error {
	var err error
	for i, f := range frames {
		flags := byte(0)
		if i < len(frames)-1 {
			flags = flagMore
		}
		err = c.writeFrame(flags, f)
	}
	return err
}

// writeFrame writes to the buffer, whose error stays until the flush.
func (c *Conn) writeFrame(flags byte, body []byte) error {
	var head [9]byte
	h := append(head[:0], flags, byte(len(body)))
	if len(body) > 255 {
		h = binary.BigEndian.AppendUint64(append(head[:0], flags|flagLong), uint64(len(body)))
	}
	_, _ = c.w.Write(h)
	_, err := c.w.Write(body)
	return err
}

// Subscribe asks a publisher for messages whose topic begins with prefix.
func (c *Conn) Subscribe(prefix string) error { return c.Write(append([]byte{1}, prefix...)) }

// Subscription reads what a subscriber sent: add is false if it cancels.
func Subscription(frames [][]byte) (prefix []byte, add, ok bool) {
	if len(frames) != 1 || len(frames[0]) == 0 || frames[0][0] > 1 {
		return nil, false, false
	}
	return frames[0][1:], frames[0][0] == 1, true
}

// Close closes the connection; a Read that waits ends.
func (c *Conn) Close() error { return c.net.Close() }

// NetConn is the connection below, for its deadlines.
func (c *Conn) NetConn() net.Conn { return c.net }
