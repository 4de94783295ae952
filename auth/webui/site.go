package webui

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// ErrNobody says that a token opens no session: it never did, or not any more.
var ErrNobody = errors.New("webui: nobody is signed in")

// Config is what an operator says of the pages. Start from DefaultConfig.
type Config struct {
	// PublicURL is where people find the pages, such as https://llm.example.org,
	// without a path. With https cookies are sent over TLS only, also where a proxy
	// ends it. Default empty: not known.
	PublicURL string `yaml:"public_url"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config { return Config{} }

// Validate returns what is wrong with the configuration.
func (c Config) Validate() error {
	_, err := c.origin()
	return err
}

// origin returns PublicURL as a browser writes an origin; empty if there is none.
func (c Config) origin() (string, error) {
	if c.PublicURL == "" {
		return "", nil
	}
	u, err := url.Parse(c.PublicURL)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.User != nil, u.Path != "" && u.Path != "/", u.RawQuery != "", u.Fragment != "":
		return "", fmt.Errorf("public_url: %q; want the address of the pages, such as https://llm.example.org, with no path and no user in it", c.PublicURL)
	}
	return u.Scheme + "://" + strings.ToLower(u.Host), nil
}

// Sessions says whose session a token opens. It is asked for every request that has
// a cookie, so that a session that has ended ends here, too.
type Sessions interface {
	// Visit returns the visitor. An error that wraps ErrNobody says that there is no
	// such session; any other, that it cannot be known now.
	Visit(ctx context.Context, token string) (Visitor, error)
}

// Visitor is somebody who is signed in.
type Visitor struct {
	Address string // shown on pages
	Admin   bool   // may look at the console
	// FormToken is what the forms of this session carry.
	FormToken string
	// Checks reports, in constant time, whether that is the session's form token. Nil
	// refuses all.
	Checks func(form string) bool
	// Value is for handlers; nothing here reads it.
	Value any
}

// Deps are the site's collaborators.
type Deps struct {
	// Sessions is nil where nobody can sign in: whatever needs that is not there.
	Sessions Sessions
	// Nav is what the header offers to a visitor on pages that say nothing else, error
	// pages among them. Nil: nothing.
	Nav func(v Visit) []NavItem
	// Assets holds more files for /assets/, at its root; nil: none. A name that is
	// taken is an error.
	Assets fs.FS
	Random io.Reader    // nil is crypto/rand.Reader
	Logger *slog.Logger // nil discards
}

// Site is the look and the guards of one listener's pages. Its methods may be
// called concurrently.
type Site struct {
	cfg    Config
	origin string // of cfg.PublicURL; empty: not known
	deps   Deps
	cross  *http.CrossOriginProtection
	assets *assets
	layout *template.Template
	shared *template.Template // what all views may use
	own    *Views
	pool   sync.Pool // of *bytes.Buffer
}

// New returns a Site.
func New(cfg Config, deps Deps) (*Site, error) {
	origin, err := cfg.origin()
	if err != nil {
		return nil, fmt.Errorf("webui: %w", err)
	}
	if deps.Random == nil {
		deps.Random = rand.Reader
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Site{cfg: cfg, origin: origin, deps: deps, cross: http.NewCrossOriginProtection()}
	s.pool.New = func() any { return new(bytes.Buffer) }
	if origin != "" {
		// A proxy may change Host: what the browser says is compared with the name
		// that people use, too.
		if err := s.cross.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("webui: public_url: %w", err)
		}
	}
	if s.assets, err = newAssets(deps.Assets); err != nil {
		return nil, err
	}
	if err := s.parse(); err != nil {
		return nil, err
	}
	return s, nil
}

// PublicURL returns where people find the pages, as configured, without a slash at
// the end; empty if that is not known.
func (s *Site) PublicURL() string { return s.origin }

// https reports whether the browser talks TLS, as far as that is certain: nothing
// that a request says of itself counts.
func (s *Site) https(r *http.Request) bool {
	return strings.HasPrefix(s.origin, "https:") || r.TLS != nil
}
