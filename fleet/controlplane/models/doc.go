// Package models is which catalog is current: the models of the configuration,
// those that were added while a server ran and are kept in a store, and what
// changes either.
//
//	configuration, read again ──> Reconfigure ─┐
//	ctl, curl ──> api.Models ──> store ────────┼─> catalog.Merge ─> Snapshot ─> router, reconciler
//	another process ──> store ──> Run ─────────┘
//
// A change is in force when the call that makes it returns: in this process at
// once, in another one that has the same store when that looks, every three
// seconds. Whoever reads takes a [Snapshot] once and finishes against it.
//
// The configuration always wins. A stored model that cannot stand beside it, or
// that this program does not accept, is set aside: it stays in the store, it is
// shown, logged and counted, and the server goes on without it.
//
// It is part of a joint and knows the store and the management API; a server that
// is no control plane uses it, too.
package models
