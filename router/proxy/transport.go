package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
)

// newTransport makes the client for engines behind TLS, HTTP/2 or a dialer of
// the caller's.
func newTransport(cfg Config, t *Target, target TargetConfig) *http.Transport {
	dial := (&net.Dialer{Timeout: cfg.Timeouts.Dial, KeepAlive: 30 * time.Second}).DialContext
	if target.Dial != nil {
		dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return t.introduced(ctx, cfg.Timeouts.ResponseHeader, func() (net.Conn, error) {
				ctx, cancel := context.WithTimeout(ctx, cfg.Timeouts.Dial)
				defer cancel()
				return target.Dial(ctx, network, addr)
			})
		}
	}
	tc := target.TLS
	var protocols http.Protocols
	if t.scheme == "h2c" {
		protocols.SetUnencryptedHTTP2(true)
	} else {
		protocols.SetHTTP1(true)
		protocols.SetHTTP2(true)
	}
	if tc != nil {
		tc = tc.Clone()
	}
	idle := cfg.PoolIdle
	return &http.Transport{
		DialContext:            dial,
		TLSClientConfig:        tc,
		TLSHandshakeTimeout:    cfg.Timeouts.Dial,
		DisableCompression:     true,
		DisableKeepAlives:      idle == 0 || cfg.PoolSize == 0,
		MaxIdleConnsPerHost:    cfg.PoolSize,
		IdleConnTimeout:        idle,
		MaxResponseHeaderBytes: maxHead,
		Protocols:              &protocols,
	}
}

// httpExchange is the part of a Response that goes through net/http.
type httpExchange struct {
	resp   *http.Response
	cancel context.CancelCauseFunc
	limit  atomic.Int64 // Unix nanoseconds of the deadline in force
	timer  *time.Timer
	fired  atomic.Bool // the deadline passed
	buf    []byte
}

// arm moves the deadline. A timer that fires too early sets itself again.
func (x *httpExchange) arm(limit time.Time) {
	n := limit.UnixNano()
	old := x.limit.Swap(n)
	if old == 0 || n < old {
		x.timer.Reset(time.Until(limit))
	}
}

func (x *httpExchange) fire() {
	if left := time.Until(time.Unix(0, x.limit.Load())); left > 0 {
		x.timer.Reset(left)
		return
	}
	x.fired.Store(true)
	x.cancel(errDeadline)
}

func (x *httpExchange) close() {
	x.timer.Stop()
	x.cancel(errClosed)
	_ = x.resp.Body.Close()
}

func (x *httpExchange) copyHeader(dst http.Header) {
	named := connectionNames(x.resp.Header["Connection"])
	for name, v := range x.resp.Header {
		if _, ours := dst[name]; !ours && !notReturned[name] && !slices.Contains(named, name) {
			dst[name] = v
		}
	}
}

// reached is how far net/http came with a request before it failed.
type reached int32

const (
	unconnected reached = iota
	connected
	answering
)

// kind is what a failure means at that point.
func (s reached) kind(err error) Kind {
	switch {
	case s == unconnected:
		return KindDial
	case s == connected:
		return KindLost
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, net.ErrClosed): // net/http may say that it closed in place of why
		return KindCut
	}
	return KindProtocol
}

