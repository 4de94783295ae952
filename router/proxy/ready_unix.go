//go:build unix

package proxy

import (
	"io"
	"syscall"
)

// quiet reports whether nothing can be read from the socket fd: no bytes and no
// end. An unused HTTP/1.1 connection on which anything can be read is dead, or
// about to be.
func quiet(fd uintptr) bool {
	var b [1]byte
	_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return err == syscall.EAGAIN || err == syscall.EINTR
}

// answered reports whether the socket fd has anything but an interim answer: a
// final one, or its end.
func answered(fd uintptr) bool {
	const line = len("HTTP/1.1 1")
	var b [line]byte
	n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	if err != nil {
		return err != syscall.EAGAIN && err != syscall.EINTR
	}
	return n < line || b[line-1] != '1'
}

// readReady runs c.onReady whenever the socket may have bytes, until it is done.
func readReady(c *conn) error { return c.raw.Read(c.ready) }

// onReady is called by the poller's side of [syscall.RawConn] when the socket
// may have bytes; false waits for more.
//
// The sink's work is done in here and not between two reads, because of what
// the wait promises: between two calls no readiness is lost, so after a read
// that took all there was the next call to the kernel can be the wait, and not
// a read that finds nothing. At one token a read that is a third of the system
// calls. One thing can stay unseen: an end (FIN) that arrived in the instant
// between the wake-up and the read that followed it. So while the last read was
// a short one, the wait is cut after lostEnd to look again; a body that ends in
// no other way is read until there is nothing.
func (c *conn) onReady(fd uintptr) bool {
	if c.first != nil {
		b := c.first
		c.first = nil
		if c.check && !quiet(fd) {
			c.t.proxy.metrics.stale.Inc()
			c.err = errClosed
			return true
		}
		// No engine answers in the time of a system call. On a fresh connection
		// something may stand all the same, which came before this wait began.
		if _, c.werr = c.nc.Write(b); c.werr == nil && c.check {
			return false
		}
	}
	for {
		b := c.sink.room()
		n, err := syscall.Read(int(fd), b)
		switch {
		case n > 0:
			c.short = n < len(b)
			if !c.sink.took(n) {
				return true
			}
			if c.short && c.resp.head.framing != bodyUntilClose {
				return c.tooFar()
			}
		case err == nil:
			c.err = io.EOF
			return true
		case err == syscall.EAGAIN:
			c.short = false
			return c.tooFar()
		case err == syscall.EINTR:
		default:
			c.err = err
			return true
		}
	}
}
