package auth

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/llmgw/llmgw/storage"
)

// maxUpdates is how often a change is tried where others change the key, too.
const maxUpdates = 4

// Change is what to change of a key. What is nil stays as it is; the rest is as in
// [Spec].
type Change struct {
	// Revision is the one that the key must have; 0 is whichever it has.
	Revision           int64
	Name, Owner        *string
	Models             *[]string // an empty list is every model
	AllowUnknownModels bool
	Band               *string // empty is the default band
	storage.Limits             // 0 is no limit
	Budget             *string // empty is none
	Expires            *string // empty is never
	MayExplain         *bool
	SetTags            map[string]string // beside those that there are
	RemoveTags         []string
}

// Update changes a key and returns it as it is then. What was counted of its limits
// and its budget stays counted. It returns an error that wraps ErrInvalid, with
// every fault, if the key cannot be such, ErrNotUsable if it was revoked or has
// expired, storage.ErrNotFound if there is none, and storage.ErrConflict if it has
// another revision.
func (s *Issuer) Update(ctx context.Context, id string, what Change, by By) (k storage.Key, warnings []string, err error) {
	for range maxUpdates {
		if k, warnings, err = s.update(ctx, id, what, by); what.Revision != 0 || !errors.Is(err, storage.ErrConflict) {
			break
		}
	}
	if err != nil {
		return storage.Key{}, nil, fmt.Errorf("update key: %w", err)
	}
	return k, warnings, nil
}

func (s *Issuer) update(ctx context.Context, id string, what Change, by By) (storage.Key, []string, error) {
	before, err := s.deps.Keys.Key(ctx, id)
	switch {
	case err != nil:
		return before, nil, err
	case !before.Usable(s.now()):
		return before, nil, fmt.Errorf("key %s: %w: %s", id, ErrNotUsable, whyNot(before))
	case what.Revision != 0 && what.Revision != before.Revision:
		return before, nil, fmt.Errorf("%w: key %s has revision %d, not %d", storage.ErrConflict, id, before.Revision, what.Revision)
	}
	after, warnings, err := s.changed(before, &what)
	if err != nil {
		return before, nil, err
	}
	why, err := s.audit("key.update", id, &before, &after, by)
	if err != nil {
		return before, nil, err
	}
	err = again(ctx, func() error { return s.deps.Keys.UpdateKey(ctx, after, why) })
	// Where it is not known whether the store has it, the next look-up tells.
	if s.deps.Told != nil && (err == nil || errors.Is(err, storage.ErrUnavailable)) {
		s.deps.Told.Forget(id)
	}
	after.Revision++
	return after, warnings, err
}

// changed is the key with the changes made. Only what changes is checked: the rest
// was when it was made, and of a model that has gone since it says nothing new.
func (s *Issuer) changed(k storage.Key, what *Change) (storage.Key, []string, error) {
	spec := Spec{AllowUnknownModels: what.AllowUnknownModels, Tags: maps.Clone(k.Tags)}
	for _, t := range []struct{ from, to *string }{
		{what.Name, &spec.Name}, {what.Owner, &spec.Owner}, {what.Band, &spec.Band}, {what.Budget, &spec.Budget}, {what.Expires, &spec.Expires},
	} {
		if t.from != nil {
			*t.to = *t.from
		}
	}
	if what.Models != nil && len(*what.Models) > 0 {
		spec.Models = *what.Models
	}
	for _, name := range what.RemoveTags {
		if _, ok := spec.Tags[name]; !ok {
			return k, nil, fmt.Errorf("%w: tags: there is no %q to take away", ErrInvalid, short(name))
		}
		delete(spec.Tags, name)
	}
	if spec.Tags == nil && len(what.SetTags) > 0 {
		spec.Tags = map[string]string{}
	}
	maps.Copy(spec.Tags, what.SetTags)
	limits := []struct{ from, to, checked **int64 }{
		{&what.RequestsPerMinute, &k.Limits.RequestsPerMinute, &spec.RequestsPerMinute},
		{&what.TokensPerMinute, &k.Limits.TokensPerMinute, &spec.TokensPerMinute},
		{&what.Concurrency, &k.Limits.Concurrency, &spec.Concurrency},
	}
	for _, l := range limits {
		if *l.from != nil && **l.from != 0 {
			*l.checked = *l.from
		}
	}
	made, warnings, err := spec.record(s.now(), s.deps.Bands, s.models())
	if err != nil {
		return k, nil, err
	}
	for _, l := range limits {
		if *l.from != nil {
			*l.to = *l.checked
		}
	}
	if what.Name != nil {
		k.Name = made.Name
	}
	if what.Owner != nil {
		k.Owner = made.Owner
	}
	if what.Band != nil {
		k.Band = made.Band
	}
	if what.Budget != nil {
		k.Budget = made.Budget
	}
	if what.Expires != nil {
		k.ExpiresAt = made.ExpiresAt
	}
	if what.Models != nil {
		k.Models = made.Models
	}
	if what.MayExplain != nil {
		k.MayExplain = *what.MayExplain
	}
	k.Tags = made.Tags
	return k, warnings, nil
}
