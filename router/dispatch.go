package router

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/openai"
	"github.com/llmgw/llmgw/router/proxy"
	"github.com/llmgw/llmgw/router/schedule"
)

// dispatch sends the request to endpoints of m, then of its fallbacks, until one
// answers. asleep is why m itself is not asked; nil: it is.
func (c *call) dispatch(catalog Catalog, m Model, data []byte, asleep *openai.Error) *openai.Error {
	c.beginPrompt(data)
	c.request()
	done, spent := false, false
	if asleep == nil {
		done, spent = c.try(m, data)
	}
	spent = spent || c.pin != "" // what it refers to is nowhere else
	var refused *openai.Error    // by the admission of a fallback
	for i := 0; !done && !spent && i < len(m.Fallbacks); i++ {
		f, ok := catalog.Resolve(m.Fallbacks[i])
		if !ok || !c.identity.allows(f.Name) {
			continue
		}
		if err := c.wakes(f); err != nil {
			if c.out.Result == ResultCanceled {
				return err
			}
			if asleep == nil || asleep.NoRetry {
				asleep = err // of what may come the client is told
			}
			continue
		}
		if err := c.admit(f); err != nil {
			if c.out.Result == ResultCanceled {
				return err
			}
			refused = err // the next fallback may have room
			continue
		}
		c.tried = c.tried[:0]
		done, spent = c.try(f, data)
	}
	switch {
	case done:
		return nil
	case c.last != nil:
		c.passOn(c.last)
		return nil
	case c.kind != 0:
		c.out.Result = ResultFailed
		return exchangeError(c.kind)
	case refused != nil:
		return refused
	case asleep != nil:
		return c.noEndpoint(asleep)
	}
	c.out.Result = ResultNoEndpoint
	if c.pin != "" {
		return openai.ResponseAway(cmp.Or(c.again, noEndpointRetry))
	}
	return openai.NoEndpoint(c.peek.Model, cmp.Or(c.again, noEndpointRetry))
}

// noEndpointRetry is when a client may come again that found no endpoint, if no
// breaker says when it will let one through.
const noEndpointRetry = 2 * time.Second

// request fills in what all attempts have in common.
func (c *call) request() {
	r := c.req
	p := c.route.path // one that needs no escapes
	if r.URL.RawQuery != "" {
		p += "?" + plainQuery(r.URL.RawQuery)
	}
	c.send = proxy.Request{
		Method: r.Method, Path: p, Header: c.header(), ID: c.id, Lasting: c.peek.Stream,
		Deadline: c.out.Start.Add(c.rt.cfg.Total),
	}
	c.sched = schedule.Request{
		Tenant: c.identity.Tenant, Band: c.identity.Band,
		Session: c.out.Session, Pin: c.pin, PromptBytes: c.out.PromptBytes,
		MaxTokens: int(min(c.peek.MaxTokens, 1<<30)), Stream: c.peek.Stream,
	}
	if c.prompt != nil {
		c.sched.Prompt = c.prompt
	}
	if hash := c.rt.deps.SessionHash; hash != nil && c.out.Session != "" {
		c.sched.SessionHash = hash(c.out.Session)
	}
}

// try sends the request to endpoints of one model. done: the client has its
// answer or is gone. spent: no further try is allowed, of whatever model.
//
// It works on one snapshot of the endpoints, taken once the request may run on
// them, and on a newer one if none of those is left.
func (c *call) try(m Model, data []byte) (done, spent bool) {
	rt := c.rt
	snapshot := rt.deps.Endpoints.Snapshot()
	profile := m.Profile
	if profile == "" {
		profile = rt.cfg.DefaultProfile
	}
	if p, ok := c.prompt.(Preparer); ok && p.Prepare(c.ctx(), m.Name) {
		c.admitted = time.Time{}
	}
	for n := 0; n <= rt.cfg.Retries; n++ {
		now := c.now()
		if c.out.Attempts > 0 {
			if !now.Before(c.send.Deadline) {
				return false, true
			}
			// A fallback's first attempt is a further try of the request, too.
			if c.anyLeft(snapshot.ForModel(m.Name)) && !rt.budget.retry(now) {
				rt.metrics.exhausted.Inc()
				return false, true
			}
		}
		e, place, ok := c.decide(profile, m, &snapshot, now)
		if !ok {
			return false, false
		}
		if c.out.Attempts > 0 {
			c.metrics.retries.Inc()
		}
		c.out.Attempts++
		c.out.Endpoint = e.ID()
		e.Touch(now)
		again := c.attemptAt(e, place, m, data)
		c.endAttempt(again)
		if !again {
			if c.out.Status != 0 {
				c.out.Served = m.Name
			}
			return true, false
		}
		c.tried = append(c.tried, e)
	}
	return false, false
}

