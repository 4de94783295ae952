package webui

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"runtime/debug"
	"time"
)

const (
	maxForm = 64 << 10
	// bodyTime is how long a body may take.
	bodyTime = 30 * time.Second
	// What is read and thrown away of a body that is too large, so that a browser gets
	// to read the answer: it does not while it still sends.
	mostSpilled = 16 << 20
	spillTime   = 10 * time.Second
	// strayTime is how long a body may take that has no place where it is sent.
	strayTime = time.Second
	// pageTime is how long a client may take to read an answer on HTTP/2.
	pageTime = 30 * time.Second

	formField  = "form_token"
	formHeader = "X-Form-Token"

	policy       = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	scriptPolicy = policy + "; script-src 'self'; connect-src 'self'"
)

// guarded puts everything before a route's handler that has to be there.
func (s *Site) guarded(rt Route) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		// What a script asks for may be long: who makes it bounds each piece.
		w := &answer{ResponseWriter: out, bounded: r.ProtoMajor != 1 && !rt.JSON}
		v := Visit{state: &state{site: s, w: w, r: r, access: rt.Access, json: rt.JSON}}
		r = r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
		v.state.r = r
		s.headers(w, r, rt.Script)
		bound(w, r, rt.Method == http.MethodPost)
		defer func() { //nolint:contextcheck // r has it
			fault := recover()
			if fault == nil {
				return
			}
			if err, ok := fault.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				s.deps.Logger.ErrorContext(r.Context(), "a page panicked", "route", rt.Method+" "+rt.Path, "err", fault, "stack", string(debug.Stack()))
			}
			if w.begun {
				panic(http.ErrAbortHandler) // the connection ends, so that nobody takes what there is for all
			}
			s.fail(w, r, v, &Problem{Status: http.StatusInternalServerError})
		}()
		err := s.admit(w, r, rt, v)
		if err == nil {
			err = rt.Handler(w, r, v)
		}
		if err != nil {
			s.fail(w, r, v, err)
		}
	})
}

// bound has a body come to an end in time that nobody reads: net/http waits for it
// before a connection is used again or closed, and by itself for ever. A connection
// would cost a stranger nothing and never end.
func bound(w http.ResponseWriter, r *http.Request, form bool) {
	if r.ContentLength == 0 {
		return
	}
	long := spillTime // a refusal is read by browsers that have sent all
	if !form {
		long = strayTime
		if r.ProtoMajor == 1 {
			w.Header().Set("Connection", "close") // the answer need not wait for the end
		}
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(long)) // what cannot has no slow clients
}

// headers are on every answer.
func (s *Site) headers(w http.ResponseWriter, r *http.Request, script bool) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	if script {
		h.Set("Content-Security-Policy", scriptPolicy)
	}
	h.Set("X-Content-Type-Options", "nosniff")
	// Not no-referrer: browsers would send "Origin: null" with the site's own forms,
	// and over plain HTTP that is all they say of where a form comes from.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Cookie")
	if s.https(r) {
		h.Set("Strict-Transport-Security", "max-age=63072000; includeSubDomains")
	}
}

// admit lets a request through or says why not.
func (s *Site) admit(w http.ResponseWriter, r *http.Request, rt Route, v Visit) error {
	if rt.Method != http.MethodPost {
		r.Body = http.NoBody
	} else if s.cross.Check(r) != nil {
		return &Problem{
			Status: http.StatusForbidden, Title: "This came from another site",
			Text: "Your browser says that a page of another site sent this, so nothing was done. Open the page here and send it again.",
			Next: []NavItem{{Label: "Start page", Path: "/"}},
		}
	}
	who, err := s.visitor(r)
	switch {
	case err != nil && (rt.Access != Open || rt.Method == http.MethodPost):
		return &Problem{Status: http.StatusServiceUnavailable, Err: err}
	case err != nil:
		// What everybody may see is shown while it is not known who this is.
		s.deps.Logger.DebugContext(r.Context(), "a session could not be looked up", "err", err)
	}
	v.state.visitor = who
	switch {
	case rt.Access == Open:
	case rt.Access == Admin && (who == nil || !who.Admin), s.deps.Sessions == nil:
		return notFound()
	case who == nil && rt.Method == http.MethodPost:
		return &Problem{
			Status: http.StatusForbidden, Title: "You are not signed in any more",
			Text: "Nothing was done. Your session has ended: it was ended by you, by an operator, or because it was not used for a while. Sign in and do it again.",
			Next: []NavItem{{Label: "Sign in", Path: loginPath}},
		}
	case who == nil:
		to := loginPath
		if r.URL.Path != "/" {
			to += "?next=" + url.QueryEscape(r.URL.Path)
		}
		return &redirect{to}
	}
	if rt.Method != http.MethodPost {
		return nil
	}
	return s.admitBody(w, r, rt, v)
}

