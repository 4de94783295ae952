package portal

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/auth/webui"
)

func landingPortal(tb testing.TB, public string) *Portal {
	tb.Helper()
	site, err := webui.New(webui.Config{PublicURL: public}, webui.Deps{Assets: Assets()})
	if err != nil {
		tb.Fatal(err)
	}
	p, err := New(DefaultConfig(), Deps{Site: site})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func TestAddress(t *testing.T) {
	for _, tt := range []struct {
		name, public, host   string
		tls                  bool
		proto, fhost, prefix string
		want                 string
	}{
		{name: "host", host: "10.0.0.5:8080", want: "http://10.0.0.5:8080"},
		{name: "TLS", host: "llm.example.org", tls: true, want: "https://llm.example.org"},
		{name: "IPv6", host: "[2001:db8::1]:8443", want: "http://[2001:db8::1]:8443"},
		{name: "forwarded", host: "10.0.0.5", proto: "https", fhost: "llm.example.org", prefix: "/llm/", want: "https://llm.example.org/llm"},
		{name: "lists", host: "10.0.0.5", proto: "HTTPS, http", fhost: "llm.example.org, inner", want: "https://llm.example.org"},
		{name: "configured", public: "https://public.example.org", host: "x", fhost: "evil.example", want: "https://public.example.org"},
		{name: "bad proto", host: "a.example", proto: "javascript", want: "http://a.example"},
		{name: "bad host", host: "a.example", fhost: "x; rm -rf ~", want: "http://a.example"},
		{name: "host with a path", host: "a.example", fhost: "x/y", want: "http://a.example"},
		{name: "host with a user", host: "a.example", fhost: "u@x", want: "http://a.example"},
		{name: "host with a quote", host: "a.example", fhost: `x"$(id)`, want: "http://a.example"},
		{name: "bad prefix", host: "a.example", prefix: "/a/../b", want: "http://a.example"},
		{name: "prefix of another host", host: "a.example", prefix: "//evil.example", want: "http://a.example"},
		{name: "prefix with a command", host: "a.example", prefix: "/$(id)", want: "http://a.example"},
		{name: "no host at all", host: "$(id)", want: "http://this-address"},
		{name: "zone", host: "a.example", fhost: "[fe80::1%25eth0]", want: "http://a.example"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Host = tt.host
			if tt.tls {
				r.TLS = &tls.ConnectionState{}
			}
			for name, value := range map[string]string{"X-Forwarded-Proto": tt.proto, "X-Forwarded-Host": tt.fhost, "X-Forwarded-Prefix": tt.prefix} {
				if value != "" {
					r.Header.Set(name, value)
				}
			}
			if got := landingPortal(t, tt.public).address(r); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func TestContact(t *testing.T) {
	for text, want := range map[string]contact{
		"":                                  {},
		"help@example.org":                  {Mail: "help@example.org"},
		" help+llm@mail.example.org ":       {Mail: "help+llm@mail.example.org"},
		"https://chat.example.org/llm":      {Link: "https://chat.example.org/llm"},
		"HTTP://chat.example.org":           {Link: "http://chat.example.org"},
		"the people in room 7":              {Text: "the people in room 7"},
		"javascript:alert(1)":               {Text: "javascript:alert(1)"},
		"JaVaScRiPt:alert(1)//@example.org": {Text: "JaVaScRiPt:alert(1)//@example.org"},
		"data:text/html,x":                  {Text: "data:text/html,x"},
		"//example.org":                     {Text: "//example.org"},
		"https:example.org":                 {Text: "https:example.org"},
		"https://":                          {Text: "https://"},
		"https://u:p@example.org":           {Text: "https://u:p@example.org"},
		"mailto:help@example.org":           {Text: "mailto:help@example.org"},
		"a@b.example?subject=x":             {Text: "a@b.example?subject=x"},
		"help@localhost":                    {Text: "help@localhost"},
		"java\nscript:alert(1)":             {Text: "java\nscript:alert(1)"},
		"https://a.example/\"onclick=x":     {Text: "https://a.example/\"onclick=x"},
	} {
		if got := readContact(text); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

func FuzzContact(f *testing.F) {
	for _, text := range []string{"help@example.org", "https://example.org/a?b#c", "javascript:alert(1)", "JAVASCRIPT:x", "jAvA\tscript:x", "vbscript:x", "data:x", "\x01https://x", "https://\u202e", "http://[::1]/", "a@b.c", "x:y@z.w"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := readContact(text)
		set := 0
		for _, one := range []string{c.Mail, c.Link, c.Text} {
			if one != "" {
				set++
			}
		}
		if set > 1 {
			t.Fatalf("%q is several things: %+v", text, c)
		}
		if c.Link != "" {
			u, err := url.Parse(c.Link)
			if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.ContainsAny(c.Link, "\"'<> \t\r\n") {
				t.Fatalf("%q is linked as %q", text, c.Link)
			}
		}
		if c.Mail != "" && (strings.ContainsAny(c.Mail, ":/?&%\"'<> \t\r\n") || strings.Count(c.Mail, "@") != 1) {
			t.Fatalf("%q is mailed to as %q", text, c.Mail)
		}
	})
}

func FuzzAddress(f *testing.F) {
	f.Add("example.org", "https", "other.example", "/x")
	f.Add("$(id)", "x", "a;b", "/`id`")
	f.Add("[::1]:8080", "", "[::1", "//")
	p := landingPortal(f, "")
	f.Fuzz(func(t *testing.T, host, proto, fhost, prefix string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		r.Header = http.Header{"X-Forwarded-Proto": {proto}, "X-Forwarded-Host": {fhost}, "X-Forwarded-Prefix": {prefix}}
		got := p.address(r)
		u, err := url.Parse(got)
		if err != nil || u.Host == "" || u.User != nil || strings.ContainsAny(got, "\"'`$;&|<>(){}\\ \t\r\n*?#~!") && !strings.Contains(prefix, "~") {
			t.Fatalf("address %q", got)
		}
	})
}

// The landing page knows nothing, needs no session, and offers what there is.
func TestLandingAlone(t *testing.T) {
	p := landingPortal(t, "")
	h := p.deps.Site.Handler(p.Routes())
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	body := w.Body.String()
	for _, text := range []string{"one-time link", "curl http://example.com/v1/chat/completions", "Ask whoever gave you this address"} {
		if !strings.Contains(body, text) {
			t.Errorf("does not say %q: %s", text, body)
		}
	}
	for _, text := range []string{"/login", "/signup", "/admin", "<form"} {
		if strings.Contains(body, text) {
			t.Errorf("offers %s: %s", text, body)
		}
	}
	if len(w.Result().Cookies()) != 0 {
		t.Errorf("sets cookies: %v", w.Result().Cookies())
	}
	if len(p.Routes()) != 1 {
		t.Errorf("%d routes", len(p.Routes()))
	}
}
