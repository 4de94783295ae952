package router

import (
	"slices"
	"time"

	"github.com/llmgw/llmgw/router/openai"
)

// What is stateful of /v1/responses: an engine keeps its answers, and only that
// engine can continue one, show it or cancel it.

const (
	storedKnown   = "known"
	storedUnknown = "unknown"
	storedGone    = "gone"
)

// serveStored serves a request about one stored response. It runs on no GPU, so
// it is charged as a request of no tokens and admitted at once.
func (c *call) serveStored() *openai.Error {
	rt, id := c.rt, c.route.response
	where, ok := rt.pins.find(c.out.Start, id)
	if !ok || where.tenant != c.identity.Tenant {
		rt.metrics.pinned.WithLabelValues(storedUnknown).Inc()
		return openai.ResponseNotFound(id)
	}
	catalog := rt.deps.Models.Catalog()
	m, ok := catalog.Resolve(where.model)
	if !ok || !c.identity.allows(m.Name) {
		return openai.ResponseNotFound(id)
	}
	c.metrics = rt.metrics.model(m.Name)
	c.out.Model = m.Name
	if !c.pinTo(where.endpoint, m) {
		return openai.ResponseNotFound(id)
	}
	if rt.deps.Charger != nil {
		charge, err := rt.deps.Charger.Charge(c.ctx(), Estimate{Identity: &c.identity, Model: m.Name, HasMaxTokens: true})
		if err != nil {
			return c.hookError("charge", err)
		}
		c.charge = charge
	}
	c.peek = openai.Peek{Model: m.Name}
	return c.dispatch(catalog, m, nil)
}

// refers looks at what a request of the Responses API says about what an engine
// keeps, and returns the model that it goes on with.
func (c *call) refers(catalog Catalog, m Model) (Model, *openai.Error) {
	deps := &c.rt.deps
	c.store = c.route.stores && !c.peek.NoStore
	if c.peek.Background && (deps.Charger != nil || deps.Admitter != nil) {
		// Its answer is here before its work is done: that would be admitted and
		// paid for as if it were none.
		return m, openai.UnsupportedParam("background", "Leave it out; the answer can be streamed.")
	}
	if c.peek.HasConversation && !c.alone(m) {
		// Whose it is, and which engine has it, nobody knows.
		return m, openai.UnsupportedParam("conversation", "Go on from an answer with previous_response_id, or send the whole conversation as input.")
	}
	if c.peek.HasPrevious {
		return c.continues(catalog, m)
	}
	return m, nil
}

// alone reports whether one caller has one engine: then there is nothing to know
// about where what it kept is, and whose. That engine becomes the only one that
// may be asked.
func (c *call) alone(m Model) bool {
	if c.rt.deps.Caller != nil {
		return false
	}
	pool := c.rt.deps.Endpoints.Snapshot().ForModel(m.Name)
	if len(pool) != 1 {
		return false
	}
	c.pin = pool[0].ID()
	return true
}

// continues prepares a request that goes on from a stored response: it may go
// only to the endpoint that has it. One that nobody knows, because it was
// forgotten, deleted or never there, may be anybody's. It returns the model that
// the endpoint serves, which is a fallback's if that answered before.
func (c *call) continues(catalog Catalog, m Model) (Model, *openai.Error) {
	rt, id := c.rt, c.peek.Previous
	where, ok := rt.pins.find(c.out.Start, id)
	if !ok {
		rt.metrics.pinned.WithLabelValues(storedUnknown).Inc()
		if c.alone(m) {
			return m, nil
		}
		return m, openai.PreviousNotFound(id)
	}
	if where.tenant != c.identity.Tenant || !c.identity.allows(where.model) {
		// An answer can be had out of who goes on from it.
		rt.metrics.pinned.WithLabelValues(storedUnknown).Inc()
		return m, openai.PreviousNotFound(id)
	}
	if where.model != m.Name && slices.Contains(m.Fallbacks, where.model) {
		if f, ok := catalog.Resolve(where.model); ok && c.identity.allows(f.Name) {
			m = f
		}
	}
	if !c.pinTo(where.endpoint, m) {
		return m, openai.PreviousNotFound(id)
	}
	return m, nil
}

// pinTo makes an endpoint the only one that may be asked; false if it serves the
// model no more.
func (c *call) pinTo(id string, m Model) bool {
	c.pin = id
	for _, e := range c.rt.deps.Endpoints.Snapshot().ForModel(m.Name) {
		if e.ID() == id {
			c.rt.metrics.pinned.WithLabelValues(storedKnown).Inc()
			return true
		}
	}
	c.rt.metrics.pinned.WithLabelValues(storedGone).Inc()
	return false
}

// stores notes that the endpoint which answers has the response id of the model.
func (c *call) stores(id string) {
	if plainName(id, maxResponseID) {
		c.rt.pins.learn(time.Now(), id, pin{endpoint: c.at.ID(), model: c.sched.Model, tenant: c.identity.Tenant})
	}
}
