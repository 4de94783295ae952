package catalog

import (
	"errors"
	"fmt"
)

// Stored is a model that was added while a server ran.
type Stored struct {
	// Name names the entry even where Model cannot be read.
	Name  string
	Model Model
	// Fault is why the entry is not one that this program accepts; nil if it is.
	Fault error
}

// SetAside is a stored model that is not in the catalog.
type SetAside struct {
	Name string
	// Why has every reason, joined. Each begins with the path of a key of the entry.
	Why error
}

// Merge puts stored models beside those of the configuration, which are a valid
// list and always win. Of two stored ones that want the same name the earlier in
// the list gets it. A stored model that cannot stand in the catalog is set aside:
// one with a fault, with a name or alias that is another's, or with a fallback that
// is not there, which one that is set aside is not either. models is valid. The
// arguments are not changed; what Merge returns shares memory with them.
func Merge(configured []Model, stored []Stored) (models []Model, aside []SetAside) {
	m := merger{names: make(map[string]place), why: make([]error, len(stored))}
	for i := range configured {
		m.take(&configured[i], true)
	}
	for i, s := range stored {
		if m.why[i] = s.Fault; m.why[i] != nil {
			continue
		}
		if m.why[i] = m.collisions(&stored[i].Model); m.why[i] == nil {
			m.take(&stored[i].Model, false)
		}
	}
	if n := len(configured) + len(stored); n > MaxModels { // the earlier ones stay
		for i := max(0, MaxModels-len(configured)); i < len(stored); i++ {
			m.drop(&stored[i].Model, i, fmt.Errorf("name: there are %d models already; at most %d are accepted", MaxModels, MaxModels))
		}
	}
	for dropped := true; dropped; { // until nobody lacks a fallback
		dropped = false
		for i := range stored {
			if m.why[i] != nil {
				continue
			}
			if why := m.fallbacks(&stored[i].Model); why != nil {
				m.drop(&stored[i].Model, i, why)
				dropped = true
			}
		}
	}
	models = append(models, configured...)
	for i, s := range stored {
		if m.why[i] == nil {
			models = append(models, s.Model)
		} else {
			aside = append(aside, SetAside{Name: s.Name, Why: m.why[i]})
		}
	}
	return models, aside
}

// merger is the state of one Merge.
type merger struct {
	names map[string]place // every name and alias that is taken
	why   []error          // by stored model; nil: it stands in the catalog
}

// place says whose a name is.
type place struct {
	model      string
	configured bool
}

func (p place) String() string {
	if p.configured {
		return fmt.Sprintf("model %q of the configuration, which wins", p.model)
	}
	return fmt.Sprintf("model %q, which was added before", p.model)
}

func (m *merger) take(model *Model, configured bool) {
	for _, name := range append([]string{model.Name}, model.Aliases...) {
		m.names[name] = place{model.Name, configured}
	}
}

func (m *merger) drop(model *Model, i int, why error) {
	if m.why[i] != nil {
		return
	}
	m.why[i] = why
	for _, name := range append([]string{model.Name}, model.Aliases...) {
		delete(m.names, name)
	}
}

func (m *merger) collisions(model *Model) error {
	var errs []error
	check := func(path, name string) {
		if p, taken := m.names[name]; taken {
			errs = append(errs, fmt.Errorf("%s: %q belongs to %v; remove one of them, or give this one another name", path, name, p))
		}
	}
	check("name", model.Name)
	for i, alias := range model.Aliases {
		check(fmt.Sprintf("aliases[%d]", i), alias)
	}
	return errors.Join(errs...)
}

func (m *merger) fallbacks(model *Model) error {
	var errs []error
	seen := make(map[string]int, len(model.Fallbacks))
	for i, fallback := range model.Fallbacks {
		p, known := m.names[fallback]
		switch first, twice := seen[p.model]; {
		case !known:
			errs = append(errs, fmt.Errorf("fallbacks[%d]: %q is no model or alias of the catalog; name one that is, or add it first", i, fallback))
		case twice:
			errs = append(errs, fmt.Errorf("fallbacks[%d]: %q is the same model as fallbacks[%d], %q; list it once", i, fallback, first, p.model))
		default:
			seen[p.model] = i
		}
	}
	return errors.Join(errs...)
}
