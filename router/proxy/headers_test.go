package proxy_test

import (
	"net/http"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/llmgw/llmgw/router/proxy"
)

// lines returns the header lines of a raw head, sorted.
func lines(head string) []string {
	l := strings.Split(strings.TrimSuffix(head, "\r\n\r\n"), "\r\n")
	sort.Strings(l[1:])
	return l
}

func TestRequestHead(t *testing.T) {
	t.Parallel()
	e := answering(t, hello)
	host := e.ln.Addr().String()
	p := newBench(t, e.url(), nil).Proxy
	header := http.Header{
		"Accept":              {"text/event-stream"},
		"Accept-Encoding":     {"gzip, br"},
		"Api-Key":             {"client-secret"},
		"Authorization":       {"Bearer client-secret"},
		"Connection":          {"keep-alive, X-Hop", "x-other-hop"},
		"Content-Encoding":    {"gzip"},
		"Content-Length":      {"999"},
		"Content-Type":        {"application/json"},
		"Cookie":              {"session=client-secret"},
		"Expect":              {"100-continue"},
		"Forwarded":           {"for=10.0.0.1"},
		"Host":                {"evil.example"},
		"Keep-Alive":          {"timeout=5"},
		"Openai-Beta":         {"one", "two"},
		"Origin":              {"https://chat.example"},
		"Proxy-Authorization": {"Basic client-secret"},
		"Proxy-Connection":    {"keep-alive"},
		"Sec-Fetch-Mode":      {"cors"},
		"Te":                  {"trailers"},
		"Trailer":             {"X-Sum"},
		"Traceparent":         {"00-1-2-03"},
		"Transfer-Encoding":   {"chunked"},
		"Upgrade":             {"h2c"},
		"User-Agent":          {"client/1"},
		"X-Api-Key":           {"client-secret"},
		"X-Forwarded-For":     {"10.0.0.1"},
		"X-Forwarded-Host":    {"evil.example"},
		"X-Forwarded-Proto":   {"https"},
		"X-Goog-Api-Key":      {"client-secret"},
		"X-Hop":               {"1"},
		"X-Llmgw-Profile":     {"batch"},
		"X-Other-Hop":         {"1"},
		"X-Real-Ip":           {"10.0.0.1"},
		"X-Request-Id":        {"theirs"},
	}
	common := []string{
		"Accept: text/event-stream", "Content-Length: 2", "Content-Type: application/json", "Host: " + host,
		"Openai-Beta: one", "Openai-Beta: two", "Traceparent: 00-1-2-03", "User-Agent: client/1",
	}
	for _, tt := range []struct {
		name   string
		target proxy.TargetConfig
		id     string
		line   string
		more   []string
	}{
		{"plain", proxy.TargetConfig{URL: e.url()}, "", "POST /v1/x?y=%20z HTTP/1.1", nil},
		{"secret", proxy.TargetConfig{URL: e.url(), Secret: "ours"}, "", "POST /v1/x?y=%20z HTTP/1.1", []string{"Authorization: Bearer ours"}},
		{"id", proxy.TargetConfig{URL: e.url() + "/"}, "req_1", "POST /v1/x?y=%20z HTTP/1.1", []string{"X-Request-Id: req_1"}},
		{"base path", proxy.TargetConfig{URL: e.url() + "/base%2F1/"}, "", "POST /base%2F1/v1/x?y=%20z HTTP/1.1", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			target := newTarget(t, p, tt.target)
			resp, err := p.Send(t.Context(), target, &proxy.Request{
				Method: "POST", Path: "/v1/x?y=%20z", Header: header, Body: [][]byte{[]byte("{}")}, Length: 2, ID: tt.id,
			})
			if err != nil {
				t.Fatal(err)
			}
			resp.Close()
			want := append([]string{tt.line}, append(tt.more, common...)...)
			sort.Strings(want[1:])
			reqs := e.requests()
			if d := cmp.Diff(want, lines(reqs[len(reqs)-1].head)); d != "" {
				t.Errorf("head (-want +got):\n%s", d)
			}
		})
	}
	if len(header) != 34 || header.Get("X-Request-Id") != "theirs" {
		t.Error("the client's header was changed")
	}
}

