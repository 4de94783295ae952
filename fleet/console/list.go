package console

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

const (
	// maxFilter bounds what is looked for, in bytes.
	maxFilter = 200
	// maxPage bounds the number of a page.
	maxPage = 1_000_000
)

// param is a parameter of a page that its forms and links keep.
type param struct{ Name, Value string }

// list is where a table stands that is shown in pages.
type list struct {
	Path string
	What string // of what there are rows: "nodes"
	Q    string
	// Keep are the parameters besides Q and the page.
	Keep []param
	// All rows there are, Found of them are looked for, and From to To of these shown.
	All, Found, From, To int
	// Prev and Next lead to the pages beside this one; empty: there is none.
	Prev, Next string
	// Uncounted says that All and Found are not known, since the rows come page by page.
	Uncounted bool
}

// asked reads what a request asks of a list.
func asked(r *http.Request, what string, keep ...param) (l list, page int) {
	query := r.URL.Query()
	l = list{Path: r.URL.Path, What: what, Q: strings.TrimSpace(query.Get("q"))}
	for _, p := range keep {
		if p.Value != "" {
			l.Keep = append(l.Keep, p)
		}
	}
	if len(l.Q) > maxFilter {
		l.Q = strings.ToValidUTF8(l.Q[:maxFilter], "")
	}
	page, err := strconv.Atoi(query.Get("page"))
	if err != nil {
		page = 1
	}
	return l, min(max(page, 1), maxPage)
}

// link leads to this list with more parameters.
func (l *list) link(more ...param) string {
	query := url.Values{}
	if l.Q != "" {
		query.Set("q", l.Q)
	}
	for _, p := range append(append([]param(nil), l.Keep...), more...) {
		query.Set(p.Name, p.Value)
	}
	if len(query) == 0 {
		return l.Path
	}
	return l.Path + "?" + query.Encode()
}

// Clear leads to this list without a search.
func (l list) Clear() string {
	l.Q = ""
	return l.link()
}

// cut returns the rows of a page: those of items that hold what is looked for, in
// their order. text writes what a row is searched by.
func cut[T any](l *list, page, rows int, items []T, text func(*strings.Builder, T)) []T {
	l.All = len(items)
	if l.Q != "" {
		needle, found := strings.ToLower(l.Q), make([]T, 0, len(items))
		var b strings.Builder
		for _, item := range items {
			b.Reset()
			text(&b, item)
			if strings.Contains(strings.ToLower(b.String()), needle) {
				found = append(found, item)
			}
		}
		items = found
	}
	l.Found = len(items)
	page = min(page, max((l.Found+rows-1)/rows, 1))
	from := (page - 1) * rows
	to := min(from+rows, l.Found)
	if l.Found > 0 {
		l.From, l.To = from+1, to
	}
	if page > 1 {
		l.Prev = l.link(param{"page", strconv.Itoa(page - 1)})
	}
	if to < l.Found {
		l.Next = l.link(param{"page", strconv.Itoa(page + 1)})
	}
	return items[from:to]
}

// words writes texts for a search, apart from each other.
func words(b *strings.Builder, texts ...string) {
	for _, t := range texts {
		b.WriteString(t)
		b.WriteByte('\n')
	}
}

// some are the first of a list, and how many more there are.
type some struct {
	First []string
	More  int
	Link  string // where the others are; empty: nowhere
}

// first returns at most n of list, each cut to a bound.
func first(list []string, n int, link string) some {
	s := some{Link: link}
	for _, text := range list[:min(n, len(list))] {
		s.First = append(s.First, short(text, maxText))
	}
	s.More = len(list) - len(s.First)
	return s
}

// maxText bounds a sentence on a page that has many, in bytes: whose words they are may
// have written any number.
const maxText = 400

// short is text, cut where it is longer than n bytes.
func short(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}
