package provider

import (
	"slices"
	"strings"
	"time"
)

// Snapshot is all providers at one moment, by name. Nobody changes it.
type Snapshot struct {
	Providers []View
	byID      map[string]int
	// Late is how long the provider is due that waits longest to be asked.
	Late time.Duration
}

// ByID returns a provider.
func (s *Snapshot) ByID(id string) (View, bool) {
	i, ok := s.byID[id]
	if !ok {
		return View{}, false
	}
	return s.Providers[i], true
}

// ByName returns a provider.
func (s *Snapshot) ByName(name string) (View, bool) {
	i, ok := slices.BinarySearchFunc(s.Providers, name, func(v View, name string) int { return strings.Compare(v.Name, name) })
	if !ok {
		return View{}, false
	}
	return s.Providers[i], true
}

func (r *Registry) publish(now time.Time) {
	s := &Snapshot{Providers: make([]View, 0, r.core.Len()), byID: make(map[string]int, r.core.Len()), Late: r.plan.late(now)}
	r.core.Views(func(v View) { s.Providers = append(s.Providers, v) })
	for i := range s.Providers {
		s.byID[s.Providers[i].ID] = i
	}
	changed := r.dirty
	r.snapshot.Store(s)
	r.dirty, r.published = false, now
	if changed && r.deps.Changed != nil {
		r.deps.Changed(s)
	}
}
