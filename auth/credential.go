package auth

import (
	"net/http"
	"net/url"
	"strings"
)

// credential finds the one key that a request's headers hold, as text that
// nobody has looked at yet. Authorization counts where its scheme is Bearer, in
// any case; a header of another scheme, such as a proxy's own Basic, and an
// empty one hold no key. The same key twice is one key.
func credential(h http.Header) (string, Reason) {
	key := ""
	for _, v := range h["Authorization"] {
		if v = bearer(v); v == "" || v == key {
			continue
		}
		if key != "" {
			return "", ReasonConflicting
		}
		key = v
	}
	for _, name := range [...]string{"X-Api-Key", "Api-Key"} {
		for _, v := range h[name] {
			if v == "" || v == key {
				continue
			}
			if key != "" {
				return "", ReasonConflicting
			}
			key = v
		}
	}
	if key == "" {
		return "", ReasonMissing
	}
	return key, ReasonUnset
}

// bearer returns what follows the scheme Bearer, or nothing.
func bearer(v string) string {
	const scheme = "bearer"
	if len(v) <= len(scheme) || v[len(scheme)] != ' ' || !strings.EqualFold(v[:len(scheme)], scheme) {
		return ""
	}
	return strings.Trim(v[len(scheme)+1:], " ")
}

// keyInURL reports whether a URL holds a key: a parameter that other services
// take keys in, with any value, or the text of one of our keys anywhere.
func keyInURL(u *url.URL) bool {
	if findKey(u.Path) >= 0 || u.Opaque != "" && findKey(u.Opaque) >= 0 {
		return true
	}
	if u.RawQuery == "" {
		return false
	}
	for part := range strings.SplitSeq(u.RawQuery, "&") {
		name, value, _ := strings.Cut(part, "=")
		if value != "" && namesKey(unescaped(name)) || findKey(unescaped(part)) >= 0 {
			return true
		}
	}
	return false
}

func namesKey(name string) bool {
	switch strings.ToLower(name) {
	case "key", "api_key", "api-key", "apikey", "x-api-key", "access_token":
		return true
	}
	return false
}

// unescaped undoes a query's escapes; what has false ones stays as it is.
func unescaped(s string) string {
	if out, err := url.QueryUnescape(s); err == nil {
		return out
	}
	return s
}

// presentable is a request without secrets: what a refusal is written by. The
// headers that hold keys are there still, since they tell which API was meant,
// and say nothing.
func presentable(r *http.Request) *http.Request {
	out := r.WithContext(r.Context()) // a shallow copy
	out.Header = make(http.Header, len(r.Header))
	for name, values := range r.Header {
		switch name {
		case "Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Proxy-Authorization", "Cookie", "Referer":
			values = []string{redacted}
		}
		out.Header[name] = values
	}
	path := withoutKeys(r.URL.Path)
	out.URL = &url.URL{Path: path}
	out.RequestURI = out.URL.EscapedPath()
	return out
}
