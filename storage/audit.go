package storage

import (
	"context"
	"encoding/json"
	"time"
)

// Audit says who changed what. Rows are added and never changed.
type Audit struct {
	// ID is the row's identity, 1 to 64 bytes.
	ID string
	At time.Time
	// Actor is who did it, as "cli:root@host" or a key's ID.
	Actor string
	// Action is what was done, as "key.create".
	Action string
	// Target is what it was done to, as a key's ID.
	Target string
	// Before and After are the record without secrets; nil where there was none.
	Before, After json.RawMessage
	// RequestID is the request's by which it was done; empty if none was.
	RequestID string
}

// AuditQuery chooses audit rows. Zero fields choose nothing out.
type AuditQuery struct {
	From, To              time.Time // At in [From, To)
	Actor, Action, Target string
	Page
}

// AuditLog keeps who changed what. What is changed in a store is kept with its
// audit row in one step; AppendAudit is for what happens elsewhere.
type AuditLog interface {
	// AppendAudit keeps a row. One that is there already is no error; another one
	// of the same ID is ErrExists.
	AppendAudit(ctx context.Context, a Audit) error
	// ListAudit returns rows, the newest first, and the cursor of the next page.
	ListAudit(ctx context.Context, q AuditQuery) (rows []Audit, next string, err error)
}
