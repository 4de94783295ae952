package proxy

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"
)

// notForwarded are the request headers that no engine gets: what concerns one
// connection only, the caller's credentials and whereabouts, what the relay
// writes itself, and switches that steer an engine from inside (vLLM's data
// parallel rank, the failure switch of simulated engines).
var notForwarded = map[string]bool{ //nolint:gochecknoglobals // constant table
	"Connection": true, "Proxy-Connection": true, "Keep-Alive": true, "Te": true, "Trailer": true,
	"Transfer-Encoding": true, "Upgrade": true, "Proxy-Authenticate": true, "Proxy-Authorization": true,
	"Http2-Settings": true,
	"Host":           true, "Content-Length": true, "Content-Encoding": true, "Expect": true, "Accept-Encoding": true,
	"Authorization": true, "Cookie": true, "X-Api-Key": true, "Api-Key": true, "X-Goog-Api-Key": true,
	"Forwarded": true, "X-Forwarded-For": true, "X-Forwarded-Host": true, "X-Forwarded-Proto": true,
	"X-Forwarded-Port": true, "X-Forwarded-Prefix": true, "X-Forwarded-Server": true, "X-Real-Ip": true,
	"True-Client-Ip": true, "Cf-Connecting-Ip": true, "X-Client-Ip": true, "Via": true,
	"Origin": true, "Referer": true,
	"X-Data-Parallel-Rank": true, "X-Return-Error": true, "X-Request-Id": true, "Request-Id": true,
}

// notReturned are the answer's headers that no client gets: framing, which is
// ours, and what an engine's own web server says about itself or to browsers.
var notReturned = map[string]bool{ //nolint:gochecknoglobals // constant table
	"Connection": true, "Proxy-Connection": true, "Keep-Alive": true, "Te": true, "Trailer": true,
	"Transfer-Encoding": true, "Upgrade": true, "Proxy-Authenticate": true, "Proxy-Authorization": true,
	"Content-Length": true, "Date": true, "Server": true, "Via": true, "Alt-Svc": true, "Set-Cookie": true,
	"Www-Authenticate": true, "Strict-Transport-Security": true, "X-Request-Id": true, "Request-Id": true,
	"Access-Control-Allow-Origin": true, "Access-Control-Allow-Credentials": true,
	"Access-Control-Allow-Headers": true, "Access-Control-Allow-Methods": true,
	"Access-Control-Expose-Headers": true, "Access-Control-Max-Age": true,
	"X-Llmgw-Explain": true, // of a router that stands behind this one: who may read it is not its to say
}

// Forwarded reports whether the request header name, in canonical form, goes to
// engines. Names that the request's own Connection header lists do not, either.
func Forwarded(name string) bool {
	// A name with an underscore reads like one with a dash to some servers.
	return !notForwarded[name] && strings.IndexByte(name, '_') < 0 && !strings.HasPrefix(name, "X-Llmgw-") && !strings.HasPrefix(name, "Sec-")
}

// connectionNames returns the header names that Connection lists, canonical.
func connectionNames(values []string) []string {
	var out []string
	for _, v := range values {
		for name := range strings.SplitSeq(v, ",") {
			if name = textproto.TrimString(name); name != "" {
				out = append(out, textproto.CanonicalMIMEHeaderKey(name))
			}
		}
	}
	return out
}

// usualNames and usualValues hold what most answers' headers carry, so that
// copying them allocates nothing.
var usualNames = func() map[string]string { //nolint:gochecknoglobals // constant table
	m := map[string]string{}
	for _, s := range []string{
		"Content-Type", "Content-Length", "Content-Encoding", "Cache-Control", "Connection", "Date", "Server",
		"Transfer-Encoding", "Vary", "Retry-After", "X-Request-Id", "X-Accel-Buffering", "Keep-Alive",
		"Access-Control-Allow-Origin",
	} {
		m[s], m[strings.ToLower(s)] = s, s
	}
	return m
}()

var usualValues = func() map[string]string { //nolint:gochecknoglobals // constant table
	m := map[string]string{}
	for _, s := range []string{
		"application/json", "application/json; charset=utf-8", "text/event-stream", "text/event-stream; charset=utf-8",
		"text/plain; charset=utf-8", "no-cache", "no-store", "uvicorn", "keep-alive", "close", "chunked", "no",
	} {
		m[s] = s
	}
	return m
}()

func nameOf(b []byte) string {
	if s, ok := usualNames[string(b)]; ok {
		return s
	}
	return textproto.CanonicalMIMEHeaderKey(string(b))
}

func valueOf(b []byte) string {
	if s, ok := usualValues[string(b)]; ok {
		return s
	}
	return string(b)
}

// copyHeader adds the answer's headers that a client gets to dst. Names that the
// answer's Connection header lists are left out, and those that dst has already.
func copyHeader(dst http.Header, fields []field, buf []byte) {
	var named, own []string // own: what dst had before
	for _, f := range fields {
		if fold(buf[f.name:f.nameEnd], "connection") {
			named = append(named, connectionNames([]string{string(buf[f.value:f.valueEnd])})...)
		}
	}
	// One backing array serves all single values.
	vals := make([]string, 0, len(fields))
	for i, f := range fields {
		name := nameOf(buf[f.name:f.nameEnd])
		if notReturned[name] || slices.Contains(named, name) {
			continue
		}
		v := valueOf(buf[f.value:f.valueEnd])
		if have, ok := dst[name]; ok {
			switch {
			case slices.Contains(own, name):
			case has(fields[:i], buf, name):
				dst[name] = append(have, v)
			default:
				own = append(own, name)
			}
			continue
		}
		vals = append(vals, v)
		n := len(vals)
		dst[name] = vals[n-1 : n : n]
	}
}

// has reports whether one of the header lines has this name.
func has(fields []field, buf []byte, name string) bool {
	for _, f := range fields {
		if nameOf(buf[f.name:f.nameEnd]) == name {
			return true
		}
	}
	return false
}