// decide chooses an endpoint of the snapshot and reserves a place there; false if
// there is none. Where all that the snapshot has were replaced since, which is no
// failure, it puts the newer one in its place.
func (c *call) decide(profile string, m Model, snapshot **endpoint.Snapshot, now time.Time) (*endpoint.Endpoint, endpoint.Reservation, bool) {
	rt := c.rt
	for {
		c.sched.Model, c.sched.Tried, c.sched.Now, c.sched.PoolVersion = m.Name, c.tried, now, (*snapshot).Version()
		e, place, err := rt.deps.Scheduler.Decide(profile, &c.sched, (*snapshot).ForModel(m.Name), nil, &c.decision)
		if !errors.Is(err, schedule.ErrUnknownProfile) { // that one decides nothing
			c.out.Decision = &c.decision
			if rt.decisions != nil {
				rt.decisions.RecordDecision(&c.out, c.pin != "")
			}
		}
		if err == nil {
			return e, place, true
		}
		none, ok := errors.AsType[*schedule.NoEndpointError](err)
		if !ok {
			rt.log.Error("no decision", "request", c.id, "model", m.Name, "profile", profile, "err", err)
			return nil, endpoint.Reservation{}, false
		}
		if newer := rt.deps.Endpoints.Snapshot(); newer != *snapshot {
			*snapshot = newer
			continue
		}
		if in := none.RetryAfter; in > 0 && (c.again == 0 || in < c.again) {
			c.again = in
		}
		return nil, endpoint.Reservation{}, false
	}
}

// anyLeft reports whether the pool has an endpoint that was not tried.
func (c *call) anyLeft(pool []*endpoint.Endpoint) bool {
	return c.pin == "" && len(pool) > len(c.tried)
}

// attemptAt is attempt with the place in flight that the decision reserved.
func (c *call) attemptAt(e *endpoint.Endpoint, place endpoint.Reservation, m Model, data []byte) (again bool) {
	defer place.Release()
	return c.attempt(e, m, data)
}

// attempt sends the request to one endpoint and relays its answer. again means
// that it failed before the client got anything and another may do better.
func (c *call) attempt(e *endpoint.Endpoint, m Model, data []byte) (again bool) {
	rt, o := c.rt, &c.out
	target, ok := e.Attachment().(*proxy.Target)
	if !ok {
		rt.log.Error("endpoint without a connection pool", "endpoint", e.ID())
		c.kind = proxy.KindDial
		return true
	}
	edit := openai.Edit{InjectUsage: rt.cfg.InjectUsage && c.route.usage}
	edit.InjectContinuous = edit.InjectUsage && c.charge != nil && rt.cfg.InjectContinuousUsage && rt.saysUsage(e)
	if name := e.UpstreamModel(m.Name); name != c.peek.Model {
		edit.Model = name
	}
	if order := e.Spec().PriorityOrder; order != engines.PriorityUnset && c.identity.HasPriority {
		edit.SetPriority, edit.Priority = true, c.identity.Priority
		if order == engines.PriorityLowFirst {
			edit.Priority = -edit.Priority
		}
	}
	if b, ok := c.charge.(Bounder); ok {
		edit.MaxTokens, edit.Path = b.OutputBound(m.Name), c.route.path
	}
	strip, stripAll := c.load(data, edit)
	c.shared = c.shared || target.Lingers()
	resp, err := rt.deps.Proxy.Send(c.ctx(), target, &c.send)
	now := time.Now()
	if err != nil {
		return c.failed(e, err, now)
	}
	if resp.Status >= 300 {
		v := judgeStatus(resp.Status, resp.Get("Retry-After"), e.Spec().Secret != "", now)
		v.tell(e, now)
		return c.engineError(e, m, resp, v)
	}

	c.tap.reset(c, resp.Get("Content-Type"), resp.Opaque(), openai.StreamOptions{
		Dialect: c.route.dialect, StripUsage: strip,
		// Asked for without include_usage it does nothing, until we add that.
		StripContinuous: stripAll || strip && c.peek.ContinuousUsage,
		WithholdError:   true,
	})
	events := c.tap.events
	h := c.w.Header()
	c.idHeaders(h)
	if isEventStream(resp.Get("Content-Type")) {
		h["Cache-Control"] = noCache
		h["X-Accel-Buffering"] = noBuffering
	}
	status := resp.Status
	c.at = e
	// A document of unknown length may be long in coming: its parts go out as
	// they come, too.
	exact := !events && resp.Get("Content-Length") != ""
	done, err := resp.Relay(c.w, &c.tap, proxy.Options{
		KeepLength: exact, BoundWrites: c.req.ProtoMajor != 1,
		NeedBody: !c.route.open && status == http.StatusOK,
	})
	o.FirstContent, o.BytesOut = done.FirstContent, done.Bytes
	if done.Started {
		o.Status = status
		c.noteUsage()
	}
	if !done.Started {
		delete(h, "Cache-Control")
		delete(h, "X-Accel-Buffering")
	}
	switch {
	case errors.Is(err, errErrorEvent):
		return c.engineEvent(e, m, c.tap.stream.ErrorData())
	case err != nil:
	case events && c.tap.stream.Failed():
		c.endedByEngine(e)
		return false
	case events && !c.route.open && !c.tap.stream.Ended():
		err = errUnfinished
	default:
		o.Result = ResultOK
		e.Succeeded(time.Now())
		if c.route.kind == routeStored && c.req.Method == http.MethodDelete {
			rt.pins.forget(c.route.response)
		}
		return false
	}
	if !done.Started {
		return c.failed(e, err, time.Now())
	}
	c.cut(e, err)
	return false
}

