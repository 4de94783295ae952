package webui

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
)

//go:embed views/*.html
var viewFiles embed.FS

// mostPooled is the largest buffer that is kept for the next page.
const mostPooled = 1 << 20

// Page is what stands between the header and the footer, and what those say.
type Page struct {
	Title string // plain text; the name of the site follows it
	// Nav is what the header offers. Nil: what Deps.Nav says; empty: nothing.
	Nav []NavItem
	// Sub is a second row of what belongs together, such as the console's pages.
	Sub []NavItem
	// Views have the body; nil: the site's own.
	Views *Views
	// Body names the template, which is its file's name: "keys.html".
	Body string
	Data any
	// Wide uses the whole width of the window, for tables of many columns.
	Wide bool
	// Script names a file of /assets/ that the page runs; the route has to allow it.
	Script string
}

// NavItem is a link.
type NavItem struct {
	Label, Path string
	// Current says that the page belongs to it. Where none of a list says so, it is
	// the one whose Path is the page's, or the closest above it.
	Current bool
}

// Views are the templates of one package, with what all pages share: see
// [Site.Views].
type Views struct{ all *template.Template }

// parse reads the site's own templates.
func (s *Site) parse() error {
	var err error
	s.shared, err = template.New("").Funcs(s.funcs()).ParseFS(viewFiles, "views/shared.html")
	if err != nil {
		return fmt.Errorf("webui: %w", err)
	}
	s.layout, err = template.New("").Funcs(s.funcs()).ParseFS(viewFiles, "views/layout.html")
	if err != nil {
		return fmt.Errorf("webui: %w", err)
	}
	files, err := fs.Sub(viewFiles, "views")
	if err != nil {
		return fmt.Errorf("webui: %w", err)
	}
	s.own, err = s.Views(files, nil, "problem.html")
	return err
}

// Views parses templates; patterns are as fs.Glob reads them. They may use the
// templates of shared.html and its functions, and more, which may not take the
// name of one that is there.
func (s *Site) Views(files fs.FS, more template.FuncMap, patterns ...string) (*Views, error) {
	t, err := s.shared.Clone()
	if err == nil {
		t, err = t.Funcs(more).ParseFS(files, patterns...)
	}
	if err != nil {
		return nil, fmt.Errorf("webui: %w", err)
	}
	return &Views{t}, nil
}

// layoutData is what layout.html is given.
type layoutData struct {
	Page
	Visitor  *Visitor
	Main     template.HTML
	FormWord string // of the form that signs out
	Here     string
}

// Page answers with a page. It renders all of it before it sends anything: with an
// error nothing was sent.
func (s *Site) Page(w http.ResponseWriter, r *http.Request, status int, p Page) error {
	v := VisitFrom(r.Context())
	if v.state == nil {
		s.headers(w, r, p.Script != "") // as on a listener that has no sessions
	}
	if p.Views == nil {
		p.Views = s.own
	}
	if p.Nav == nil && s.deps.Nav != nil {
		p.Nav = s.deps.Nav(v)
	}
	p.Nav, p.Sub = current(p.Nav, r.URL.Path), current(p.Sub, r.URL.Path)

	buf := s.buffer()
	defer s.giveBack(buf)
	if err := p.Views.all.ExecuteTemplate(buf, p.Body, p.Data); err != nil {
		return fmt.Errorf("webui: render %s: %w", p.Body, err)
	}
	data := layoutData{Page: p, Main: template.HTML(buf.String()), FormWord: formField, Here: r.URL.Path} // the body's templates have escaped it
	if who, ok := v.Visitor(); ok {
		data.Visitor = &who
	}
	out := s.buffer()
	defer s.giveBack(out)
	if err := s.layout.ExecuteTemplate(out, "layout.html", data); err != nil {
		return fmt.Errorf("webui: render the layout of %s: %w", p.Body, err)
	}
	text := visible(out.Bytes())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	if _, err := w.Write(text); err != nil {
		// Who asked has gone.
		s.deps.Logger.DebugContext(r.Context(), "a page was not sent", "err", err)
	}
	return nil
}

// current marks the one item that the page is or is below of, the closest one.
func current(list []NavItem, path string) []NavItem {
	out := make([]NavItem, len(list))
	at, longest := -1, 0
	for i, item := range list {
		out[i] = item
		if item.Current {
			return list
		}
		above := strings.TrimSuffix(item.Path, "/")
		if (path == item.Path || path == above || above != "" && strings.HasPrefix(path, above+"/")) && len(item.Path) > longest {
			at, longest = i, len(item.Path)
		}
	}
	if at >= 0 {
		out[at].Current = true
	}
	return out
}

func (s *Site) buffer() *bytes.Buffer {
	buf, _ := s.pool.Get().(*bytes.Buffer)
	buf.Reset()
	return buf
}

func (s *Site) giveBack(buf *bytes.Buffer) {
	if buf.Cap() <= mostPooled {
		s.pool.Put(buf)
	}
}
