package storage

import "context"

// Store is all that is kept. Consumers declare the part that they need.
type Store interface {
	Keys
	UsageLog
	Budgets
	Routers
	AuditLog
	Terms
	Nodes
	Replicas
	Models
	Accounts
	Providers

	// Check looks the database through for damage: what the database itself can
	// tell, the schema, and that sums agree with what they are sums of. It may
	// take long. Nil means sound; an error that is not ErrUnavailable says what is
	// not.
	Check(ctx context.Context) error
	// Close ends all use of the store. Calls under way end; later ones return
	// ErrUnavailable. Closing twice does nothing.
	Close() error
}
