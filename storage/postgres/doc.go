// Package postgres is the store for several machines: PostgreSQL 12 or later,
// which any number of llmgw processes share. It keeps [storage.Store]'s promises
// with one transaction a method.
//
// # Where it is
//
// All tables are in a schema of their own, Config.Schema, so that a database can
// hold others too. The role needs CREATE on the database once, or a schema that
// is made for it and that it owns.
//
// # While the server is away
//
// A [Store] whose server cannot be reached answers [storage.ErrUnavailable], at
// once and without a connection of its own for each call: [Store.Run] alone asks
// whether the server is back, ten times a second at first, then every five
// seconds. Nothing has to be restarted. A transaction that PostgreSQL ends
// because of another one (a deadlock, a serialization failure) is repeated, five
// times at most.
//
// # Usage
//
// Rows are inserted in batches by one statement each. What is forgotten is
// deleted, and autovacuum gives the space back to the table: partitions by time
// would drop it faster, but PostgreSQL could then not keep a request's identity
// unique across them, and no row may be counted twice.
//
// # Connections
//
// Sessions have settings (search_path, time zone, timeouts), so that a pooler
// such as PgBouncer has to pool sessions, not transactions.
package postgres
