package proxy

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"
)

const (
	oneWrite  = 16 << 10  // head and body up to here go out in one write
	piece     = 256 << 10 // longer bodies go out in pieces of this size
	afterLost = time.Second
)

// exchange runs one request on c as far as the answer's head. On error c is
// closed.
func (p *Proxy) exchange(ctx context.Context, c *conn, req *Request, total time.Time, reused bool) (*Response, error) {
	r := &c.resp
	fields := r.head.fields[:0]
	*r = Response{proxy: p, target: c.t, ctx: ctx, conn: c, total: total}
	r.head.fields = fields
	c.data, c.short, c.werr = nil, false, nil
	if req.Lasting {
		r.watch()
	}

	whole, err := c.send(ctx, req, reused, min(p.cfg.Timeouts.ResponseHeader, time.Until(total)))
	r.sent = time.Now()
	limit, kind := r.sent.Add(p.cfg.Timeouts.ResponseHeader), KindHeaderTimeout
	if total.Before(limit) {
		limit, kind = total, KindTotalTimeout
	}
	if err != nil {
		// What the engine said before it stopped reading may still be here.
		limit = minTime(limit, r.sent.Add(afterLost))
	}
	h := &c.head
	*h = headSink{r: r, method: req.Method, until: limit}
	rerr := err
	if err != errClosed && !errors.Is(err, errBody) { // what stands on a dead connection answers nothing of ours
		rerr = c.pump(ctx, h)
	}
	if rerr == nil {
		rerr = h.err
	}
	h.release()
	if rerr == nil {
		if !whole {
			r.head.keep = false
		}
		r.Status = r.head.status
		r.left = r.head.length
		r.done = r.head.framing == bodyNone
		return r, nil
	}
	r.Close()
	if err == nil {
		err = c.werr
	}
	if err == nil || h.got > 0 {
		err = rerr
	}
	switch {
	case ctx.Err() != nil:
		kind, err = KindCanceled, context.Cause(ctx)
	case errors.Is(err, errBody):
		kind = KindBody
	case isProtocol(err):
		kind = KindProtocol
	case errors.Is(err, errDeadline) || isTimeout(err):
	case h.got > 0:
		kind, err = KindCut, eofIs(err, errShort)
	default:
		kind, err = KindLost, eofIs(err, errClosed)
	}
	if kind != KindLost || !reused { // else it is replayed
		p.metrics.failure(kind)
	}
	return nil, &Error{kind, c.t.addr, err}
}

// send writes the request, or, where it is small, leaves it to the pump to
// write. whole is false if it stopped because the engine answered early.
func (c *conn) send(ctx context.Context, req *Request, reused bool, within time.Duration) (whole bool, err error) {
	b := c.appendHead(c.wbuf[:0], req)
	if len(b)+req.Length <= oneWrite && req.Open == nil {
		for _, part := range req.Body {
			b = append(b, part...)
		}
		c.wbuf, c.first, c.check = b, b, reused
		return true, nil
	}
	c.wbuf = b
	if reused && !c.quiet() {
		c.t.proxy.metrics.stale.Inc()
		return false, errClosed
	}
	// A small request fits into the socket's buffer; this one may have to wait.
	c.resp.watch()
	_ = c.nc.SetWriteDeadline(time.Now().Add(within))
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if req.Open != nil {
		if whole, err = c.sendFrom(ctx, b, req); !whole {
			return whole, err
		}
		return true, c.nc.SetWriteDeadline(time.Time{})
	}
	c.vec = append(c.vec[:0], b)
	for i, off := 0, 0; i < len(req.Body); {
		for n := piece; n > 0 && i < len(req.Body); {
			part := req.Body[i][off:]
			part = part[:min(len(part), n)]
			c.vec = append(c.vec, part)
			n -= len(part)
			if off += len(part); off == len(req.Body[i]) {
				i, off = i+1, 0
			}
		}
		keep := c.vec // WriteTo consumes its receiver
		_, err = c.vec.WriteTo(c.nc)
		clear(keep[:cap(keep)])
		c.vec = keep[:0]
		if err != nil {
			return false, err
		}
		if i < len(req.Body) && c.answered() {
			return false, nil
		}
	}
	return true, c.nc.SetWriteDeadline(time.Time{})
}

// appendHead appends the request's head.
func (c *conn) appendHead(b []byte, req *Request) []byte {
	t := c.t
	b = append(b, req.Method...)
	b = append(b, ' ')
	b = append(b, t.base...)
	b = append(b, req.Path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, t.host...)
	b = append(b, "\r\n"...)
	b = append(b, t.auth...)
	var named []string
	if v := req.Header["Connection"]; v != nil {
		named = connectionNames(v)
	}
	for name, values := range req.Header {
		if !Forwarded(name) || slices.Contains(named, name) {
			continue
		}
		for _, v := range values {
			b = append(b, name...)
			b = append(b, ": "...)
			b = append(b, v...)
			b = append(b, "\r\n"...)
		}
	}
	if req.ID != "" {
		b = append(b, "X-Request-Id: "...)
		b = append(b, req.ID...)
		b = append(b, "\r\n"...)
	}
	if req.Length > 0 || req.Method == "POST" {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, int64(req.Length), 10)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...)
}
