package auth

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/llmgw/llmgw/storage"
)

// Models is one version of the catalog, as far as keys need to know it.
type Models struct {
	// Version tells versions apart: where it is the same, Resolve and Names say
	// the same. It need not count.
	Version uint64
	// Resolve returns the canonical name of the model that name is the name or an
	// alias of. It must not block. Nil knows no model.
	Resolve func(name string) (canonical string, ok bool)
	// Names lists all names and aliases, in any order. It is asked for when a
	// list of models is written, and never for a request. Nil lists none.
	Names func() []string
	// Priced reports whether the use of the model with that canonical name costs
	// anything. It is asked for when a budget is written. Nil: not known.
	Priced func(canonical string) bool
}

// Identity is who sent a request, and what that one may do. It never changes; a
// key that was changed has another one. Methods may be called concurrently. A nil
// or zero Identity is nobody: it is never valid and may use nothing.
type Identity struct {
	key      storage.Key // without its Hash
	patterns []Pattern
	names    bool // some pattern is a name
	resolved atomic.Pointer[resolvedNames]
}

// resolvedNames are the models that a list's names mean in one version of the
// catalog. It keeps hold of nothing of the catalog's, which identities would
// otherwise keep in memory for as long as they are idle.
type resolvedNames struct {
	version uint64
	models  map[string]struct{}
}

// NewIdentity returns the identity of a key, whether or not the key is usable.
// Patterns that cannot be read match nothing. It returns nil for a key without
// an ID. It keeps the key's slices and maps.
func NewIdentity(k storage.Key) *Identity {
	if k.ID == "" {
		return nil
	}
	k.Hash = storage.KeyHash{}
	id := &Identity{key: k}
	for _, text := range k.Models {
		// What an older or newer program has written and this one cannot read
		// allows nothing.
		if p, err := ParsePattern(text); err == nil {
			id.patterns = append(id.patterns, p)
			id.names = id.names || !p.Wildcard()
		}
	}
	return id
}

// Valid reports whether the identity is somebody whose key opens something at
// now.
func (id *Identity) Valid(now time.Time) bool {
	return id != nil && id.key.ID != "" && id.key.Usable(now)
}

// KeyID returns the public name of the key.
func (id *Identity) KeyID() string { return id.record().ID }

// Lineage returns the ID of the first of the keys that follow each other up to
// this one: what is counted of its limits and its budget is counted by it.
func (id *Identity) Lineage() string {
	k := id.record()
	return cmp.Or(k.Lineage, k.ID)
}

// Name returns what the owner calls the key.
func (id *Identity) Name() string { return id.record().Name }

// Owner returns who pays.
func (id *Identity) Owner() string { return id.record().Owner }

// Band returns the priority class; empty is the default band.
func (id *Identity) Band() string { return id.record().Band }

// Limits returns the bounds of rates. What they point to must not be changed.
func (id *Identity) Limits() storage.Limits { return id.record().Limits }

// Budget returns the bound of spending; false if there is none.
func (id *Identity) Budget() (storage.Budget, bool) {
	if b := id.record().Budget; b != nil {
		return *b, true
	}
	return storage.Budget{}, false
}

// MayExplain reports whether its requests may learn which endpoints there are and
// how one is chosen.
func (id *Identity) MayExplain() bool { return id.record().MayExplain }

// ExpiresAt returns when the key ends by itself; zero is never.
func (id *Identity) ExpiresAt() time.Time { return id.record().ExpiresAt }

// Revision returns which change of the key this is.
func (id *Identity) Revision() int64 { return id.record().Revision }

// Tag returns the value of one of the operator's tags.
func (id *Identity) Tag(name string) (string, bool) {
	v, ok := id.record().Tags[name]
	return v, ok
}

// Tags returns the operator's tags. The result is the caller's own.
func (id *Identity) Tags() map[string]string { return maps.Clone(id.record().Tags) }

// ModelList returns the patterns as they were written; nil is every model. The
// result is the caller's own.
func (id *Identity) ModelList() []string { return slices.Clone(id.record().Models) }

func (id *Identity) record() *storage.Key {
	if id == nil {
		return &storage.Key{}
	}
	return &id.key
}

// MayUse reports whether the model may be used that name is the name or an alias
// of. A name that the catalog does not have is refused. It allocates nothing but
// on the first call for a version of the catalog.
func (id *Identity) MayUse(m Models, name string) bool {
	if id == nil || id.key.ID == "" || m.Resolve == nil {
		return false
	}
	canonical, ok := m.Resolve(name)
	if !ok {
		return false
	}
	if id.key.Models == nil {
		return true
	}
	if id.names {
		r := id.resolved.Load()
		if r == nil || r.version != m.Version {
			r = id.resolve(m)
			id.resolved.Store(r)
		}
		if _, ok := r.models[canonical]; ok {
			return true
		}
	}
	for i := range id.patterns {
		if id.patterns[i].Match(canonical) {
			return true
		}
	}
	return false
}

func (id *Identity) resolve(m Models) *resolvedNames {
	r := &resolvedNames{version: m.Version, models: make(map[string]struct{}, len(id.patterns))}
	for _, p := range id.patterns {
		if p.Wildcard() {
			continue
		}
		if canonical, ok := m.Resolve(p.text); ok {
			r.models[canonical] = struct{}{}
		}
	}
	return r
}

// LogValue implements [slog.LogValuer].
func (id *Identity) LogValue() slog.Value {
	k := id.record()
	return slog.GroupValue(slog.String("key", k.ID), slog.String("name", k.Name), slog.String("owner", k.Owner))
}
