package webui

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Problem is an error that a page explains. Err is for the log alone.
type Problem struct { //nolint:errname // it is a page before it is an error
	Status int    // 4xx or 5xx; 0 is 500
	Title  string // what happened, in one line; empty: by Status
	Text   string // what to do next
	Next   []NavItem
	// RetryAfter is said in the header of that name; 0 says nothing.
	RetryAfter time.Duration
	Err        error
}

// Error returns the title and the cause.
func (p *Problem) Error() string {
	text := "webui: " + strconv.Itoa(p.Status) + " " + cmp.Or(p.Title, http.StatusText(p.Status))
	if p.Err != nil {
		text += ": " + p.Err.Error()
	}
	return text
}

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Err }

// redirect is an answer that leads elsewhere on this site.
type redirect struct{ path string }

func (r *redirect) Error() string { return "webui: see " + r.path }

func notFound() *Problem {
	return &Problem{
		Status: http.StatusNotFound, Title: "There is nothing here",
		Text: "The address is misspelled, or what was here is gone.",
		Next: []NavItem{{Label: "Start page", Path: "/"}},
	}
}

// Fail answers with the page of an error, as the error of a [Route]'s handler is
// answered. It is for handlers behind [Site.Guard] or behind none.
func (s *Site) Fail(w http.ResponseWriter, r *http.Request, err error) {
	s.fail(w, r, VisitFrom(r.Context()), err)
}

// NotFound is the problem of an address where nothing is.
func NotFound() *Problem { return notFound() }

// fail answers with what went wrong.
func (s *Site) fail(w http.ResponseWriter, r *http.Request, v Visit, err error) {
	a, _ := w.(*answer)
	if to, ok := errors.AsType[*redirect](err); ok {
		http.Redirect(w, r, to.path, http.StatusSeeOther)
		return
	}
	if a != nil && a.begun || errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		s.deps.Logger.DebugContext(r.Context(), "a page ended early", "route", r.Pattern, "err", err)
		return
	}
	if a != nil {
		a.bounded = r.ProtoMajor != 1 // a script's, too: it is short
	}
	p, ok := errors.AsType[*Problem](err)
	if !ok {
		if tooLarge(err) {
			p = tooMuch(maxForm)
		} else {
			p = &Problem{Err: err}
		}
	}
	said := *p
	said.Status = cmp.Or(said.Status, http.StatusInternalServerError)
	if said.Title == "" {
		s.explain(r, &said)
	}
	if said.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(max(1, int64((said.RetryAfter+time.Second-1)/time.Second)), 10))
	}
	if v.state != nil && v.state.json {
		s.failJSON(w, said)
		return
	}
	err = s.Page(w, r, said.Status, Page{Title: said.Title, Body: "problem.html", Data: said})
	if err != nil {
		s.deps.Logger.ErrorContext(r.Context(), "an error page cannot be rendered", "err", err)
		http.Error(w, said.Title, said.Status)
	}
}

// explain says what is not the visitor's fault, and has the log say more: by the route
// and not by the path, of which the token of a link may be a part.
func (s *Site) explain(r *http.Request, p *Problem) {
	if p.Status == http.StatusServiceUnavailable {
		p.Title, p.Text = "This is not possible at the moment", "What this needs cannot be reached. Nothing is lost. Try again in a minute."
		p.RetryAfter = cmp.Or(p.RetryAfter, 30*time.Second)
		s.deps.Logger.WarnContext(r.Context(), "a page was unavailable", "route", r.Pattern, "err", p.Err)
		return
	}
	number := s.number()
	p.Title = "Something went wrong here"
	p.Text = "It is not your fault. Try again; if it stays like this, tell whoever runs this site, with the number " + number + "."
	s.deps.Logger.ErrorContext(r.Context(), "a page failed", "route", r.Pattern, "number", number, "err", p.Err)
}

// number makes a number by which a fault is found in the log.
func (s *Site) number() string {
	var b [5]byte
	if _, err := io.ReadFull(s.deps.Random, b[:]); err != nil {
		return rand.Text()[:8]
	}
	const digits = "abcdefghijkmnpqrstuvwxyz23456789"
	var text strings.Builder
	for _, c := range b {
		text.WriteByte(digits[c%32])
	}
	return text.String()
}

// failJSON answers a script, in the shape of the API.
func (s *Site) failJSON(w http.ResponseWriter, p Problem) {
	type fault struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	kind := "invalid_request_error"
	if p.Status >= http.StatusInternalServerError {
		kind = "server_error"
	}
	text, err := json.Marshal(map[string]fault{"error": {Message: p.Title + ". " + p.Text, Type: kind}})
	if err != nil {
		text = []byte("{}") // strings always encode
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(p.Status)
	_, _ = w.Write(text)
}
