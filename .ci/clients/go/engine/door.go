package engine

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
)

// Door is a way to the gateway that keeps books of those who come through it,
// which shows what the gateway itself refused: /NAME/v1/… is passed on as /v1/…,
// and GET /-/seen/door/NAME shows it, each request with the status that it got.
func (e *Engine) Door(gateway *url.URL) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if !ok {
			http.NotFound(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		b, nth := e.enter("door/"+name, r, body)
		defer e.leave(b)
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy := httputil.ReverseProxy{
			FlushInterval: -1,
			Rewrite: func(p *httputil.ProxyRequest) {
				p.SetURL(gateway)
				p.Out.URL.Path, p.Out.URL.RawPath = "/"+rest, ""
			},
			ModifyResponse: func(resp *http.Response) error {
				e.mu.Lock()
				defer e.mu.Unlock()
				b.seen.Requests[nth-1].Status = resp.StatusCode
				return nil
			},
		}
		proxy.ServeHTTP(w, r)
	})
}
