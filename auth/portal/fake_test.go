package portal_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/account"
	"github.com/llmgw/llmgw/auth/portal"
	"github.com/llmgw/llmgw/auth/webui"
	"github.com/llmgw/llmgw/storage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const password = "a long phrase of words"

func noon() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }

// people is a small set of accounts that does as an *account.Service does.
type people struct {
	mu       sync.Mutex
	accounts map[string]*storage.Account // by address
	sessions map[string]*account.Visitor // by token
	keys     []storage.Key
	links    map[string]account.LinkInfo
	used     map[string]bool
	rollups  []storage.Rollup
	fail     error // what every call returns
	counter  int
	calls    int // that change something
}

func newPeople() *people {
	return &people{accounts: map[string]*storage.Account{}, sessions: map[string]*account.Visitor{}, links: map[string]account.LinkInfo{}, used: map[string]bool{}}
}

// add makes an approved account.
func (p *people) add(address string, change func(*storage.Account)) *storage.Account {
	a := &storage.Account{ID: "acct_" + strings.ReplaceAll(address, "@", "_"), Address: address, Password: password, State: storage.AccountApproved, Allowance: storage.Allowance{Keys: 5}}
	if change != nil {
		change(a)
	}
	p.accounts[address] = a
	return a
}

// in signs somebody in and returns the token.
func (p *people) in(address string) string {
	p.counter++
	sum := sha256.Sum256([]byte(address + rand.Text()))
	token := base64.RawURLEncoding.EncodeToString(sum[:])
	v := &account.Visitor{Account: *p.accounts[address], FormToken: account.FormToken(token)}
	v.Session = storage.Session{
		ID: fmt.Sprintf("sess_%04d", p.counter), Hash: sha256.Sum256([]byte(token)), Form: sha256.Sum256([]byte(v.FormToken)), Account: v.Account.ID,
		Agent: "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", From: "192.0.2.1", CreatedAt: noon(), SeenAt: noon(), ExpiresAt: noon().Add(8 * time.Hour),
	}
	p.sessions[token] = v
	return token
}

func (p *people) begin() (func(), error) {
	p.mu.Lock()
	return p.mu.Unlock, p.fail
}

func (p *people) SignUp(_ context.Context, address, pw string, _ auth.By) error {
	end, err := p.begin()
	defer end()
	switch {
	case err != nil:
		return err
	case !strings.Contains(address, "@"):
		return &account.InvalidError{Field: "address", Problem: "is not an e-mail address; want one such as ada@example.org"}
	case len(pw) < 15:
		return &account.InvalidError{Field: "password", Problem: fmt.Sprintf("has %d characters; want at least 15", len(pw))}
	}
	p.calls++
	if p.accounts[address] == nil {
		p.add(address, func(a *storage.Account) { a.State, a.Password = storage.AccountPending, pw })
	}
	return nil
}

func (p *people) SignIn(_ context.Context, in account.SignIn) (account.Opened, error) {
	end, err := p.begin()
	defer end()
	a := p.accounts[in.Address]
	switch {
	case err != nil:
		return account.Opened{}, err
	case a == nil || a.Password != in.Password:
		return account.Opened{}, account.ErrRefused
	case a.State == storage.AccountPending:
		return account.Opened{}, account.ErrPending
	case a.State == storage.AccountSuspended:
		return account.Opened{}, account.ErrSuspended
	}
	p.calls++
	token := p.in(in.Address)
	p.sessions[token].Session.Agent, p.sessions[token].Session.From = in.Agent, in.From
	return account.Opened{Token: token, ExpiresAt: noon().Add(8 * time.Hour)}, nil
}

func (p *people) Visitor(_ context.Context, token string) (*account.Visitor, error) {
	end, err := p.begin()
	defer end()
	if err != nil {
		return nil, err
	}
	v, ok := p.sessions[token]
	if !ok {
		return nil, fmt.Errorf("session: %w", account.ErrNoSession)
	}
	return v, nil
}

func (p *people) end(keep func(*account.Visitor) bool) (n int) {
	for token, v := range p.sessions {
		if !keep(v) {
			delete(p.sessions, token)
			n++
		}
	}
	p.calls++
	return n
}

func (p *people) SignOut(_ context.Context, v *account.Visitor) error {
	end, err := p.begin()
	defer end()
	p.end(func(o *account.Visitor) bool { return o.Session.ID != v.Session.ID })
	return err
}

func (p *people) Sessions(_ context.Context, v *account.Visitor) (list []storage.Session, err error) {
	end, err := p.begin()
	defer end()
	for _, o := range p.sessions {
		if o.Account.ID == v.Account.ID {
			list = append(list, o.Session)
		}
	}
	slices.SortFunc(list, func(a, b storage.Session) int { return strings.Compare(b.ID, a.ID) })
	return list, err
}

