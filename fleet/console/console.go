package console

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/llmgw/llmgw/auth/webui"
)

//go:embed views/*.html
var viewFiles embed.FS

// Root is where the console is on the port that clients use, and LocalRoot on a listener
// that only operators reach: there paths below /admin/ are an API's, and one path is
// never both.
const (
	Root      = "/admin/"
	LocalRoot = "/console/"
)

// Console is the operators' pages of one listener. Its methods may be called
// concurrently.
type Console struct {
	cfg     Config
	deps    Deps
	views   *webui.Views
	history *history // nil: there is no traffic
	sums    *sums    // nil: there is neither usage nor keys
}

// New validates cfg and returns a Console. It starts no goroutine; call Run.
func New(cfg Config, deps Deps) (*Console, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	if deps.Site == nil {
		return nil, errors.New("console: Deps.Site is nil; want the look of the pages, which webui.New makes")
	}
	deps.Root = cmp.Or(deps.Root, Root)
	if deps.Root == "/" || path.Clean(deps.Root)+"/" != deps.Root || strings.ContainsAny(deps.Root, "{}%?# ") || deps.Root[0] != '/' {
		return nil, fmt.Errorf("console: Deps.Root is %q; want a path that begins and ends with a slash, such as %s", deps.Root, Root)
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Console{cfg: cfg, deps: deps}
	files, err := fs.Sub(viewFiles, "views")
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	if c.views, err = deps.Site.Views(files, funcs(deps.Root), "*.html"); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	if deps.Traffic != nil {
		c.history = newHistory(cfg.Sample, cfg.History)
	}
	if deps.Usage != nil {
		c.sums = newSums(cfg, deps)
	}
	return c, nil
}

// Run samples traffic and adds usage up for pages that ask for it, until ctx is done;
// then it returns nil. Without it pages say that rates and sums are not known. Call it
// once.
func (c *Console) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	if c.history != nil {
		wg.Go(func() { c.sample(ctx) })
	}
	if c.sums != nil {
		wg.Go(func() { c.sums.run(ctx) })
	}
	<-ctx.Done()
	return nil
}

