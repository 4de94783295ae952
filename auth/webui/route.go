package webui

import (
	"net/http"
	"slices"
	"strings"
)

// Access is who may open a route. The zero value is nobody.
type Access uint8

// Who may open a route.
const (
	Open     Access = iota + 1 // everybody
	SignedIn                   // who has a session; others are led to sign in
	Admin                      // who has a session and the flag; for all others it is not there
)

// The paths that this package leads to.
const (
	loginPath  = "/login"
	assetsPath = "/assets/"
)

// Route is a page, or what a form or a script sends to.
type Route struct {
	// Method is GET, which includes HEAD, or POST.
	Method string
	// Path is as http.ServeMux reads it, without a method and a host: "/profile",
	// "/link/{token}". "/" is the root alone.
	Path   string
	Access Access
	// Handler answers. What it writes without [Site.Page] has the guards' headers all
	// the same. An error is answered by a page, a [Problem] by what it says, and
	// only before something was written.
	Handler func(w http.ResponseWriter, r *http.Request, v Visit) error
	// MaxBody bounds the body of a POST in bytes; 0 is 64 KiB.
	MaxBody int64
	// Script lets the page run the scripts of /assets/ and lets them talk to this
	// site. GET only.
	Script bool
	// JSON says that a script sends JSON here, with its form token in X-Form-Token, and
	// that faults are answered likewise. The handler reads the body, all of which is
	// here by then. POST only.
	JSON bool
}

// Handler serves the routes and /assets/, with all guards. It panics if the table is
// wrong, which is a fault of the program: a method other than GET and POST, no
// Access, no Handler, two routes of the same method and path.
func (s *Site) Handler(routes []Route) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(assetsPath, s.Assets())
	mux.Handle("/", s.guarded(Route{Method: "*", Access: Open, Handler: func(http.ResponseWriter, *http.Request, Visit) error { return notFound() }}))
	at := make(map[string]map[string]http.Handler)
	for _, rt := range routes {
		switch {
		case rt.Method != http.MethodGet && rt.Method != http.MethodPost,
			rt.Access < Open || rt.Access > Admin, rt.Handler == nil, rt.MaxBody < 0,
			rt.Script && rt.Method != http.MethodGet, rt.JSON && rt.Method != http.MethodPost:
			panic("webui: route " + rt.Method + " " + rt.Path + " is not one")
		case at[rt.Path][rt.Method] != nil:
			panic("webui: route " + rt.Method + " " + rt.Path + " is there twice")
		case at[rt.Path] == nil:
			at[rt.Path] = make(map[string]http.Handler)
		}
		at[rt.Path][rt.Method] = s.guarded(rt)
	}
	for path, by := range at {
		mux.Handle(pattern(path), s.byMethod(by))
	}
	return mux
}

// byMethod serves what a path has and says what that is to who asks for something
// else.
func (s *Site) byMethod(by map[string]http.Handler) http.Handler {
	var allow []string
	if by[http.MethodGet] != nil {
		allow = append(allow, "GET", "HEAD")
	}
	if by[http.MethodPost] != nil {
		allow = append(allow, "POST")
	}
	other := s.wrongMethod(strings.Join(allow, ", "))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		h := by[method]
		if h == nil {
			h = other
		}
		h.ServeHTTP(w, r)
	})
}

func (s *Site) wrongMethod(allow string) http.Handler {
	return s.guarded(Route{Method: "*", Access: Open, Handler: func(w http.ResponseWriter, _ *http.Request, _ Visit) error {
		w.Header().Set("Allow", allow)
		return &Problem{Status: http.StatusMethodNotAllowed, Title: "That does not work here", Text: "This address does not answer requests of this kind. Open the page that links to it and use its buttons."}
	}})
}

// pattern returns what http.ServeMux calls that path.
func pattern(path string) string {
	if strings.HasSuffix(path, "/") {
		return path + "{$}"
	}
	return path
}

// Patterns returns the patterns, without methods, under which a mux finds what
// [Site.Handler] serves, /assets/ included, in order.
func (s *Site) Patterns(routes []Route) []string {
	list := []string{assetsPath}
	for _, rt := range routes {
		list = append(list, pattern(rt.Path))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Exempt returns what needs no key because it has guards of its own, as
// auth.NewExempt reads it, in order: each route, and /assets/. A path with a
// variable part is a rule for all below what comes before that.
func (s *Site) Exempt(routes []Route) []string {
	list := []string{"GET " + assetsPath, "HEAD " + assetsPath}
	for _, rt := range routes {
		path, _, _ := strings.Cut(rt.Path, "{")
		list = append(list, rt.Method+" "+path)
		if rt.Method == http.MethodGet {
			list = append(list, "HEAD "+path)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Guard puts the guards of looking before a handler that is no route, such as the
// console: headers, the session, who may. Requests other than GET and HEAD are
// answered 405. [VisitFrom] has who it is.
func (s *Site) Guard(access Access) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return s.byMethod(map[string]http.Handler{
			http.MethodGet: s.guarded(Route{Method: http.MethodGet, Access: access, Handler: func(w http.ResponseWriter, r *http.Request, _ Visit) error {
				next.ServeHTTP(w, r)
				return nil
			}}),
		})
	}
}
