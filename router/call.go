package router

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/internal/secret"
	"github.com/llmgw/llmgw/router/openai"
	"github.com/llmgw/llmgw/router/proxy"
	"github.com/llmgw/llmgw/router/schedule"
)

// call is one request on its way through the router. Calls are pooled, so that
// a request costs few allocations.
type call struct {
	rt    *Router
	w     http.ResponseWriter
	req   *http.Request
	route route

	id       string
	identity Identity
	body     body
	spool    *spool // of a form
	peek     openai.Peek
	out      Outcome

	decision schedule.Decision
	sched    schedule.Request
	tried    []*endpoint.Endpoint
	send     proxy.Request
	parts    [][]byte
	tap      tap
	metrics  *modelMetrics
	last     *engineAnswer // of the engine that refused last
	kind     proxy.Kind    // of the failure that came last
	again    time.Duration // until an endpoint that was closed to us opens; 0: not known
	charge   Charge
	headers  Headers // nil: nobody has something to say in the answer's
	lease    Lease
	admitted time.Time          // if that was just now; else zero
	wake     Wake               // how long it has waited for models
	prompt   Prompt             // nil: not looked up
	pin      string             // the only endpoint that may be asked; empty: any
	store    bool               // the answer may be stored by its engine
	at       *endpoint.Endpoint // whose answer is relayed
	shared   bool               // a transport may still be reading the body and its edits
	whole    bool               // the body was read to its end
	broken   bool               // the answer must not look whole
}

// begin makes a pooled call ready.
func (c *call) begin(rt *Router, w http.ResponseWriter, r *http.Request, start time.Time) {
	c.rt, c.w, c.req = rt, w, r
	c.route = lookup(r)
	id, own := requestID(r.Header, start)
	c.id = id
	c.identity = Identity{}
	c.body = body{mem: &rt.memory}
	c.tried = c.tried[:0]
	c.last, c.kind, c.again, c.metrics = nil, 0, 0, nil
	c.charge, c.headers, c.lease, c.admitted, c.shared, c.whole, c.broken = nil, nil, nil, time.Time{}, false, false, false
	c.spool, c.pin, c.store, c.prompt = nil, "", false, nil
	c.wake = Wake{Arrived: start, Deadline: start.Add(rt.cfg.Total)}
	c.out = Outcome{ID: c.id, ClientID: !own, Identity: &c.identity, Path: c.route.label, Work: c.route.work, Start: start}
}

// end drops what a pooled call must not keep alive.
func (c *call) end() {
	if c.prompt != nil {
		c.prompt.Release()
		c.prompt = nil
	}
	clear(c.tried)
	clear(c.parts)
	c.rt, c.w, c.req, c.metrics, c.last = nil, nil, nil, nil, nil
	c.charge, c.headers, c.lease, c.at, c.spool = nil, nil, nil, nil, nil
	c.body, c.identity, c.out = body{}, Identity{}, Outcome{}
	c.send, c.sched, c.wake = proxy.Request{}, schedule.Request{}, Wake{}
	c.tap.call, c.tap.stores = nil, nil
}

func (c *call) ctx() context.Context { return c.req.Context() }

// requestID is the client's own id if it is one that can stand in a log, which a
// key cannot, else a new one, which is our own.
func requestID(h http.Header, now time.Time) (id string, own bool) {
	for _, name := range [...]string{"X-Request-Id", "Request-Id"} {
		if v := h[name]; len(v) == 1 && plainID(v[0]) {
			return v[0], false
		}
	}
	return NewRequestID(now), true
}

// NewRequestID returns an id that no other request has: "req_" and 32 hexadecimal
// digits. It begins with the time, to the millisecond, so that ids sort by it, and a
// store's index of them grows at its end; 80 bits are chance.
func NewRequestID(now time.Time) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(now.UnixMilli())<<16|rand.Uint64()>>48)
	binary.BigEndian.PutUint64(b[8:], rand.Uint64())
	var s [4 + 32]byte
	copy(s[:], "req_")
	hex.Encode(s[4:], b[:])
	return string(s[:])
}

func plainID(s string) bool { return plainName(s, 128) && !secret.Holds(s) }

// plainName is whether s is 1 to n bytes that mean nothing in a log or a path.
func plainName(s string, n int) bool {
	if len(s) < 1 || len(s) > n {
		return false
	}
	for _, c := range []byte(s) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.' || c == ':') {
			return false
		}
	}
	return true
}
