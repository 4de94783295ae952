package auth_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/storage"
)

func TestWhereAKeyMayStand(t *testing.T) {
	store := newStore()
	key := store.add(t, storage.Key{ID: "key_1"})
	other := store.add(t, storage.Key{ID: "key_2"})
	a := newAuth(t, store, patient)
	start(t, a)
	type h = http.Header
	for _, test := range []struct {
		name    string
		headers h
		want    error
	}{
		{"bearer", h{"Authorization": {"Bearer " + key}}, nil},
		{"any case", h{"Authorization": {"bEARER " + key}}, nil},
		{"more spaces", h{"Authorization": {"Bearer   " + key + "  "}}, nil},
		{"x-api-key", h{"X-Api-Key": {key}}, nil},
		{"api-key", h{"Api-Key": {key}}, nil},
		{"all three alike", h{"Authorization": {"Bearer " + key}, "X-Api-Key": {key}, "Api-Key": {key}}, nil},
		{"the same line twice", h{"Authorization": {"Bearer " + key, "Bearer " + key}}, nil},
		{"an empty one beside", h{"Authorization": {"Bearer " + key}, "X-Api-Key": {""}}, nil},
		{"an empty bearer beside", h{"Authorization": {"Bearer "}, "X-Api-Key": {key}}, nil},
		{"a proxy's Basic beside", h{"Authorization": {"Basic dTpw"}, "X-Api-Key": {key}}, nil},

		{"none", h{}, auth.ErrMissing},
		{"empty", h{"Authorization": {""}, "X-Api-Key": {""}}, auth.ErrMissing},
		{"empty bearer", h{"Authorization": {"Bearer"}}, auth.ErrMissing},
		{"blank bearer", h{"Authorization": {"Bearer    "}}, auth.ErrMissing},
		{"Basic alone", h{"Authorization": {"Basic dTpw"}}, auth.ErrMissing},
		{"no scheme", h{"Authorization": {key}}, auth.ErrMissing},
		{"scheme without space", h{"Authorization": {"Bearer" + key}}, auth.ErrMissing},
		{"another header", h{"X-Key": {key}}, auth.ErrMissing},
		{"two that differ", h{"Authorization": {"Bearer " + key}, "X-Api-Key": {other}}, auth.ErrConflicting},
		{"api-key differs", h{"X-Api-Key": {key}, "Api-Key": {other}}, auth.ErrConflicting},
		{"two lines that differ", h{"Authorization": {"Bearer " + key, "Bearer " + other}}, auth.ErrConflicting},
		{"known beside rubbish", h{"Authorization": {"Bearer " + key}, "X-Api-Key": {"x"}}, auth.ErrConflicting},
		{"a list", h{"Authorization": {"Bearer " + key + ", Bearer " + key}}, auth.ErrMalformed},
		{"a token too many", h{"Authorization": {"Bearer " + key + " x"}}, auth.ErrMalformed},
		{"another service's", h{"X-Api-Key": {"sk-ant-abc"}}, auth.ErrMalformed},
		{"too long", h{"X-Api-Key": {key + strings.Repeat("x", 1<<16)}}, auth.ErrMalformed},
		{"cut short", h{"X-Api-Key": {key[:54]}}, auth.ErrMalformed},
		{"not known", h{"X-Api-Key": {stranger(t)}}, auth.ErrUnknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := request("")
			r.Body = unreadable{t}
			r.Header = test.headers
			id, err := a.Authenticate(r)
			checkAnswer(t, id, err, test.want)
			if err == nil && id.KeyID() != "key_1" {
				t.Errorf("it is %s", id.KeyID())
			}
			if err != nil && strings.Contains(err.Error()+message(err), key[6:54]) {
				t.Error("the error repeats the key")
			}
		})
	}
	if n := store.readCount(); n != 2 {
		t.Errorf("the store was read %d times, want for the known and the unknown key once", n)
	}
}

type unreadable struct{ t *testing.T }

func (u unreadable) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, errors.New("read")
}
func (unreadable) Close() error { return nil }

func message(err error) string {
	if e, ok := errors.AsType[*auth.RefusedError](err); ok {
		return e.Message()
	}
	return ""
}