// noteUsage takes down what the answer has said so far that it cost, and how much
// of it there is. What is stored was counted when it was made.
func (c *call) noteUsage() {
	if c.route.kind == routeStored {
		return
	}
	o := &c.out
	o.Usage, o.HasUsage = c.tap.usage()
	switch {
	case c.tap.events:
		o.TextBytes, o.Events = o.BytesOut, c.tap.stream.Events()
	case c.tap.json:
		o.TextBytes = o.BytesOut
	}
}

// saysUsage reports whether the endpoint's engine says with each piece of a stream
// what it came to.
func (rt *Router) saysUsage(e *endpoint.Endpoint) bool {
	if told := e.Spec().Told; told != nil && told.Capabilities.ContinuousUsage {
		return true
	}
	if len(rt.deps.ContinuousUsage) == 0 {
		return false
	}
	name := e.Spec().Engine
	if name == "" {
		if load := e.Load(); load != nil {
			name = load.Engine
		}
	}
	return rt.deps.ContinuousUsage[name]
}

// errUnfinished: a stream came to its framing's end before its own.
var errUnfinished = errors.New("router: the stream ended without its last event")

// load puts the body as one endpoint gets it into c.send, and reports whether
// usage was asked for that the client does not want: at the end, and in each chunk.
func (c *call) load(data []byte, edit openai.Edit) (strip, stripAll bool) {
	switch {
	case c.route.kind == routeStored:
		return false, false // it has none
	case c.spool != nil:
		c.send.Open, c.send.Length = c.spool.edited(c.peek.ModelSpan, edit.Model)
		return false, false
	case c.shared:
		// The attempt before may still be read from; this one gets its own.
		c.parts, c.peek = nil, openai.Peek{}
		_ = openai.PeekBody(data, &c.peek) // which succeeded before
	}
	c.parts, c.send.Length = c.peek.Edit(data, edit, c.parts[:0])
	c.send.Body = c.parts
	return c.peek.Injects(edit)
}

var (
	noCache     = []string{"no-cache"} //nolint:gochecknoglobals // constant header values
	noBuffering = []string{"no"}       //nolint:gochecknoglobals // for nginx in front
)

// answering is called when the first bytes go to the client: the request's body
// is needed no more.
//
// A whole answer is what resets an endpoint's count of failures: one that begins
// every answer and ends none must not look healthy in between. But a probe that
// answers has shown enough, and others need not wait for its end.
func (c *call) answering() {
	c.dropBody()
	if c.spool != nil && !c.shared {
		c.spool.close(false)
	}
	if now := time.Now(); c.at.State(now) != endpoint.Closed {
		c.at.Succeeded(now)
	}
}

// dropBody gives up the request's body, which may be called twice.
func (c *call) dropBody() {
	if c.shared {
		c.body.forget()
		return
	}
	c.body.release()
}

// failed notes an exchange that ended before the client got anything.
func (c *call) failed(e *endpoint.Endpoint, err error, now time.Time) (again bool) {
	pe, ok := errors.AsType[*proxy.Error](err)
	if !ok {
		pe = &proxy.Error{Kind: proxy.KindProtocol, Err: err}
	}
	if pe.Kind == proxy.KindCanceled || pe.Kind == proxy.KindClient {
		c.canceled()
		return false
	}
	v := judgeError(pe.Kind)
	v.tell(e, now)
	c.kind = pe.Kind
	c.rt.log.Warn("attempt failed", "request", c.id, "endpoint", e.ID(), "kind", pe.Kind.String(), "err", pe.Err)
	return true
}

