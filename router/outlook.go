package router

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/llmgw/llmgw/router/internal/secret"
	"github.com/llmgw/llmgw/router/openai"
	"github.com/llmgw/llmgw/router/schedule"
)

// Question is a request that is not to be served: what would become of it is
// asked.
type Question struct {
	// Path is the request's. Empty: /v1/chat/completions.
	Path string
	// Body is what the client would send: JSON. A path that takes a form is asked
	// about with its fields as JSON, of which "model" and "user" count.
	Body []byte
	// Identity is who would send it. Deps.Caller is not asked.
	Identity Identity
	// Session and Band are what the headers Config.SessionHeader and
	// Config.BandHeader would say; empty: they are not there.
	Session, Band string
}

// Outlook is what would become of a request, and why.
type Outlook struct {
	At time.Time
	// Path is the request's, as metrics and records show it.
	Path string
	// Asked is the model as the body names it, Model its canonical name.
	Asked, Model string
	// Stream, PromptBytes and MaxTokens are the body's; MaxTokens 0: it sets none.
	Stream      bool
	PromptBytes int
	MaxTokens   int
	// Session: the request has an affinity key, by its header or its body.
	Session bool
	// Pin is the only endpoint that may be asked, since the request goes on from
	// what that one keeps; empty: any.
	Pin string
	// Charged: a hook would be asked whether the request may be paid for. It was
	// not asked here.
	Charged bool
	// Retries is how many further endpoints each turn may try after failures, and
	// RetriesLeft how many retries of any request the budget has left now.
	Retries, RetriesLeft int
	// Turns are the models in the order in which they would be tried: that asked
	// for, then its fallbacks.
	Turns []Turn
}

// Turn is one model's part of an Outlook.
type Turn struct {
	// Model is the canonical name, Profile the routing profile.
	Model, Profile string
	// Skipped says why a fallback is never tried; SkipUnset: it may be.
	Skipped Skip
	// Admission is what Deps.Admitter would be asked; nil without one. It was not
	// asked.
	Admission *Admission
	// Decision is what the scheduler would do now; nil where the turn is skipped
	// or no decision can be made.
	Decision *schedule.Explanation
	// Err is why no endpoint would be found: a *schedule.NoEndpointError, or
	// what is wrong with the profile. Nil: there is one.
	Err error
}

// Skip is why a fallback is not tried.
type Skip uint8

// The reasons.
const (
	SkipUnset Skip = iota
	// SkipUnknown: the catalog has no such model.
	SkipUnknown
	// SkipForbidden: the caller may not use it.
	SkipForbidden
	// SkipPinned: what the request goes on from is at one endpoint only.
	SkipPinned
)

// String returns the reason in lower case.
func (s Skip) String() string {
	switch s {
	case SkipUnknown:
		return "unknown"
	case SkipForbidden:
		return "forbidden"
	case SkipPinned:
		return "pinned"
	case SkipUnset:
	}
	return "unset"
}

// ErrUnknownModel: there is no model of that name, or the caller may not use it.
var ErrUnknownModel = errors.New("router: unknown model")

// UnknownModelError names the models that there are. It unwraps to
// ErrUnknownModel.
type UnknownModelError struct {
	Model string
	// Models are those that the caller may use, by name.
	Models []string
}

// namedModels bounds the models that an error's text names.
const namedModels = 50

// Error names the models.
func (e *UnknownModelError) Error() string {
	names, more := e.Models, ""
	if len(names) > namedModels {
		more = fmt.Sprintf(" and %d more", len(names)-namedModels)
		names = names[:namedModels]
	}
	if len(names) == 0 {
		return fmt.Sprintf("%v %.128q: there is none at all", ErrUnknownModel, secret.Without(e.Model))
	}
	return fmt.Sprintf("%v %.128q; there are %s%s", ErrUnknownModel, secret.Without(e.Model), strings.Join(names, ", "), more)
}

// Unwrap returns ErrUnknownModel.
func (e *UnknownModelError) Unwrap() error { return ErrUnknownModel }

// ErrPath: the path is none on which a body's model says where a request goes.
var ErrPath = errors.New("router: no path of an engine")