func TestRequestWithoutBody(t *testing.T) {
	t.Parallel()
	e := answering(t, hello)
	b := newBench(t, e.url(), nil)
	for method, want := range map[string][]string{
		"GET":  {"GET /v1/models HTTP/1.1", "Host: " + e.ln.Addr().String()},
		"POST": {"POST /v1/models HTTP/1.1", "Content-Length: 0", "Host: " + e.ln.Addr().String()},
	} {
		b.do(t.Context(), &proxy.Request{Method: method, Path: "/v1/models"}).want(t, 200, "hello")
		reqs := e.requests()
		if d := cmp.Diff(want, lines(reqs[len(reqs)-1].head)); d != "" {
			t.Errorf("head (-want +got):\n%s", d)
		}
	}
}

func TestAnswerHeader(t *testing.T) {
	t.Parallel()
	const answer = "HTTP/1.1 201 Created\r\n" +
		"server: uvicorn\r\ndate: Mon, 01 Jan 2024 00:00:00 GMT\r\nset-cookie: a=b\r\nvia: 1.1 x\r\n" +
		"alt-svc: h3\r\nstrict-transport-security: max-age=1\r\nwww-authenticate: Bearer\r\n" +
		"access-control-allow-origin: *\r\naccess-control-allow-credentials: true\r\n" +
		"x-request-id: theirs\r\nrequest-id: theirs\r\n" +
		"connection: keep-alive, X-Hop\r\nkeep-alive: timeout=5\r\nx-hop: 1\r\n" +
		"proxy-authenticate: Basic\r\ntrailer: X-Sum\r\nupgrade: h2c\r\n" +
		"content-type: application/json\r\ncontent-length: 5\r\nretry-after: 7\r\n" +
		"x-ours: theirs\r\nx-ours: theirs too\r\n" +
		"vary: a\r\nx-empty:\r\nVary: \t b \t\r\nx-utf8: \xc3\xa9\r\n\r\nhello"
	b := newBench(t, answering(t, answer).url(), nil)
	for range 2 {
		w := newRecorder()
		w.header.Set("X-Ours", "ours")
		w.header.Set("X-Request-Id", "ours")
		got := b.relay(t.Context(), post(), w, &lineTap{}, proxy.Options{})
		got.want(t, 201, "hello")
		want := http.Header{
			"Content-Type": {"application/json"}, "Retry-After": {"7"}, "Vary": {"a", "b"},
			"X-Empty": {""}, "X-Utf8": {"\xc3\xa9"}, "X-Ours": {"ours"}, "X-Request-Id": {"ours"},
		}
		if d := cmp.Diff(want, got.header); d != "" {
			t.Errorf("header (-want +got):\n%s", d)
		}
	}
}

func TestTargetConfig(t *testing.T) {
	t.Parallel()
	p := newBench(t, "http://127.0.0.1:1", nil).Proxy
	for _, tt := range []struct {
		name, url, secret, want string
	}{
		{"port", "http://10.0.0.1:8000", "", "10.0.0.1:8000"},
		{"http", "http://engine", "", "engine:80"},
		{"https", "https://engine", "", "engine:443"},
		{"h2c", "h2c://engine:9000/base", "", "engine:9000"},
		{"IPv6", "http://[::1]:8000", "", "[::1]:8000"},
		{"no scheme", "engine:8000", "", ""},
		{"another scheme", "ftp://engine", "", ""},
		{"no host", "http://:8000", "", ""},
		{"user", "http://me:pass@engine", "", ""},
		{"query", "http://engine/?a=b", "", ""},
		{"fragment", "http://engine/#a", "", ""},
		{"no URL", "http://[::1", "", ""},
		{"secret with a line break", "http://engine", "a\r\nX: y", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			target, err := p.NewTarget(proxy.TargetConfig{URL: tt.url, Secret: tt.secret})
			if err != nil {
				if tt.want != "" {
					t.Fatal(err)
				}
				if strings.Contains(err.Error(), "pass") {
					t.Errorf("the error tells the password: %v", err)
				}
				return
			}
			defer target.Close()
			if target.Addr() != tt.want {
				t.Errorf("Addr is %q, want %q", target.Addr(), tt.want)
			}
		})
	}
}
