package routertest

import "github.com/llmgw/llmgw/router"

// Catalog is a [router.Models] and the [router.Catalog] it returns: models that
// never change.
type Catalog struct {
	Models  []router.Model    // in the order of their names
	Aliases map[string]string // alias → name
}

// Catalog returns c.
func (c *Catalog) Catalog() router.Catalog { return c }

// Resolve finds a model by name or alias.
func (c *Catalog) Resolve(name string) (router.Model, bool) {
	if to, ok := c.Aliases[name]; ok {
		name = to
	}
	for _, m := range c.Models {
		if m.Name == name {
			return m, true
		}
	}
	return router.Model{}, false
}

// List returns the models.
func (c *Catalog) List() []router.Model { return c.Models }
