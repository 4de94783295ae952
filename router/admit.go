package router

import (
	"strings"
	"time"

	"github.com/llmgw/llmgw/router/openai"
)

// wakes waits until m can serve the request, if that is to be hoped for. What refers to
// one endpoint is not served by another, and waits for none.
func (c *call) wakes(m Model) *openai.Error {
	waker := c.rt.deps.Waker
	if waker == nil || c.pin != "" {
		return nil
	}
	if c.lease != nil {
		c.release(time.Now())
	}
	c.wake.Model, c.wake.Explain = m.Name, c.mayExplain()
	if err := waker.Wake(c.ctx(), &c.wake); err != nil {
		return c.hookError("wake", err)
	}
	return nil
}

// noEndpoint is the end of a request that nothing serves.
func (c *call) noEndpoint(why *openai.Error) *openai.Error {
	if c.out.Result != ResultCanceled {
		c.out.Result = ResultNoEndpoint
	}
	return why
}

// admit waits until the request may run on engines of m. The lease that it has
// for another model's is given back first: a request that waits holds nothing
// that others wait for.
func (c *call) admit(m Model) *openai.Error {
	admitter := c.rt.deps.Admitter
	if admitter == nil {
		return nil
	}
	if c.lease != nil {
		c.release(time.Now())
	}
	lease, err := admitter.Admit(c.ctx(), Admission{
		Identity: &c.identity, AskedBand: c.askedBand(), RemoteAddr: c.req.RemoteAddr, Model: m.Name,
		Session: c.out.Session, PromptBytes: c.out.PromptBytes, MaxTokens: c.peek.MaxTokens,
		Background: c.peek.Background && c.route.stores,
	})
	if err != nil {
		return c.hookError("admit", err)
	}
	c.lease = lease
	if timed, ok := lease.(TimedLease); ok {
		c.admitted, _ = timed.AdmittedAt()
	}
	return nil
}

// release gives the lease back.
func (c *call) release(now time.Time) {
	lease := c.lease
	c.lease = nil
	if timed, ok := lease.(TimedLease); ok {
		timed.ReleaseAt(now)
		return
	}
	lease.Release()
}

// now is the time, as it was read when the request was admitted if that was just now.
func (c *call) now() time.Time {
	now := c.admitted
	c.admitted = time.Time{}
	if now.IsZero() {
		now = time.Now()
	}
	return now
}

// askedBand is what the header of the band says. Sent more than once it is all
// of it, as a list that no band is called by.
func (c *call) askedBand() string {
	switch v := c.req.Header[c.rt.cfg.BandHeader]; len(v) {
	case 0:
		return ""
	case 1:
		return v[0]
	default:
		return strings.Join(v, ", ")
	}
}