// cut ends an answer that broke off after its first byte.
func (c *call) cut(e *endpoint.Endpoint, err error) {
	o := &c.out
	pe, ok := errors.AsType[*proxy.Error](err)
	if ok && (pe.Kind == proxy.KindCanceled || pe.Kind == proxy.KindClient) {
		c.canceled()
		return
	}
	if rest := c.tap.Flush(); len(rest) > 0 {
		n, _ := c.w.Write(rest)
		o.BytesOut += int64(n)
		c.noteUsage()
	}
	if c.tap.events && c.tap.stream.Done() && !c.tap.stream.Failed() {
		o.Result = ResultOK // nothing but the framing's end is missing
		_ = http.NewResponseController(c.w).Flush()
		return
	}
	kind := proxy.KindCut
	if ok {
		kind = pe.Kind
	}
	if c.tap.events && c.tap.stream.Failed() {
		c.endedByEngine(e)
		return
	}
	o.Result = ResultCut
	judgeError(kind).tell(e, time.Now())
	c.rt.log.Warn("answer cut", "request", c.id, "endpoint", e.ID(), "kind", kind.String(), "bytes", o.BytesOut, "err", err)
	if !c.tap.events {
		c.broken = true // a document that ends early must not look whole
		return
	}
	ev := exchangeError(kind)
	o.Code = ev.Code
	if c.tap.stream.MidEvent() {
		_, _ = c.w.Write([]byte(openai.EventSeparator))
	}
	_, _ = c.w.Write(c.errorEvent(ev))
	_ = http.NewResponseController(c.w).Flush()
}

// endedByEngine ends a stream that its engine ended with an error event, which
// the client has got. After content the breaker is told nothing: whose fault it is
// nobody can tell. An engine that fails before any must not look free for it.
func (c *call) endedByEngine(e *endpoint.Endpoint) {
	c.out.Result = ResultCut
	if c.tap.stream.MidEvent() { // without its blank line clients do not see it
		_, _ = c.w.Write([]byte(openai.EventSeparator))
	}
	if c.tap.stream.SawContent() {
		return
	}
	now := time.Now()
	judgeEvent(openai.ErrorStatus(c.tap.stream.ErrorData()), e.Spec().Secret != "", now).tell(e, now)
}

// canceled notes that the client left. If it was the server that ended the
// context, the client is still there and must not take what it got for all.
func (c *call) canceled() {
	c.out.Result = ResultCanceled
	c.broken = true
}

// exchangeError is what a client is told of a failed exchange.
func exchangeError(k proxy.Kind) *openai.Error {
	switch k {
	case proxy.KindDial:
		e := openai.UpstreamFailed()
		e.Message = "No engine could be reached. Try again shortly; if it happens again, tell the operator the request's id (header x-request-id)."
		return e
	case proxy.KindHeaderTimeout:
		return openai.UpstreamTimeout("an answer")
	case proxy.KindFirstTokenTimeout:
		return openai.UpstreamTimeout("its first token")
	case proxy.KindIdleTimeout:
		return openai.UpstreamTimeout("its next token")
	case proxy.KindTotalTimeout:
		return openai.UpstreamTimeout("the whole answer")
	case proxy.KindBody:
		return openai.Overloaded(bodyRetryAfter)
	}
	return openai.UpstreamFailed()
}

// plainQuery escapes what a request line cannot carry; a client of HTTP/2 can
// send it all the same.
func plainQuery(q string) string {
	odd := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	if !strings.ContainsFunc(q, odd) {
		return q
	}
	var b strings.Builder
	for _, c := range []byte(q) {
		if odd(rune(c)) {
			fmt.Fprintf(&b, "%%%02X", c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

func isEventStream(contentType string) bool { return mediaType(contentType, "text/event-stream") }

func isMultipart(contentType string) bool {
	return len(contentType) >= 10 && strings.EqualFold(contentType[:10], "multipart/")
}

// mediaType reports whether a Content-Type is of the given media type.
func mediaType(contentType, want string) bool {
	if len(contentType) < len(want) || !strings.EqualFold(contentType[:len(want)], want) {
		return false
	}
	rest := strings.TrimLeft(contentType[len(want):], " \t")
	return rest == "" || rest[0] == ';'
}
