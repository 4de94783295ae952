package webui_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/auth/webui"
)

// A form of ten million bytes gets an answer that its sender can read: a browser reads
// none before it has sent all.
func TestLargeFormIsExplained(t *testing.T) {
	done := 0
	s := newSite(t, webui.Config{}, nil)
	server := httptest.NewServer(s.Handler(table(t, s, &done)))
	defer server.Close()
	body := "form_token=x&a=" + strings.Repeat("a", 10<<20)
	for name, length := range map[string]int64{"of known length": int64(len(body)), "chunked": -1} {
		t.Run(name, func(t *testing.T) {
			// Only that no bytes are left tells that all was read: strings.Reader alone
			// would have net/http set the length.
			rest := strings.NewReader(body)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/form", struct{ io.Reader }{rest})
			if err != nil {
				t.Fatal(err)
			}
			req.ContentLength = length
			req.Header.Set("Content-Type", formType)
			resp, err := server.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			page, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(page), "64 KiB") {
				t.Errorf("%d %v: %s", resp.StatusCode, err, page)
			}
			if rest.Len() != 0 || done != 0 {
				t.Errorf("%d bytes were not sent; acted %d times", rest.Len(), done)
			}
		})
	}
}

// deadlined remembers until when a body may come, and until when an answer may be read.
type deadlined struct {
	*httptest.ResponseRecorder
	until, read time.Time
}

func (d *deadlined) SetWriteDeadline(t time.Time) error {
	d.read = t
	return nil
}

func (d *deadlined) SetReadDeadline(t time.Time) error {
	d.until = t
	return nil
}

// A body that is promised and does not come holds no connection for ever, whoever
// promises it: none that is not read is without a bound when the answer is made.
func TestStrayBodyIsBounded(t *testing.T) {
	done := 0
	s := newSite(t, webui.Config{}, nil)
	h := s.Handler(append(table(t, s, &done), webui.Route{
		Method: "POST", Path: "/talk", Access: webui.SignedIn, JSON: true, Handler: func(http.ResponseWriter, *http.Request, webui.Visit) error { return nil },
	}))
	style, err := s.Asset("style.css")
	if err != nil {
		t.Fatal(err)
	}
	ann := "llmgw=" + token43("ann")
	for name, test := range map[string]struct {
		method, path string
		headers      []string
		code         int
	}{
		"a page":                     {"GET", "/", nil, 200},
		"a head":                     {"HEAD", "/", nil, 200},
		"no page":                    {"GET", "/nothing", nil, 404},
		"an asset":                   {"GET", style, nil, 200},
		"no asset":                   {"GET", "/assets/nothing.css", nil, 404},
		"another method":             {"PUT", "/mine", nil, 405},
		"a form from another site":   {"POST", "/mine", []string{"Origin", "https://evil.example"}, 403},
		"a form of nobody":           {"POST", "/mine", []string{"Content-Type", formType}, 403},
		"a form of another type":     {"POST", "/form", []string{"Content-Type", "text/plain"}, 415},
		"a script without a token":   {"POST", "/talk", []string{"Content-Type", "application/json", "Cookie", ann}, 403},
		"a form for who is no admin": {"POST", "/nothing", []string{"Content-Type", formType}, 404},
	} {
		r := httptest.NewRequestWithContext(t.Context(), test.method, test.path, strings.NewReader("form_token=x"))
		for i := 0; i < len(test.headers); i += 2 {
			r.Header.Set(test.headers[i], test.headers[i+1])
		}
		w := &deadlined{ResponseRecorder: httptest.NewRecorder()}
		h.ServeHTTP(w, r)
		if left := time.Until(w.until); w.Code != test.code || w.until.IsZero() || left > 10*time.Second {
			t.Errorf("%s: %d, and the body may come until %v", name, w.Code, w.until)
		}
	}
	// Where all of a form has come nothing is bounded: an answer may take its time.
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/mine", strings.NewReader("form_token=form-ann"))
	r.Header.Set("Content-Type", formType)
	r.Header.Set("Cookie", ann)
	w := &deadlined{ResponseRecorder: httptest.NewRecorder(), until: time.Now()}
	if h.ServeHTTP(w, r); w.Code != 303 || !w.until.IsZero() {
		t.Errorf("a form: %d, bounded until %v", w.Code, w.until)
	}
}

