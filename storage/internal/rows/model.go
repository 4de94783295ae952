package rows

import (
	"fmt"

	"github.com/llmgw/llmgw/storage"
)

// Change is a change of a model as it is kept.
func Change(c storage.ModelChange) storage.ModelChange {
	c.Model.CreatedAt, c.Model.ChangedAt = Time(c.Model.CreatedAt), Time(c.Model.ChangedAt)
	c.Why = Audit(c.Why)
	return c
}

// Changes are changes of models as they are kept, or what is wrong with them.
func Changes(changes []storage.ModelChange) ([]storage.ModelChange, error) {
	out := make([]storage.ModelChange, len(changes))
	for i, c := range changes {
		if err := c.Model.Validate(); err != nil {
			return nil, err
		}
		if err := c.Why.Validate(); err != nil {
			return nil, err
		}
		out[i] = Change(c)
	}
	return out, nil
}

// Model is m as it is kept in place of old, which is nil for none.
func Model(m storage.Model, old *storage.Model) (storage.Model, error) {
	switch {
	case m.Revision == 0 && old != nil:
		return m, fmt.Errorf("%w: model %q", storage.ErrExists, m.Name)
	case m.Revision == 0:
		m.Revision = 1
		return m, nil
	}
	if err := CheckRevision(m.Name, m.Revision, old); err != nil {
		return m, err
	}
	m.CreatedAt = old.CreatedAt
	m.Revision++
	return m, nil
}

// CheckRevision is an error unless a model is kept, in that revision.
func CheckRevision(name string, revision int64, old *storage.Model) error {
	switch {
	case old == nil:
		return fmt.Errorf("%w: model %q", storage.ErrNotFound, name)
	case old.Revision != revision:
		return fmt.Errorf("%w: model %q has revision %d, not %d", storage.ErrConflict, name, old.Revision, revision)
	}
	return nil
}
