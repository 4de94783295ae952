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
	if err := c.pay(Estimate{Model: m.Name, Bounded: true, Answers: 1}); err != nil {
		return err
	}
	c.peek = openai.Peek{Model: m.Name}
	return c.dispatch(catalog, m, nil, nil)
}

// refers looks at what a request of the Responses API says about what an engine
// keeps, and returns the model that it goes on with.
func (c *call) refers(catalog Catalog, m Model) (Model, *openai.Error) {
	rt := c.rt
	c.store = c.route.stores && !c.peek.NoStore
	var where pin
	known := false
	if c.peek.HasPrevious {
		where, known = rt.pins.find(c.out.Start, c.peek.Previous)
	}
	ref, err := rt.refers(&c.peek, &c.identity, catalog, m, where, known)
	if ref.state != "" {
		rt.metrics.pinned.WithLabelValues(ref.state).Inc()
	}
	if err != nil {
		return m, err
	}
	c.pin = ref.pin
	return ref.model, nil
}

// reference is what a request of the Responses API refers to.
type reference struct {
	model Model
	pin   string // the only endpoint that may be asked; empty: any
	state string // of the previous response, as metrics show it; empty: none was named
}

// refers says what a body refers to. where is what is remembered of the previous
// response, if known. It changes nothing.
func (rt *Router) refers(p *openai.Peek, id *Identity, catalog Catalog, m Model, where pin, known bool) (reference, *openai.Error) {
	ref := reference{model: m}
	if p.Background && rt.deps.Charger != nil {
		// Its answer is here before its work is done: that would be paid for as if
		// it were none.
		return ref, openai.UnsupportedParam("background", "Leave it out; the answer can be streamed.")
	}
	alone, isAlone := rt.alone(m)
	if p.HasConversation {
		if !isAlone {
			// Whose it is, and which engine has it, nobody knows.
			return ref, openai.UnsupportedParam("conversation", "Go on from an answer with previous_response_id, or send the whole conversation as input.")
		}
		ref.pin = alone
	}
	switch {
	case !p.HasPrevious:
		return ref, nil
	case !known && isAlone:
		ref.state, ref.pin = storedUnknown, alone
		return ref, nil
	case !known, where.tenant != id.Tenant, !id.allows(where.model):
		// An answer can be had out of who goes on from it: one of somebody else's
		// is not known here.
		ref.state = storedUnknown
		return ref, openai.PreviousNotFound(p.Previous)
	}
	if where.model != m.Name && slices.Contains(m.Fallbacks, where.model) {
		if f, ok := catalog.Resolve(where.model); ok && id.allows(f.Name) {
			ref.model = f
		}
	}
	ref.pin = where.endpoint
	if ref.state = rt.pinState(where.endpoint, ref.model); ref.state == storedGone {
		return ref, openai.PreviousNotFound(p.Previous)
	}
	return ref, nil
}

// alone returns the endpoint of the model where one caller has one engine: then
// there is nothing to know about where what it kept is, and whose. That engine is
// the only one that may be asked.
func (rt *Router) alone(m Model) (id string, ok bool) {
	if rt.deps.Caller != nil {
		return "", false
	}
	pool := rt.deps.Endpoints.Snapshot().ForModel(m.Name)
	if len(pool) != 1 {
		return "", false
	}
	return pool[0].ID(), true
}

// pinTo makes an endpoint the only one that may be asked; false if it serves the
// model no more.
func (c *call) pinTo(id string, m Model) bool {
	c.pin = id
	state := c.rt.pinState(id, m)
	c.rt.metrics.pinned.WithLabelValues(state).Inc()
	return state == storedKnown
}

// pinState says whether the endpoint still serves the model.
func (rt *Router) pinState(id string, m Model) string {
	for _, e := range rt.deps.Endpoints.Snapshot().ForModel(m.Name) {
		if e.ID() == id {
			return storedKnown
		}
	}
	return storedGone
}

// stores notes that the endpoint which answers has the response id of the model.
func (c *call) stores(id string) {
	if plainName(id, maxResponseID) {
		c.rt.pins.learn(time.Now(), id, pin{endpoint: c.at.ID(), model: c.sched.Model, tenant: c.identity.Tenant})
	}
}