// Outlook says what would become of a request that came now. It serves nothing,
// asks no hook, takes no place in flight, no probe and no retry, and counts
// nothing.
//
// Errors wrap ErrPath, are an [*UnknownModelError], or an [*openai.Error]: what
// the client would get for the body.
func (rt *Router) Outlook(q *Question) (*Outlook, error) {
	at, err := questionRoute(q.Path)
	if err != nil {
		return nil, err
	}
	if n := int64(len(q.Body)); n > rt.cfg.MaxBodyBytes {
		return nil, openai.BodyTooLarge(rt.cfg.MaxBodyBytes)
	}
	var peek openai.Peek
	if err := openai.PeekBody(q.Body, &peek); err != nil {
		return nil, openai.PeekFailed(err)
	}
	now := time.Now()
	catalog := rt.deps.Models.Catalog()
	m, ok := catalog.Resolve(peek.Model)
	if !ok || !q.Identity.allows(m.Name) {
		return nil, unknownModel(catalog, &q.Identity, peek.Model)
	}
	o := &Outlook{
		At: now, Path: at.label, Asked: peek.Model, Stream: peek.Stream, PromptBytes: at.promptBytes(&peek),
		MaxTokens: int(min(peek.MaxTokens, 1<<30)), Charged: rt.deps.Charger != nil,
		Retries: rt.cfg.Retries, RetriesLeft: rt.budget.left(now),
	}
	if at.dialect == openai.DialectResponses {
		where, known := rt.pins.peek(now, peek.Previous)
		ref, err := rt.refers(&peek, &q.Identity, catalog, m, where, known)
		if err != nil {
			return nil, err
		}
		m, o.Pin = ref.model, ref.pin
	}
	o.Model = m.Name
	session := cmp.Or(validSession(q.Session), peek.User)
	o.Session = session != ""
	req := schedule.Request{
		Tenant: q.Identity.Tenant, Band: cmp.Or(q.Identity.Band, q.Band), Session: session, Pin: o.Pin,
		PromptBytes: o.PromptBytes, MaxTokens: o.MaxTokens, Stream: o.Stream, Now: now,
	}
	if rt.readsPrompt(at, &peek, o.Pin) {
		if p := rt.deps.Prompts.Prompt(at.path, &peek, q.Body); p != nil {
			defer p.Release()
			req.Prompt = p
		}
	}
	o.Turns = append(o.Turns, rt.turn(q, o, &req, m))
	for _, name := range m.Fallbacks {
		f, ok := catalog.Resolve(name)
		switch {
		case !ok:
			o.Turns = append(o.Turns, Turn{Model: name, Skipped: SkipUnknown})
		case !q.Identity.allows(f.Name):
			o.Turns = append(o.Turns, Turn{Model: f.Name, Skipped: SkipForbidden})
		case o.Pin != "":
			o.Turns = append(o.Turns, Turn{Model: f.Name, Skipped: SkipPinned})
		default:
			o.Turns = append(o.Turns, rt.turn(q, o, &req, f))
		}
	}
	return o, nil
}

// turn looks at one model.
func (rt *Router) turn(q *Question, o *Outlook, req *schedule.Request, m Model) Turn {
	t := Turn{Model: m.Name, Profile: cmp.Or(m.Profile, rt.cfg.DefaultProfile)}
	if rt.deps.Admitter != nil {
		t.Admission = &Admission{
			Identity: &q.Identity, AskedBand: q.Band, Model: m.Name, Session: req.Session,
			PromptBytes: o.PromptBytes, MaxTokens: int64(o.MaxTokens),
		}
	}
	req.Model = m.Name
	pool := rt.deps.Endpoints.Snapshot()
	look, err := rt.deps.Scheduler.Outlook(t.Profile, req, pool.ForModel(m.Name))
	if now := rt.deps.Endpoints.Snapshot(); err != nil && now != pool { // as a request does
		look, err = rt.deps.Scheduler.Outlook(t.Profile, req, now.ForModel(m.Name))
	}
	t.Err = err
	if look != nil {
		t.Decision = look.Explain()
	}
	return t
}

// questionRoute is the route of a path that a body's model routes.
func questionRoute(path string) (route, error) {
	path = cmp.Or(path, "/v1/chat/completions")
	refuse := func(why string) (route, error) {
		known := slices.Sorted(maps.Keys(inferencePaths))
		return route{}, fmt.Errorf("%w: %.128q %s; want one such as %s", ErrPath, path, why, strings.Join(known, ", "))
	}
	u, err := url.ParseRequestURI(path)
	if err != nil || u.Host != "" || u.RawQuery != "" {
		return refuse("is no path alone")
	}
	at := lookup(&http.Request{Method: http.MethodPost, URL: u})
	if at.kind != routeInference {
		return refuse("is not served, or not by what a body says")
	}
	return at, nil
}

func unknownModel(catalog Catalog, id *Identity, model string) error {
	e := &UnknownModelError{Model: model}
	for _, m := range catalog.List() {
		if id.allows(m.Name) {
			e.Models = append(e.Models, m.Name)
		}
	}
	return e
}
