package catalog

import (
	"slices"
	"strings"
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
		out[i].Aliases = slices.Clone(out[i].Aliases)
		out[i].Fallbacks = slices.Clone(out[i].Fallbacks)
		out[i].Prices = slices.Clone(out[i].Prices)
	}
	return out
}
