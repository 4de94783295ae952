package gateway

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/endpoint"
)

// models is the router's view of the catalog, swapped whole.
type models struct {
	at       atomic.Pointer[view]
	versions atomic.Uint64 // of views made so far
}

// Catalog implements [router.Models].
func (m *models) Catalog() router.Catalog { return m.at.Load() }

// view is one immutable catalog in the router's terms.
type view struct {
	from *catalog.Catalog
	list []router.Model
	by   map[string]int // canonical name → index in list
	keys auth.Models    // the same for keys' lists
}

func newView(c *catalog.Catalog, version uint64) *view {
	v := &view{from: c, by: make(map[string]int, c.Len())}
	v.keys = auth.Models{Version: version, Resolve: v.canonical, Names: v.names, Priced: c.Priced}
	for _, m := range c.Models() {
		v.by[m.Name] = len(v.list)
		v.list = append(v.list, router.Model{Name: m.Name, Fallbacks: m.Fallbacks, Profile: m.RoutingProfile})
	}
	return v
}

// Resolve implements [router.Catalog].
func (v *view) Resolve(name string) (router.Model, bool) {
	m, ok := v.from.Resolve(name)
	if !ok {
		return router.Model{}, false
	}
	return v.list[v.by[m.Name]], true
}

// canonical returns the name of the model that name is the name or an alias of.
func (v *view) canonical(name string) (string, bool) {
	m, ok := v.from.Resolve(name)
	if !ok {
		return "", false
	}
	return m.Name, true
}

// names returns all names and aliases.
func (v *view) names() []string {
	var out []string
	for _, m := range v.from.Models() {
		out = append(append(out, m.Name), m.Aliases...)
	}
	return out
}

// List implements [router.Catalog].
func (v *view) List() []router.Model { return v.list }

// newCatalog makes the catalog of the declared models and of those that only an
// endpoint names. An endpoint that lists a model by an alias serves the model
// under that name; specs is changed accordingly.
func newCatalog(declared []catalog.Model, specs []endpoint.Spec) (*catalog.Catalog, error) {
	names, err := catalog.New(declared)
	if err != nil {
		return nil, err
	}
	var served []string
	for i := range specs {
		var list []endpoint.Model
		for _, m := range specs[i].Models {
			if d, ok := names.Resolve(m.Name); ok && d.Name != m.Name {
				m = endpoint.Model{Name: d.Name, Upstream: cmp.Or(m.Upstream, m.Name)}
			}
			if !slices.ContainsFunc(list, func(l endpoint.Model) bool { return l.Name == m.Name }) {
				list = append(list, m)
			}
			served = append(served, m.Name)
		}
		specs[i].Models = list
	}
	return catalog.New(catalog.WithServed(declared, served))
}