// checkAnswer checks that there is either an identity or the error that is wanted.
func checkAnswer(t testing.TB, id *auth.Identity, err, want error) {
	t.Helper()
	switch {
	case want == nil && (err != nil || id == nil):
		t.Errorf("refused: %v", err)
	case want != nil && (!errors.Is(err, want) || id != nil):
		t.Errorf("%v, error %v; want %v", id, err, want)
	}
}

// A key in the URL is refused, also beside one in a header, however it is
// written there; and nothing is looked up.
func TestKeyInURL(t *testing.T) {
	store := newStore()
	key := store.add(t, storage.Key{ID: "key_1"})
	for target, want := range map[string]error{
		"/v1/models?key=abc":                                auth.ErrInURL,
		"/v1/models?x=1&api_key=abc":                        auth.ErrInURL,
		"/v1/models?api-key=abc":                            auth.ErrInURL,
		"/v1/models?API_KEY=abc":                            auth.ErrInURL,
		"/v1/models?api%5Fkey=abc":                          auth.ErrInURL,
		"/v1/models?access_token=abc":                       auth.ErrInURL,
		"/v1/models?token=" + key:                           auth.ErrInURL,
		"/v1/models?" + key:                                 auth.ErrInURL,
		"/v1/models?t=%6clmgw%5f" + key[6:]:                 auth.ErrInURL,
		"/v1/models?t=%zz" + key:                            auth.ErrInURL,
		"/" + key + "/v1/models":                            auth.ErrInURL,
		"/v1/models/%6clmgw_" + key[6:]:                     auth.ErrInURL,
		"/v1/models?key=":                                   auth.ErrUnavailable, // no key there: it goes on
		"/v1/models?api-version=2024-10-21":                 auth.ErrUnavailable,
		"/v1/models?client_version=llmgw_1&keys=a&monkey=b": auth.ErrUnavailable,
		"/v1/models/llmgw_" + strings.Repeat("x", 60):       auth.ErrUnavailable,
	} {
		synctest.Test(t, func(t *testing.T) {
			a := newAuth(t, store, nil) // it does not run, so what goes on is unavailable
			r := request(key)
			u, err := url.ParseRequestURI(target)
			if err != nil {
				t.Fatal(err)
			}
			r.URL = u
			id, err := a.Authenticate(r)
			if !errors.Is(err, want) || id != nil {
				t.Errorf("%s: %v, want %v", strings.ReplaceAll(target, key, "KEY"), err, want)
			}
			if m := message(err); errors.Is(want, auth.ErrInURL) && (!strings.Contains(m, "revoked") || strings.Contains(m, key[6:])) {
				t.Errorf("the message is %q", m)
			}
		})
	}
	if store.readCount() != 0 {
		t.Error("the store was read, and nothing runs")
	}
}

// The key that a URL holds is in nothing that a refusal is written by.
func FuzzRefusedRequestHoldsNoKey(f *testing.F) {
	key := canary(f).Reveal()
	for _, s := range []string{"/", "/?key=" + key, "/" + key + "/v1", "/a%2f" + key, "/" + key + key, "/?a=" + key + "#" + key, "//" + key} {
		f.Add(s)
	}
	a := newAuth(f, newStore(), func(c *auth.Config, _ *auth.Deps) { c.LookupTimeout = 1e7 })
	h := a.Middleware(http.NotFoundHandler(), auth.DefaultExempt(), func(w http.ResponseWriter, r *http.Request, err *auth.RefusedError) {
		var text strings.Builder
		text.WriteString(r.URL.String() + r.RequestURI + r.URL.Path + r.URL.RawPath + err.Error() + err.Message())
		for _, values := range r.Header {
			text.WriteString(strings.Join(values, " "))
		}
		if strings.Contains(text.String(), key) {
			panic("the key shows")
		}
		w.WriteHeader(err.Status())
	})
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			t.Skip()
		}
		r := request(key)
		r.URL, r.RequestURI = u, target
		r.Header.Set("X-Api-Key", "x") // refused whatever the URL
		r.Header.Set("Referer", "http://x/?"+key)
		h.ServeHTTP(httptest.NewRecorder(), r)
	})
}
