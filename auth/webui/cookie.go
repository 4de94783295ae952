package webui

import (
	"errors"
	"net/http"
)

const (
	cookieName = "llmgw"
	formSuffix = "-form"
	noteSuffix = "-note"
	// tokenLen is how long tokens are: 32 bytes in base64url.
	tokenLen = 43
)

// cookie names. Browsers take __Host- only over TLS, from this very host, and let
// no neighbour under the same domain set it.
func (s *Site) cookieName(r *http.Request, suffix string) string {
	if s.https(r) {
		return "__Host-" + cookieName + suffix
	}
	return cookieName + suffix
}

func (s *Site) setCookie(w http.ResponseWriter, r *http.Request, suffix, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: s.cookieName(r, suffix), Value: value, Path: "/", MaxAge: maxAge,
		Secure: s.https(r), HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

func (s *Site) cookie(r *http.Request, suffix string) string {
	c, err := r.Cookie(s.cookieName(r, suffix))
	if err != nil {
		return ""
	}
	return c.Value
}

// SignIn gives the browser the token of a session, which has to be new. The browser
// forgets it when it ends; when the session ends is the server's to know.
func (s *Site) SignIn(w http.ResponseWriter, r *http.Request, token string) {
	s.setCookie(w, r, "", token, 0)
	// Forms from before are of another person, for all that is known.
	s.setCookie(w, r, formSuffix, "", -1)
}

// SignOut takes the tokens away from the browser. End the session first.
func (s *Site) SignOut(w http.ResponseWriter, r *http.Request) {
	s.setCookie(w, r, "", "", -1)
	s.setCookie(w, r, formSuffix, "", -1)
}

// Note has the next page that calls [Visit.Note] know what was done, in one word of
// letters and dashes. It lives for a minute.
func (s *Site) Note(w http.ResponseWriter, r *http.Request, word string) {
	s.setCookie(w, r, noteSuffix, word, 60)
}

// Note returns what was done, as [Site.Note] was told, once. It came from the
// browser: look it up, never show it.
func (v Visit) Note() string {
	if v.state == nil {
		return ""
	}
	word := v.state.site.cookie(v.state.r, noteSuffix)
	if word != "" {
		v.state.site.setCookie(v.state.w, v.state.r, noteSuffix, "", -1)
	}
	return word
}

// preSession returns the cookie of who is not signed in; empty if there is none.
func (s *Site) preSession(r *http.Request) string {
	value := s.cookie(r, formSuffix)
	if len(value) != tokenLen {
		return ""
	}
	return value
}

// visitor returns who is signed in; nil: nobody.
func (s *Site) visitor(r *http.Request) (*Visitor, error) {
	token := s.cookie(r, "")
	if s.deps.Sessions == nil || len(token) != tokenLen {
		return nil, nil
	}
	v, err := s.deps.Sessions.Visit(r.Context(), token)
	if errors.Is(err, ErrNobody) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &v, nil
}
