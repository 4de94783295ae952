package gateway

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/limit"
	"github.com/llmgw/llmgw/router"
)

// caller is an identity in the terms of the router and of the limiter, made once
// for all its requests.
type caller struct {
	id       *auth.Identity
	models   *models
	identity router.Identity // its Ref is this caller
	subject  limit.Subject
	err      error // why the subject's budget cannot be enforced; nil: it can
}

// Identify implements [router.Caller]. Who was identified before, by
// [Gateway.Protect], is not asked again.
func (v *governor) Identify(r *http.Request) (router.Identity, error) {
	id, ok := auth.FromContext(r.Context())
	if !ok {
		var err error
		if id, err = v.auth.Authenticate(r); err != nil {
			if refused, ok := errors.AsType[*auth.RefusedError](err); ok {
				return router.Identity{}, authRefusal(refused)
			}
			return router.Identity{}, err
		}
	}
	return v.callers.get(id, v.newCaller).identity, nil
}

func (v *governor) newCaller(id *auth.Identity) *caller {
	c := &caller{id: id, models: v.models}
	// Fairness is between keys: all that one key does is one tenant's, whatever
	// sessions it names, and so is what the key does that replaces it.
	c.identity = router.Identity{Tenant: id.Lineage(), Band: id.Band(), MayUse: c.mayUse, MayExplain: id.MayExplain(), Ref: c}
	if c.subject, c.err = LimitSubject(id, &v.zones); c.err != nil {
		v.log.Error("a key's budget cannot be enforced; its requests are refused", "key", id.KeyID(), "err", c.err)
	}
	return c
}

// mayUse reports whether the key may use the canonical model. It is asked of the
// catalog as it is now: a name that has become another model's alias since the
// request was resolved is none.
func (c *caller) mayUse(model string) bool {
	at := c.models.at.Load()
	_, canonical := at.by[model]
	return canonical && c.id.MayUse(at.keys, model)
}

// callerOf returns who sent a request; nil: nobody that is known by a key.
func callerOf(id *router.Identity) *caller {
	c, _ := id.Ref.(*caller)
	return c
}

// LimitSubject returns a key's limits in the limiter's terms: exactly what is
// enforced. zones remembers time zones. It fails for a budget that this machine
// cannot enforce, as where its time zone is not known here; the rest of the result
// holds then, too.
func LimitSubject(id *auth.Identity, zones *limit.Zones) (limit.Subject, error) {
	s := limit.Subject{ID: id.Lineage()}
	lim := id.Limits()
	for _, l := range []struct {
		from *int64
		to   *int64
	}{
		{lim.RequestsPerMinute, &s.Limits.RequestsPerMinute},
		{lim.TokensPerMinute, &s.Limits.TokensPerMinute},
		{lim.Concurrency, &s.Limits.Concurrency},
	} {
		if l.from != nil {
			*l.to = *l.from
		}
	}
	b, ok := id.Budget()
	if !ok {
		return s, nil
	}
	var err error
	s.Budget, err = zones.NewBudget(b.Nanos, limit.Period(b.Period), b.Zone) // the numbers are the same, as a test says
	if err != nil {
		return s, fmt.Errorf("gateway: the budget of key %s: %w", id.KeyID(), err)
	}
	return s, nil
}

// Protect puts [Deps].Authenticator before next, but for what is exempt. Put it
// around the whole mux of a listener for clients: a route that is added later needs
// a key then, too. Refusals have the shape of the API that their path speaks.
// Without an Authenticator it returns next.
func (g *Gateway) Protect(next http.Handler, exempt auth.Exempt) http.Handler {
	if g.governor == nil || g.governor.auth == nil {
		return next
	}
	return g.governor.auth.Middleware(next, exempt, func(w http.ResponseWriter, r *http.Request, err *auth.RefusedError) {
		g.router.Refuse(w, r, authRefusal(err))
	})
}

// KeyModels is the catalog as keys' lists of models are read against it: as it is
// now, aliases included.
func (g *Gateway) KeyModels() auth.Models { return g.models.at.Load().keys }