// sample reads traffic in time.
func (c *Console) sample(ctx context.Context) {
	ticks := time.NewTicker(c.cfg.Sample)
	defer ticks.Stop()
	for {
		reading := c.deps.Traffic.Traffic()
		c.history.take(c.deps.Now(), &reading)
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// handle answers a request for a page.
type handle = func(w http.ResponseWriter, r *http.Request, v webui.Visit) error

// entry is a page of the console.
type entry struct {
	label  string // in the navigation; empty: it is reached from another
	path   string
	of     string // the path of the page that it belongs to; empty: itself
	handle handle
}

// pages are the pages that there is anything to show on.
func (c *Console) pages() []entry {
	out := []entry{{label: "Overview", path: c.deps.Root, handle: c.overview}}
	add := func(there bool, e ...entry) {
		if there {
			out = append(out, e...)
		}
	}
	add(c.deps.Nodes != nil,
		entry{label: "Nodes", path: c.deps.Root + "nodes", handle: c.nodes},
		entry{path: c.deps.Root + "node", of: c.deps.Root + "nodes", handle: c.node})
	add(c.deps.Placement != nil, entry{label: "Fabrics", path: c.deps.Root + "fabrics", handle: c.fabrics})
	add(c.deps.Placement != nil || c.deps.Models != nil,
		entry{label: "Models", path: c.deps.Root + "models", handle: c.models},
		entry{path: c.deps.Root + "model", of: c.deps.Root + "models", handle: c.model})
	add(c.deps.Placement != nil,
		entry{label: "Replicas", path: c.deps.Root + "replicas", handle: c.replicas},
		entry{path: c.deps.Root + "replica", of: c.deps.Root + "replicas", handle: c.replica})
	add(c.deps.Traffic != nil,
		entry{label: "Queues", path: c.deps.Root + "queues", handle: c.queues},
		entry{label: "Rates", path: c.deps.Root + "rates", handle: c.rates})
	add(c.deps.Usage != nil, entry{label: "Usage", path: c.deps.Root + "usage", handle: c.usage})
	add(c.deps.Users != nil, entry{label: "Accounts", path: c.deps.Root + "accounts", handle: c.accounts})
	add(c.deps.Extras.Elsewhere != nil, entry{label: "Elsewhere", path: c.deps.Root + "elsewhere", handle: c.elsewhere})
	return out
}

// Routes returns the console's routes: webui.Admin on a port where people sign in,
// webui.Open on a listener that only operators reach. All are GET.
func (c *Console) Routes(access webui.Access) []webui.Route {
	pages := c.pages()
	routes := []webui.Route{{
		Method: http.MethodGet, Path: strings.TrimSuffix(c.deps.Root, "/"), Access: access,
		Handler: func(w http.ResponseWriter, r *http.Request, _ webui.Visit) error {
			http.Redirect(w, r, c.deps.Root, http.StatusSeeOther)
			return nil
		},
	}}
	for _, p := range pages {
		routes = append(routes, webui.Route{Method: http.MethodGet, Path: p.path, Access: access, Handler: p.handle})
	}
	return routes
}

// Handler serves the routes alone, and the assets of the look. It is for a listener on
// which there are no other pages.
func (c *Console) Handler(access webui.Access) http.Handler {
	return c.deps.Site.Handler(c.Routes(access))
}

// offers reports whether there is a page of that path.
func (c *Console) offers(path string) bool {
	for _, p := range c.pages() {
		if p.path == path {
			return true
		}
	}
	return false
}

// nav are the pages, with the one of that path as the current one.
func (c *Console) nav(path string) []webui.NavItem {
	pages := c.pages()
	current := path
	for _, p := range pages {
		if p.path == path && p.of != "" {
			current = p.of
		}
	}
	var out []webui.NavItem
	for _, p := range pages {
		if p.label != "" {
			out = append(out, webui.NavItem{Label: p.label, Path: p.path, Current: p.path == current})
		}
	}
	return append(out, c.deps.Extras.More...)
}

// view is what every page's template gets.
type view struct {
	Title string
	// At is when the page was made.
	At time.Time
	// Missing are what could not be read, a sentence each.
	Missing []string
	// Offers says which pages may be linked to.
	Offers offers
	Data   any
}

// offers are pages that other pages lead to.
type offers struct{ Nodes, Models, Replicas, Queues, Rates bool }

// show answers with a page.
func (c *Console) show(w http.ResponseWriter, r *http.Request, body, title string, missing []string, data any) error {
	v := view{Title: title, At: c.deps.Now(), Missing: missing, Data: data, Offers: offers{
		Nodes: c.offers(c.deps.Root + "nodes"), Models: c.offers(c.deps.Root + "models"), Replicas: c.offers(c.deps.Root + "replicas"), Queues: c.offers(c.deps.Root + "queues"), Rates: c.offers(c.deps.Root + "rates"),
	}}
	return c.deps.Site.Page(w, r, http.StatusOK, webui.Page{Title: title, Sub: c.nav(r.URL.Path), Views: c.views, Body: body, Data: v, Wide: true})
}

// ask asks a service, within bounds. What it does not answer is a sentence in missing,
// and nil.
func ask[Q, A any](ctx context.Context, c *Console, missing *[]string, what string, call func(context.Context, Q) (A, error), req Q) (answer A, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.ServiceTimeout)
	defer cancel()
	answer, err := call(ctx, req)
	if err != nil {
		*missing = append(*missing, what+" could not be read: "+c.reason(ctx, what, err))
		var none A
		return none, false
	}
	return answer, true
}

// reason is what is told of an error, which is logged where that is nothing.
func (c *Console) reason(ctx context.Context, what string, err error) string {
	if text := c.fault(err).Text; text != "" {
		return text
	}
	if ctx.Err() != nil {
		return "it took too long. Load the page again."
	}
	c.deps.Logger.ErrorContext(ctx, "a page of the console lacks something", "what", what, "err", err)
	return "a fault of the server, which its log tells more of."
}

func (c *Console) fault(err error) Fault {
	if c.deps.Fault == nil {
		return Fault{}
	}
	return c.deps.Fault(err)
}

// none is what is answered where there is nothing of that name.
func none(what, name, list string) error {
	return &webui.Problem{
		Status: http.StatusNotFound, Title: fmt.Sprintf("There is no %s %q", what, short(name, 100)),
		Text: "It may be gone, or its name is misspelled.", Next: []webui.NavItem{{Label: "All " + what + "s", Path: list}},
	}
}

// chosen are the options of a page, under what they are of.
type chosen struct {
	Label   string
	Options []option
}

// funcs are what the templates may call besides those of the look.
func funcs(root string) template.FuncMap {
	return template.FuncMap{
		"root":    func() string { return root },
		"mark":    func(k webui.Kind, text string) webui.Status { return webui.Status{Kind: k, Text: text} },
		"options": func(label string, o []option) chosen { return chosen{label, o} },
	}
}