func (p *people) EndSession(_ context.Context, v *account.Visitor, id string) error {
	end, err := p.begin()
	defer end()
	if p.end(func(o *account.Visitor) bool { return o.Account.ID != v.Account.ID || o.Session.ID != id }) == 0 && err == nil {
		err = account.ErrNoSession
	}
	return err
}

func (p *people) EndOthers(_ context.Context, v *account.Visitor) (int, error) {
	end, err := p.begin()
	defer end()
	return p.end(func(o *account.Visitor) bool { return o.Account.ID != v.Account.ID || o.Session.ID == v.Session.ID }), err
}

func (p *people) ChangePassword(_ context.Context, v *account.Visitor, current, next string) (account.Opened, error) {
	end, err := p.begin()
	defer end()
	a := p.accounts[v.Account.Address]
	switch {
	case err != nil:
		return account.Opened{}, err
	case a.Password != current:
		return account.Opened{}, account.ErrRefused
	case len(next) < 15:
		return account.Opened{}, &account.InvalidError{Field: "password", Problem: "is too short; want at least 15 characters"}
	}
	a.Password = next
	p.end(func(o *account.Visitor) bool { return o.Account.ID != v.Account.ID })
	return account.Opened{Token: p.in(a.Address)}, nil
}

func (p *people) Keys(_ context.Context, v *account.Visitor) (list []storage.Key, err error) {
	end, err := p.begin()
	defer end()
	list = make([]storage.Key, 0, len(p.keys))
	for i := range slices.Backward(p.keys) {
		if p.keys[i].Account == v.Account.ID {
			list = append(list, p.keys[i])
		}
	}
	return list, err
}

func (p *people) CreateKey(_ context.Context, v *account.Visitor, spec account.KeySpec) (auth.Issued, error) {
	end, err := p.begin()
	defer end()
	if err != nil {
		return auth.Issued{}, err
	}
	ends, err := auth.ParseExpiry(spec.Expires, noon())
	if err != nil {
		return auth.Issued{}, &account.InvalidError{Field: "key", Problem: strings.TrimPrefix(err.Error(), "auth: invalid: ")}
	}
	return p.mint(storage.Key{Account: v.Account.ID, Lineage: v.Account.ID, Name: spec.Name, Models: spec.Models, ExpiresAt: ends})
}

func (p *people) mint(k storage.Key) (auth.Issued, error) {
	secret, err := auth.Mint(nil)
	if err != nil {
		return auth.Issued{}, err
	}
	p.calls++
	k.ID, k.Hint, k.CreatedAt = fmt.Sprintf("key_%05d", len(p.keys)), secret.Hint(), noon()
	p.keys = append(p.keys, k)
	return auth.Issued{Secret: secret, Key: k, Warnings: []string{"<b>mind</b> this"}}, nil
}

func (p *people) RevokeKey(_ context.Context, v *account.Visitor, id string) (storage.Key, error) {
	end, err := p.begin()
	defer end()
	for i := range p.keys {
		if k := &p.keys[i]; k.ID == id && k.Account == v.Account.ID && err == nil {
			p.calls++
			k.RevokedAt = noon()
			return *k, nil
		}
	}
	if err == nil {
		err = storage.ErrNotFound
	}
	return storage.Key{}, err
}

func (p *people) Usage(_ context.Context, _ *account.Visitor, _, _ time.Time, grain storage.Grain) ([]storage.Rollup, error) {
	end, err := p.begin()
	defer end()
	if grain != storage.GrainDay {
		return nil, storage.ErrInvalid
	}
	return p.rollups, err
}

func (p *people) Identity(_ context.Context, v *account.Visitor, id string) (*auth.Identity, error) {
	end, err := p.begin()
	defer end()
	for _, k := range p.keys {
		if k.ID == id && k.Account == v.Account.ID && k.Usable(noon()) && err == nil {
			return auth.NewIdentity(k), nil
		}
	}
	if err == nil {
		err = storage.ErrNotFound
	}
	return nil, err
}

func (p *people) Link(_ context.Context, token string) (account.LinkInfo, error) {
	end, err := p.begin()
	defer end()
	l, ok := p.links[token]
	switch {
	case err != nil:
	case !ok:
		err = account.ErrNoLink
	case p.used[token]:
		err = account.ErrLinkUsed
	}
	return l, err
}

func (p *people) OpenKeyLink(ctx context.Context, token string, _ auth.By) (auth.Issued, error) {
	if _, err := p.Link(ctx, token); err != nil {
		return auth.Issued{}, err
	}
	end, _ := p.begin()
	defer end()
	p.used[token] = true
	return p.mint(storage.Key{Name: "handed over"})
}

