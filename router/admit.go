package router

import (
	"strings"

	"github.com/llmgw/llmgw/router/openai"
)

// admit waits until the request may run on engines of m. The lease that it has
// for another model's is given back first: a request that waits holds nothing
// that others wait for.
func (c *call) admit(m Model) *openai.Error {
	admitter := c.rt.deps.Admitter
	if admitter == nil {
		return nil
	}
	if held := c.lease; held != nil {
		c.lease = nil
		held.Release()
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
	return nil
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