// A client that opens no window on HTTP/2 holds no answer for ever. What a script asks
// for may take its time: whoever streams it bounds each piece.
func TestUnreadAnswerIsBounded(t *testing.T) {
	done := 0
	s := newSite(t, webui.Config{}, nil)
	h := s.Handler(append(table(t, s, &done), webui.Route{
		Method: "POST", Path: "/talk", Access: webui.SignedIn, JSON: true, Handler: func(w http.ResponseWriter, _ *http.Request, _ webui.Visit) error {
			_, err := io.WriteString(w, "{}")
			return err
		},
	}))
	style, err := s.Asset("style.css")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		method, path, body, kind, token string
		code                            int
		bounded                         bool
	}{
		"a page":                   {"GET", "/mine", "", "", "", 200, true},
		"no page":                  {"GET", "/nothing", "", "", "", 404, true},
		"an asset":                 {"GET", style, "", "", "", 200, true},
		"a form":                   {"POST", "/mine", "form_token=form-ann", formType, "", 303, true},
		"a form without a token":   {"POST", "/mine", "", formType, "", 403, true},
		"a script":                 {"POST", "/talk", "{}", "application/json", "form-ann", 200, false},
		"a script without a token": {"POST", "/talk", "{}", "application/json", "", 403, true},
	} {
		for _, version := range []int{1, 2} {
			r := httptest.NewRequestWithContext(t.Context(), test.method, test.path, strings.NewReader(test.body))
			r.ProtoMajor = version
			r.Header.Set("Cookie", "llmgw="+token43("ann"))
			r.Header.Set("Content-Type", test.kind)
			r.Header.Set("X-Form-Token", test.token)
			w := &deadlined{ResponseRecorder: httptest.NewRecorder()}
			h.ServeHTTP(w, r)
			if bounded := !w.read.IsZero(); w.Code != test.code || bounded != (test.bounded && version == 2) || bounded && time.Until(w.read) > 30*time.Second {
				t.Errorf("%s on HTTP/%d: %d, to be read until %v", name, version, w.Code, w.read)
			}
		}
	}
}

// A proxy may change Host; what people use is configured, and counts as this site.
func TestOriginBehindAProxy(t *testing.T) {
	done := 0
	s := newSite(t, webui.Config{PublicURL: "https://LLM.example.org"}, nil)
	h := s.Handler(table(t, s, &done))
	cookie := "__Host-llmgw=" + token43("ann")
	for origin, code := range map[string]int{
		"https://llm.example.org": 303, "http://10.0.0.5": 303, "http://llm.example.org": 403, "https://evil.example": 403, "https://llm.example.org.evil.example": 403,
	} {
		w := ask(h, "POST", "http://10.0.0.5/mine", "form_token=form-ann", "Cookie", cookie, "Content-Type", formType, "Origin", origin, "X-Forwarded-Host", "evil.example")
		if w.Code != code {
			t.Errorf("%s: %d, want %d", origin, w.Code, code)
		}
	}
	// The name that is not __Host- is anybody's to set, so it counts for nothing.
	if w := ask(h, "GET", "/mine", "", "Cookie", "llmgw="+token43("ann")); w.Code != 303 {
		t.Errorf("a cookie without the prefix: %d", w.Code)
	}
	if w := ask(h, "POST", "/form", "form_token=x", "Content-Type", formType); !strings.Contains(w.Body.String(), "Cookies work at https://llm.example.org only.") {
		t.Errorf("does not say where cookies work: %s", w.Body)
	}
}

// The log says what went wrong and nothing that opens anything.
func TestNoTokenInLogs(t *testing.T) {
	var log bytes.Buffer
	s := newSite(t, webui.Config{}, func(d *webui.Deps) {
		d.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	faults := map[string]error{
		"fault": errors.New("boom"), "down": &webui.Problem{Status: 503, Err: errDown}, "gone": context.Canceled,
	}
	h := s.Handler([]webui.Route{{Method: "GET", Path: "/link/{token}", Access: webui.Open, Handler: func(_ http.ResponseWriter, r *http.Request, _ webui.Visit) error {
		if r.Header.Get("Fault") == "panic" {
			panic("boom")
		}
		return faults[r.Header.Get("Fault")]
	}}})
	for _, fault := range []string{"fault", "down", "gone", "panic"} {
		w := ask(h, "GET", "/link/SECRET", "", "Cookie", "llmgw="+token43("SESSION"), "Fault", fault)
		if w.Code < 500 || strings.Contains(w.Body.String(), "boom") {
			t.Errorf("%s: %d %s", fault, w.Code, w.Body)
		}
	}
	for _, text := range []string{"boom", "/link/{token}", "the store is down"} {
		if !strings.Contains(log.String(), text) {
			t.Errorf("the log does not say %s: %s", text, &log)
		}
	}
	if strings.Contains(log.String(), "SECRET") || strings.Contains(log.String(), "SESSION") {
		t.Errorf("the log has a token: %s", &log)
	}
}

// What was begun is not ended as if it were whole.
func TestPanicAfterTheBegin(t *testing.T) {
	s := newSite(t, webui.Config{}, nil)
	server := httptest.NewUnstartedServer(s.Handler([]webui.Route{{Method: "GET", Path: "/", Access: webui.Open, Handler: func(w http.ResponseWriter, _ *http.Request, _ webui.Visit) error {
		_, _ = io.WriteString(w, "the first half")
		_ = http.NewResponseController(w).Flush()
		panic("boom")
	}}}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Start()
	defer server.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if page, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("half a page looks whole: %s", page)
	}
}

// Two pages at a time have a buffer each, and no page has anything of another's.
func TestPagesAreApart(t *testing.T) {
	done := 0
	s := newSite(t, webui.Config{}, nil)
	h := s.Handler(table(t, s, &done))
	want := ask(h, "GET", "/", "").Body.String()
	end := make(chan string)
	for i := range 8 {
		go func() {
			for range 50 {
				ask(h, "GET", []string{"/mine", "/nothing", "/half", "/form"}[i%4], "", "Cookie", "llmgw="+token43("ann"))
				if got := ask(h, "GET", "/", "").Body.String(); got != want {
					end <- got
					return
				}
			}
			end <- want
		}()
	}
	for range 8 {
		if got := <-end; got != want {
			t.Errorf("another page: %s", got)
		}
	}
}
