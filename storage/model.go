package storage

import (
	"context"
	"time"
)

// Model is a model that was added to the catalog while a server ran.
type Model struct {
	// Name is the canonical name, 1 to 256 bytes.
	Name string
	// Definition is the text of the model's entry, as who adds it understands it. 1
	// to MaxDefinition bytes.
	Definition string
	// Actor is who added it, or changed it last, as "cli:root@host".
	Actor string
	// CreatedAt is when it was added, and ChangedAt when it was changed last.
	CreatedAt, ChangedAt time.Time
	// Revision is 1 for a new model and one more after each change. Stores set it.
	Revision int64
}

// MaxDefinition bounds the definition of a model, in bytes: with each byte escaped
// it fits into an audit row.
const MaxDefinition = 24 << 10

// ModelChange is a model that is to be kept, and why.
type ModelChange struct {
	Model Model
	Why   Audit
}

// Models keeps the models that were added while a server ran.
type Models interface {
	// PutModels keeps models with their audit rows, all or none. One with Revision
	// 0 is new: ErrExists if there is one of its name. Any other takes the place of
	// the one that has this revision, and CreatedAt stays: ErrNotFound if there is
	// none of its name, ErrConflict if that has another revision. What has its audit
	// row already was done and is not done again, so that it can be repeated.
	PutModels(ctx context.Context, changes []ModelChange) error
	// RemoveModel forgets the model that has this revision, and keeps an audit row.
	// ErrNotFound, or ErrConflict. One whose audit row is there already was done.
	RemoveModel(ctx context.Context, name string, revision int64, why Audit) error
	// ListModels returns all of them, the first added first.
	ListModels(ctx context.Context) ([]Model, error)
}

// Validate reports every fault of a model, joined. Each wraps ErrInvalid. Stores
// ask it.
func (m *Model) Validate() error {
	f := faults{what: "model"}
	f.text("Name", m.Name, 1, maxText)
	f.text("Definition", m.Definition, 1, MaxDefinition)
	f.text("Actor", m.Actor, 0, maxText)
	f.time("CreatedAt", m.CreatedAt)
	f.time("ChangedAt", m.ChangedAt)
	if m.Revision < 0 {
		f.add("Revision", m.Revision, "0 for a new model, or the one that is kept")
	}
	return f.err()
}