func (p *Proxy) sendTransport(ctx context.Context, t *Target, req *Request, total time.Time) (*Response, error) {
	inner, cancel := context.WithCancelCause(ctx)
	x := &httpExchange{cancel: cancel, buf: make([]byte, readBuffer)}
	x.timer = time.AfterFunc(time.Hour, x.fire)
	now := time.Now()
	limit, kind := now.Add(p.cfg.Timeouts.Dial+p.cfg.Timeouts.ResponseHeader), KindHeaderTimeout
	if total.Before(limit) {
		limit, kind = total, KindTotalTimeout
	}
	x.arm(limit)
	var stage atomic.Int32
	hr, err := newHTTPRequest(httptrace.WithClientTrace(inner, &httptrace.ClientTrace{
		GotConn:              func(httptrace.GotConnInfo) { stage.Store(int32(connected)) },
		GotFirstResponseByte: func() { stage.Store(int32(answering)) },
	}), t, req)
	if err == nil {
		x.resp, err = t.transport.RoundTrip(hr)
	}
	if err == nil && context.Cause(inner) != nil {
		// What an engine says to a request that was given up comes too late,
		// also where net/http still hears it.
		_ = x.resp.Body.Close()
		err = context.Cause(inner)
	}
	if err != nil {
		cause := context.Cause(inner)
		x.timer.Stop()
		cancel(err)
		switch {
		case ctx.Err() != nil:
			kind, err = KindCanceled, context.Cause(ctx)
		case errors.Is(cause, errDeadline):
			err = errDeadline
		case errors.Is(err, errBody):
			kind = KindBody
		default:
			kind = reached(stage.Load()).kind(err)
			if e, ok := errors.AsType[*Error](err); ok { // of the dial
				kind, err = e.Kind, e.Err
			}
		}
		p.metrics.failure(kind)
		return nil, &Error{kind, t.addr, err}
	}
	if x.resp.StatusCode == http.StatusSwitchingProtocols {
		x.close()
		p.metrics.failure(KindProtocol)
		return nil, &Error{KindProtocol, t.addr, errUpgrade}
	}
	return &Response{
		Status: x.resp.StatusCode, proxy: p, target: t, ctx: ctx, sent: time.Now(), total: total, http: x,
	}, nil
}

func newHTTPRequest(ctx context.Context, t *Target, req *Request) (*http.Request, error) {
	scheme := t.scheme
	if scheme == "h2c" {
		scheme = "http"
	}
	u, err := url.Parse(scheme + "://" + t.host + t.base + req.Path)
	if err != nil {
		return nil, err
	}
	h := make(http.Header, len(req.Header)+2)
	named := connectionNames(req.Header["Connection"])
	for name, v := range req.Header {
		if Forwarded(name) && !slices.Contains(named, textproto.CanonicalMIMEHeaderKey(name)) {
			h[name] = v
		}
	}
	if h["User-Agent"] == nil {
		h["User-Agent"] = nil // net/http would name itself
	}
	if t.auth != "" {
		h.Set("Authorization", t.auth[len("Authorization: "):len(t.auth)-2])
	}
	if req.ID != "" {
		h.Set("X-Request-Id", req.ID)
	}
	body := opener(req)
	hr := (&http.Request{
		Method: req.Method, URL: u, Host: t.host, Header: h, ContentLength: int64(req.Length),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, GetBody: body,
	}).WithContext(ctx)
	if req.Length == 0 {
		hr.Body, hr.GetBody = http.NoBody, nil
		return hr, nil
	}
	hr.Body, _ = body()
	return hr, nil
}

// pieces reads a body in pieces.
type pieces struct {
	parts [][]byte
	i, at int
}

func (p *pieces) Read(b []byte) (int, error) {
	for p.i < len(p.parts) {
		if n := copy(b, p.parts[p.i][p.at:]); n > 0 {
			p.at += n
			return n, nil
		}
		p.i, p.at = p.i+1, 0
	}
	return 0, io.EOF
}

// nextHTTP is next for an exchange through net/http.
func (r *Response) nextHTTP(limit time.Time) ([]byte, error) {
	x := r.http
	if r.done {
		return nil, io.EOF
	}
	x.arm(limit)
	for {
		n, err := x.resp.Body.Read(x.buf)
		x.limit.Store(r.total.UnixNano()) // until the next read
		// An engine that sees us leave may still end its answer in good order.
		left := r.ctx.Err() != nil
		late := err != nil && (left || x.fired.Load())
		if errors.Is(err, io.EOF) && !late {
			r.done = true
		}
		switch {
		case n > 0:
			return x.buf[:n], nil
		case late && left:
			return nil, context.Cause(r.ctx)
		case late:
			return nil, errDeadline
		case err != nil:
			return nil, err
		}
	}
}
