package catalog

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/llmgw/llmgw/engines"
)

// Catalog is an immutable set of models. Its methods never block and may be
// called concurrently. A nil Catalog is empty.
type Catalog struct {
	models []Model           // sorted by name; fallbacks canonical
	byName map[string]*Model // every name and alias
}

// New checks the models (see [Validate]) and makes a Catalog of them. It keeps
// nothing of the argument. In the result fallbacks stand under their
// canonical names.
func New(models []Model) (*Catalog, error) {
	if err := Validate(models); err != nil {
		return nil, err
	}
	c := &Catalog{models: clone(models), byName: make(map[string]*Model, len(models))}
	slices.SortFunc(c.models, func(a, b Model) int { return strings.Compare(a.Name, b.Name) })
	for i := range c.models {
		m := &c.models[i]
		c.byName[m.Name] = m
		for _, alias := range m.Aliases {
			c.byName[alias] = m
		}
	}
	for i := range c.models {
		for j, fallback := range c.models[i].Fallbacks {
			c.models[i].Fallbacks[j] = c.byName[fallback].Name
		}
	}
	return c, nil
}

// Resolve returns the model with that name or alias. It allocates nothing. The
// model is shared by all callers, who must not change it.
func (c *Catalog) Resolve(name string) (*Model, bool) {
	if c == nil {
		return nil, false
	}
	m, ok := c.byName[name]
	return m, ok
}

// Models returns the models sorted by name. The result is the caller's own.
func (c *Catalog) Models() []Model {
	if c == nil {
		return nil
	}
	return clone(c.models)
}

// Len returns the number of models, aliases not counted.
func (c *Catalog) Len() int {
	if c == nil {
		return 0
	}
	return len(c.models)
}

// WithServed returns models followed by a bare Model, sorted by name, for every
// served name that no model has as its name or alias. It is how a router that
// has only a list of endpoints gets a catalog: what they serve can be asked for
// without being declared. The argument is not changed.
func WithServed(models []Model, served []string) []Model {
	known := make(map[string]bool, len(models)+len(served))
	for i := range models {
		known[models[i].Name] = true
		for _, alias := range models[i].Aliases {
			known[alias] = true
		}
	}
	all := slices.Clone(models)
	for _, name := range slices.Sorted(slices.Values(served)) {
		if !known[name] {
			known[name] = true
			all = append(all, Model{Name: name})
		}
	}
	return all
}

func clone(models []Model) []Model {
	out := slices.Clone(models)
	for i := range out {
		m := &out[i]
		m.Aliases = slices.Clone(m.Aliases)
		m.Fallbacks = slices.Clone(m.Fallbacks)
		m.Prices = slices.Clone(m.Prices)
		for j := range m.Prices {
			m.Prices[j].CachedInput, m.Prices[j].Output = cloneMoney(m.Prices[j].CachedInput), cloneMoney(m.Prices[j].Output)
		}
		m.Profile = cloneProfile(m.Profile)
		if s := m.Scaling; s != nil {
			m.Scaling = new(*s)
			m.Scaling.Prewarm = slices.Clone(s.Prewarm)
		}
		if p := m.Placement; p != nil {
			m.Placement = new(*p)
			m.Placement.Nodes, m.Placement.Classes, m.Placement.Apart = slices.Clone(p.Nodes), slices.Clone(p.Classes), slices.Clone(p.Apart)
			m.Placement.Labels = maps.Clone(p.Labels)
		}
	}
	return out
}

func cloneMoney(m *Money) *Money {
	if m == nil {
		return nil
	}
	return new(*m)
}

func cloneProfile(p *engines.Profile) *engines.Profile {
	if p == nil {
		return nil
	}
	c := *p
	c.ServedNames, c.ExtraArgs = slices.Clone(p.ServedNames), slices.Clone(p.ExtraArgs)
	c.Options, c.Env = maps.Clone(p.Options), maps.Clone(p.Env)
	return &c
}

// sorted is a map in the order of its keys.
func sorted(m map[string]string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}