// admitBody checks what a POST brings.
func (s *Site) admitBody(w http.ResponseWriter, r *http.Request, rt Route, v Visit) error {
	most := rt.MaxBody
	if most == 0 {
		most = maxForm
	}
	want := "application/x-www-form-urlencoded"
	if rt.JSON {
		want = "application/json"
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != want {
		return &Problem{
			Status: http.StatusUnsupportedMediaType, Title: "This is not a form of this site",
			Text: "What was sent has another type than " + want + ". Open the page here and send it again.",
		}
	}
	token := r.Header.Get(formHeader)
	if rt.JSON && !v.checks(token) {
		return s.stale(r, v) // before anything is read
	}
	if err := s.readBody(w, r, rt.JSON, most); err != nil {
		return err
	}
	if rt.JSON {
		return nil
	}
	if token == "" {
		token = r.PostForm.Get(formField)
	}
	if !v.checks(token) {
		return s.stale(r, v)
	}
	return nil
}

// readBody reads a form, or leaves a handler a body that is here already: what is slow
// is slow before it.
func (s *Site) readBody(w http.ResponseWriter, r *http.Request, plain bool, most int64) error {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(bodyTime)) // what cannot has no slow clients
	body := r.Body
	r.Body = http.MaxBytesReader(w, body, most)
	var err error
	if plain {
		var all []byte
		all, err = io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(all))
	} else {
		err = r.ParseForm()
	}
	if tooLarge(err) || r.ContentLength > most {
		_ = c.SetReadDeadline(time.Now().Add(spillTime))
		_, _ = io.CopyN(io.Discard, body, mostSpilled)
		return tooMuch(most)
	}
	if err != nil {
		return &Problem{Status: http.StatusBadRequest, Title: "This form cannot be read", Text: "It arrived damaged or not whole. Go back and send it again."}
	}
	_ = c.SetReadDeadline(time.Time{})
	return nil
}

// tooLarge reports whether that is the error of a body over its bound.
func tooLarge(err error) bool {
	_, ok := errors.AsType[*http.MaxBytesError](err)
	return ok
}

func tooMuch(most int64) *Problem {
	return &Problem{
		Status: http.StatusRequestEntityTooLarge, Title: "That is too much",
		Text: "What you sent has more than the " + Bytes(most) + " that fit here, so nothing was done. Go back, shorten it and send it again.",
	}
}

// stale says that a form's token is not the session's.
func (s *Site) stale(r *http.Request, v Visit) *Problem {
	p := &Problem{
		Status: http.StatusForbidden, Title: "This page is older than your session",
		Text: "Nothing was done. You signed in or out since this page was opened, perhaps in another tab, or your browser keeps no cookies. Open the page again and repeat what you did.",
	}
	if here := r.URL.Path; !v.state.json {
		if v.state.access != Open {
			here = "/profile"
		}
		p.Next = []NavItem{{Label: "Open the page again", Path: here}}
	}
	if s.origin != "" {
		p.Text += " Cookies work at " + s.origin + " only."
	}
	return p
}

// answer remembers whether anything was sent.
type answer struct {
	http.ResponseWriter
	begun bool
	// bounded has a client that does not read cut off. On HTTP/2 one that opens no
	// window would hold whatever serves it for ever; on HTTP/1.1 a socket's buffer takes
	// a page at once, and listeners bound the rest.
	bounded bool
}

func (a *answer) begin() {
	if a.bounded && !a.begun {
		_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Now().Add(pageTime)) // what cannot has no slow clients
	}
	a.begun = true
}

func (a *answer) WriteHeader(status int) {
	if status >= 200 {
		a.begin()
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	a.begin()
	return a.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Flush is for who asks for http.Flusher itself.
func (a *answer) Flush() {
	a.begin()
	_ = http.NewResponseController(a.ResponseWriter).Flush()
}