func (p *people) OpenResetLink(ctx context.Context, token, pw string, _ auth.By) error {
	if _, err := p.Link(ctx, token); err != nil {
		return err
	}
	end, _ := p.begin()
	defer end()
	if len(pw) < 15 {
		return &account.InvalidError{Field: "password", Problem: "is too short; want at least 15 characters"}
	}
	p.used[token] = true
	p.calls++
	return nil
}

// world is a portal with its people.
type world struct {
	*people
	site   *webui.Site
	portal *portal.Portal
	h      http.Handler
	routes []webui.Route
	plane  func(http.ResponseWriter, *http.Request)
}

func newWorld(tb testing.TB, change func(*webui.Config, *portal.Config, *portal.Deps)) *world {
	tb.Helper()
	w := &world{people: newPeople()}
	deps := portal.Deps{
		Accounts: w.people, SignUp: true, Now: noon,
		Models: func(id *auth.Identity) []string { return []string{"model-of-" + id.KeyID(), "other"} },
		Plane:  http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.plane(rw, r) }),
	}
	var site webui.Config
	var cfg portal.Config
	if change != nil {
		change(&site, &cfg, &deps)
	}
	var err error
	w.site, err = webui.New(site, webui.Deps{
		Sessions: portal.Sessions(w.people), Assets: portal.Assets(),
		Nav: portal.Nav(portal.NavConfig{SignIn: deps.Accounts != nil, SignUp: deps.SignUp, Chat: deps.Plane != nil, Console: true}),
	})
	if err != nil {
		tb.Fatal(err)
	}
	deps.Site = w.site
	if w.portal, err = portal.New(cfg, deps); err != nil {
		tb.Fatal(err)
	}
	w.routes = w.portal.Routes()
	w.h = w.site.Handler(w.routes)
	return w
}

// browser keeps cookies, as one does.
type browser struct {
	h       http.Handler
	cookies map[string]string
	header  http.Header
}

func (w *world) browser() *browser {
	return &browser{h: w.h, cookies: map[string]string{}, header: http.Header{}}
}

// signedIn is a browser of somebody who is.
func (w *world) signedIn(address string) *browser {
	b := w.browser()
	b.cookies["llmgw"] = w.in(address)
	return b
}

func (b *browser) do(method, path string, body io.Reader, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, body)
	maps.Copy(r.Header, b.header)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := httptest.NewRecorder()
	b.h.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		} else {
			b.cookies[c.Name] = c.Value
		}
	}
	return w
}

func (b *browser) get(path string) *httptest.ResponseRecorder { return b.do("GET", path, nil) }

// post sends a form, with the token that page has.
func (b *browser) post(tb testing.TB, page, path string, fields ...string) *httptest.ResponseRecorder {
	tb.Helper()
	form := url.Values{"form_token": {b.token(tb, page, path)}}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return b.send(path, form)
}

func (b *browser) send(path string, form url.Values) *httptest.ResponseRecorder {
	return b.do("POST", path, strings.NewReader(form.Encode()), "Content-Type", "application/x-www-form-urlencoded")
}

// token reads the token of a form of a page: the last, since the header has one, too.
func (b *browser) token(tb testing.TB, page, path string) string {
	tb.Helper()
	w := b.get(page)
	body := w.Body.String()
	const mark = `name="form_token" value="`
	at := strings.LastIndex(body, mark)
	if w.Code != http.StatusOK || at < 0 {
		tb.Fatalf("%s has no form for %s: %d %s", page, path, w.Code, body)
	}
	token, _, _ := strings.Cut(body[at+len(mark):], `"`)
	return token
}

func value(tb testing.TB, body, name string) string {
	tb.Helper()
	_, rest, ok := strings.Cut(body, `name="`+name+`" value="`)
	found, _, _ := strings.Cut(rest, `"`)
	if !ok {
		tb.Fatalf("no field %s in %s", name, body)
	}
	return found
}

func wantCode(tb testing.TB, w *httptest.ResponseRecorder, code int, says ...string) {
	tb.Helper()
	if w.Code != code {
		tb.Errorf("status %d, want %d: %s", w.Code, code, w.Body)
	}
	for _, text := range says {
		if !strings.Contains(w.Body.String(), text) {
			tb.Errorf("does not say %q: %s", text, w.Body)
		}
	}
}

func wantTo(tb testing.TB, w *httptest.ResponseRecorder, path string) {
	tb.Helper()
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != path {
		tb.Errorf("%d to %q, want 303 to %q: %s", w.Code, w.Header().Get("Location"), path, w.Body)
	}
}
