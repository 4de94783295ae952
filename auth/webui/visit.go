package webui

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Visit is one request of somebody. The zero value is nobody's.
type Visit struct{ state *state }

type state struct {
	site    *Site
	w       http.ResponseWriter
	r       *http.Request
	access  Access
	json    bool
	visitor *Visitor
	pre     string // the pre-session cookie that this answer sets; empty: none
}

type visitKey struct{}

// VisitFrom returns the visit that a request is, where the guards saw it; else one
// of nobody.
func VisitFrom(ctx context.Context) Visit {
	v, _ := ctx.Value(visitKey{}).(Visit)
	return v
}

// Visitor returns who is signed in; false if nobody is.
func (v Visit) Visitor() (Visitor, bool) {
	if v.state == nil || v.state.visitor == nil {
		return Visitor{}, false
	}
	return *v.state.visitor, true
}

// FormToken returns what the forms of this page carry in "form_token": the
// session's, and on an Open page that of the pre-session cookie, which the first
// call sets. Forms of an Open page are for Open routes.
func (v Visit) FormToken() (string, error) {
	if v.state == nil {
		return "", errors.New("webui: a form on a page that no guard saw")
	}
	if v.state.access != Open {
		if v.state.visitor == nil {
			return "", ErrNobody
		}
		return v.state.visitor.FormToken, nil
	}
	if v.state.pre == "" {
		v.state.pre = v.state.site.preSession(v.state.r)
	}
	if v.state.pre == "" {
		var random [32]byte
		if _, err := io.ReadFull(v.state.site.deps.Random, random[:]); err != nil {
			return "", fmt.Errorf("webui: read randomness: %w", err)
		}
		v.state.pre = base64.RawURLEncoding.EncodeToString(random[:])
		v.state.site.setCookie(v.state.w, v.state.r, formSuffix, v.state.pre, 0)
	}
	return preToken(v.state.pre), nil
}

// checks reports whether a form's token is the one it has to be.
func (v Visit) checks(token string) bool {
	if v.state.access != Open {
		who := v.state.visitor
		return who != nil && who.Checks != nil && token != "" && who.Checks(token)
	}
	pre := v.state.site.preSession(v.state.r)
	return pre != "" && subtle.ConstantTimeCompare([]byte(preToken(pre)), []byte(token)) == 1
}

// preToken is what forms carry where nobody has to be signed in.
func preToken(cookie string) string {
	sum := sha256.Sum256([]byte("llmgw form" + cookie))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
