package provider

import (
	"slices"
	"strings"
	"time"

	"github.com/llmgw/llmgw/storage"
)

// mostModels bounds the models that are kept of a provider, gone ones included.
const mostModels = 4096

func findModel(models []storage.ProviderModel, name string) *storage.ProviderModel {
	i, ok := slices.BinarySearchFunc(models, name, func(m storage.ProviderModel, name string) int { return strings.Compare(m.Name, name) })
	if !ok {
		return nil
	}
	return &models[i]
}

// reconcile holds what is known against an answer. What is listed no longer is gone
// since now, what is listed again is back, what is new is seen first now, and what is
// gone for longer than forget is forgotten. Both lists are by name. same says that
// nothing changed, gone how many went with this answer.
func reconcile(known []storage.ProviderModel, listed []Listed, now time.Time, forget time.Duration) (models []storage.ProviderModel, same bool, gone int) {
	same = true
	models = make([]storage.ProviderModel, 0, max(len(known), len(listed)))
	for len(known) > 0 || len(listed) > 0 {
		switch {
		case len(listed) == 0 || len(known) > 0 && known[0].Name < listed[0].Name:
			m := known[0]
			known = known[1:]
			switch {
			case m.GoneAt.IsZero():
				m.GoneAt = now
				same = false
				gone++
			case now.Sub(m.GoneAt) >= forget:
				same = false
				continue
			}
			models = append(models, m)
		case len(known) == 0 || listed[0].Name < known[0].Name:
			l := listed[0]
			listed = listed[1:]
			models = append(models, storage.ProviderModel{Name: l.Name, OwnedBy: l.OwnedBy, ContextTokens: l.ContextTokens, FirstSeen: now})
			same = false
		default:
			m, l := known[0], listed[0]
			known, listed = known[1:], listed[1:]
			if !m.GoneAt.IsZero() || m.OwnedBy != l.OwnedBy || !equalTokens(m.ContextTokens, l.ContextTokens) {
				m.GoneAt, m.OwnedBy, m.ContextTokens = time.Time{}, l.OwnedBy, l.ContextTokens
				same = false
			}
			models = append(models, m)
		}
	}
	return bounded(models), same, gone
}

// bounded leaves out those that are gone longest where there are too many.
func bounded(models []storage.ProviderModel) []storage.ProviderModel {
	over := len(models) - mostModels
	if over <= 0 {
		return models
	}
	var gone []storage.ProviderModel
	for _, m := range models {
		if !m.GoneAt.IsZero() {
			gone = append(gone, m)
		}
	}
	slices.SortStableFunc(gone, func(a, b storage.ProviderModel) int { return a.GoneAt.Compare(b.GoneAt) })
	drop := make(map[string]bool, over)
	for _, m := range gone[:min(over, len(gone))] {
		drop[m.Name] = true
	}
	return slices.DeleteFunc(models, func(m storage.ProviderModel) bool { return drop[m.Name] })
}

func equalTokens(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }
