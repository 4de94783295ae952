package portal

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/account"
	"github.com/llmgw/llmgw/auth/limit"
	"github.com/llmgw/llmgw/auth/webui"
	"github.com/llmgw/llmgw/storage"
)

//go:embed views/*.html
var viewFiles embed.FS

//go:embed assets/*
var assetFiles embed.FS

// Config is what an operator says of the landing page. Start from DefaultConfig.
type Config struct {
	// Contact is whom people ask for access: an e-mail address or an http(s) URL, which
	// become links, or any other text. Default empty: the page says so in general. At
	// most 512 bytes.
	Contact string `yaml:"contact"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config { return Config{} }

// Validate returns what is wrong with the configuration.
func (c Config) Validate() error {
	if len(c.Contact) > mostContact {
		return errors.New("contact: more than 512 bytes; want whom to ask for access, such as help@example.org")
	}
	return nil
}

// Accounts are the people and what is theirs. An *account.Service is one; its
// documentation says what the calls do and which errors they return. Calls may
// overlap.
type Accounts interface {
	SignUp(ctx context.Context, address, password string, by auth.By) error
	SignIn(ctx context.Context, in account.SignIn) (account.Opened, error)
	Visitor(ctx context.Context, token string) (*account.Visitor, error)
	SignOut(ctx context.Context, v *account.Visitor) error
	Sessions(ctx context.Context, v *account.Visitor) ([]storage.Session, error)
	EndSession(ctx context.Context, v *account.Visitor, id string) error
	EndOthers(ctx context.Context, v *account.Visitor) (int, error)
	ChangePassword(ctx context.Context, v *account.Visitor, current, next string) (account.Opened, error)

	Keys(ctx context.Context, v *account.Visitor) ([]storage.Key, error)
	CreateKey(ctx context.Context, v *account.Visitor, spec account.KeySpec) (auth.Issued, error)
	RevokeKey(ctx context.Context, v *account.Visitor, id string) (storage.Key, error)
	Usage(ctx context.Context, v *account.Visitor, from, to time.Time, grain storage.Grain) ([]storage.Rollup, error)
	Identity(ctx context.Context, v *account.Visitor, keyID string) (*auth.Identity, error)

	Link(ctx context.Context, token string) (account.LinkInfo, error)
	OpenKeyLink(ctx context.Context, token string, by auth.By) (auth.Issued, error)
	OpenResetLink(ctx context.Context, token, password string, by auth.By) error
}

// Budgets says what is spent of a budget. A [storage.Budgets] is one.
type Budgets interface {
	Budget(ctx context.Context, b storage.BudgetPeriod) (storage.BudgetState, error)
}

// Deps are the portal's collaborators.
type Deps struct {
	Site *webui.Site // required; made with Assets, Nav and Sessions of this package
	// Accounts is nil where nobody can sign in: the landing page is all there is then.
	Accounts Accounts
	// SignUp: people may sign up by themselves.
	SignUp bool
	// Plane serves POST /v1/chat/completions to who is in the request's context
	// ([auth.FromContext]), without asking for a key. Nil: there is no chat.
	Plane http.Handler
	// Models lists the names of the models that an identity may use, for the chat's
	// choice. Nil: they are typed.
	Models  func(id *auth.Identity) []string
	Budgets Budgets          // nil: budgets are shown without what is spent
	Now     func() time.Time // nil is time.Now
}

// Portal answers the routes of its table. Its methods may be called concurrently.
type Portal struct {
	cfg     Config
	deps    Deps
	contact contact
	views   *webui.Views
	zones   limit.Zones
	next    []string // where signing in may lead

	mu     sync.Mutex
	making map[string]chan struct{} // by account: a key is being made; guarded by mu
}

// New returns a Portal.
func New(cfg Config, deps Deps) (*Portal, error) {
	if err := cfg.Validate(); err != nil {
		return nil, errors.Join(errors.New("portal: the configuration is not valid"), err)
	}
	if deps.Site == nil {
		return nil, errors.New("portal: Deps.Site is nil; want the look of the pages")
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	views, err := deps.Site.Views(viewFiles, nil, "views/*.html")
	if err != nil {
		return nil, err
	}
	p := &Portal{cfg: cfg, deps: deps, contact: readContact(cfg.Contact), views: views, making: make(map[string]chan struct{})}
	for _, rt := range p.Routes() {
		if rt.Method == http.MethodGet && rt.Access == webui.SignedIn {
			p.next = append(p.next, rt.Path)
		}
	}
	return p, nil
}

// Assets are the files that the portal's pages need: [webui.Deps].Assets.
func Assets() fs.FS {
	sub, err := fs.Sub(assetFiles, "assets")
	if err != nil {
		panic(err) // the name is a constant
	}
	return sub
}

// Routes is the table of the portal's pages.
//
// POST /profile/keys makes a key and shows it in its answer. Its form names the keys
// that the account had when the page was made, so the same form sent twice makes one
// key: the second time it is refused, with what to do.
func (p *Portal) Routes() []webui.Route {
	const get, post = http.MethodGet, http.MethodPost
	routes := []webui.Route{{Method: get, Path: "/", Access: webui.Open, Handler: p.landing}}
	if p.deps.Accounts == nil {
		return routes
	}
	routes = append(routes,
		webui.Route{Method: get, Path: "/signup", Access: webui.Open, Handler: p.signUpForm},
		webui.Route{Method: post, Path: "/signup", Access: webui.Open, Handler: p.signUp},
		webui.Route{Method: get, Path: "/login", Access: webui.Open, Handler: p.signInForm},
		webui.Route{Method: post, Path: "/login", Access: webui.Open, Handler: p.signIn},
		webui.Route{Method: post, Path: "/logout", Access: webui.SignedIn, Handler: p.signOut},

		webui.Route{Method: get, Path: "/profile", Access: webui.SignedIn, Handler: p.keys},
		webui.Route{Method: post, Path: "/profile/keys", Access: webui.SignedIn, Handler: p.createKey},
		webui.Route{Method: post, Path: "/profile/keys/revoke", Access: webui.SignedIn, Handler: p.revokeKey},
		webui.Route{Method: get, Path: "/profile/usage", Access: webui.SignedIn, Handler: p.usage},
		webui.Route{Method: get, Path: "/profile/sessions", Access: webui.SignedIn, Handler: p.sessions},
		webui.Route{Method: post, Path: "/profile/sessions/end", Access: webui.SignedIn, Handler: p.endSession},
		webui.Route{Method: post, Path: "/profile/sessions/others", Access: webui.SignedIn, Handler: p.endOthers},
		webui.Route{Method: post, Path: "/profile/password", Access: webui.SignedIn, Handler: p.changePassword},

		webui.Route{Method: get, Path: "/link/{token}", Access: webui.Open, Handler: p.link},
		webui.Route{Method: post, Path: "/link/{token}", Access: webui.Open, Handler: p.openLink},
		webui.Route{Method: get, Path: "/reset/{token}", Access: webui.Open, Handler: p.resetForm},
		webui.Route{Method: post, Path: "/reset/{token}", Access: webui.Open, Handler: p.reset},
	)
	if p.deps.Plane != nil {
		routes = append(routes,
			webui.Route{Method: get, Path: "/chat", Access: webui.SignedIn, Handler: p.chat, Script: true},
			webui.Route{Method: get, Path: "/chat/models", Access: webui.SignedIn, Handler: p.chatModels},
			webui.Route{Method: post, Path: "/chat/completions", Access: webui.SignedIn, Handler: p.chatCompletions, JSON: true, MaxBody: mostChat},
		)
	}
	return routes
}

// page answers with one of the portal's own.
func (p *Portal) page(w http.ResponseWriter, r *http.Request, status int, title, body string, data any) error {
	page := webui.Page{Title: title, Views: p.views, Body: body, Data: data}
	if strings.HasPrefix(r.URL.Path, "/profile") {
		page.Sub = []webui.NavItem{
			{Label: "Keys", Path: "/profile"},
			{Label: "Usage", Path: "/profile/usage"},
			{Label: "Sessions and password", Path: "/profile/sessions"},
		}
	}
	if body == "chat.html" {
		page.Script = "chat.js"
	}
	return p.deps.Site.Page(w, r, status, page)
}

// to leads to a page after something was done there.
func (p *Portal) to(w http.ResponseWriter, r *http.Request, path, note string) error {
	if note != "" {
		p.deps.Site.Note(w, r, note)
	}
	http.Redirect(w, r, path, http.StatusSeeOther)
	return nil
}

// noted returns what the page before has done; empty if nothing.
func noted(v webui.Visit) string {
	switch v.Note() {
	case "signed-out":
		return "You are signed out."
	case "password-set":
		return "Your new password is set. Sign in with it."
	case "password-changed":
		return "Your password is changed, and all your other sessions have ended."
	case "revoked":
		return "The key is revoked. Programs that use it are refused from now on."
	case "session-ended":
		return "The session has ended."
	case "others-ended":
		return "All your other sessions have ended."
	default:
		return ""
	}
}

// NavConfig says what there is to offer in the header.
type NavConfig struct {
	SignIn  bool // people can sign in
	SignUp  bool // people may sign up by themselves
	Chat    bool // there is a chat
	Console bool // there is a console at /admin/
}

// Nav returns what the header offers, for [webui.Deps].Nav: to each visitor what that
// one can open, and nothing else.
func Nav(cfg NavConfig) func(webui.Visit) []webui.NavItem {
	return func(v webui.Visit) []webui.NavItem {
		var list []webui.NavItem
		who, in := v.Visitor()
		add := func(ok bool, label, path string) {
			if ok {
				list = append(list, webui.NavItem{Label: label, Path: path})
			}
		}
		add(in, "Profile", "/profile")
		add(in && cfg.Chat, "Chat", "/chat")
		add(in && cfg.Console && who.Admin, "Console", "/admin/")
		add(!in && cfg.SignIn, "Sign in", "/login")
		add(!in && cfg.SignIn && cfg.SignUp, "Sign up", "/signup")
		return list
	}
}

// Sessions has accounts say whose session a token opens, for [webui.Deps].Sessions.
func Sessions(accounts Accounts) webui.Sessions { return sessions{accounts} }

type sessions struct{ accounts Accounts }

// Visit implements webui.Sessions.
func (s sessions) Visit(ctx context.Context, token string) (webui.Visitor, error) {
	v, err := s.accounts.Visitor(ctx, token)
	if errors.Is(err, account.ErrNoSession) {
		return webui.Visitor{}, webui.ErrNobody
	}
	if err != nil {
		return webui.Visitor{}, err
	}
	return webui.Visitor{Address: v.Account.Address, Admin: v.Account.Admin, FormToken: v.FormToken, Checks: v.Checks, Value: v}, nil
}

// visitorOf returns who is signed in, on a route that only they can open.
func visitorOf(v webui.Visit) (*account.Visitor, error) {
	who, _ := v.Visitor()
	own, ok := who.Value.(*account.Visitor)
	if !ok {
		return nil, errors.New("portal: the site's sessions are not those of portal.Sessions")
	}
	return own, nil
}

// from is where a request's connection comes from. What it says of that itself
// counts for nothing.
func from(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// unavailable makes the page of an error that is not the visitor's fault.
func unavailable(err error) error {
	switch {
	case errors.Is(err, storage.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return &webui.Problem{Status: http.StatusServiceUnavailable, Err: err}
	case errors.Is(err, account.ErrNoSession):
		return &webui.Problem{
			Status: http.StatusForbidden, Title: "You are not signed in any more", Text: "Nothing was done. Sign in and do it again.",
			Next: []webui.NavItem{{Label: "Sign in", Path: "/login"}}, Err: err,
		}
	}
	return err
}

// known returns where signing in may lead: a page of this portal, or else the profile.
func (p *Portal) known(next string) string {
	if slices.Contains(p.next, next) {
		return next
	}
	return "/profile"
}
