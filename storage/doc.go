// Package storage says what llmgw must not forget: keys, what they used and may
// still spend, and who changed what. It holds the records and the interfaces of
// the stores that keep them, and keeps nothing itself.
//
// There are two stores, storage/sqlite for one machine and storage/postgres for
// several. They behave alike: storage/storagetest is one suite of tests that
// both pass, and that a store of your own can run.
//
// # What every store promises
//
// Each method is one step: it is done as a whole or not at all, and what is done
// is on disk when it returns. No method holds a transaction open between two
// calls, so none spans a call to an engine. Methods may be called concurrently.
//
// A method that fails because the store cannot be reached, is not opened yet, is
// full or may only be read returns an error that wraps [ErrUnavailable]; the
// same call may succeed later. So does one whose context ended while it waited;
// its error wraps the context's too. After such an error it is not known whether
// the change was made. Calls can therefore be repeated: one that inserts has an
// identity of its own ([Key.ID], [Usage.RequestID], [Grant.ID]), and the second
// one finds that it was done.
//
// What cannot be kept is refused with [ErrInvalid], by the records' own Validate
// methods, before the database is asked.
//
// Times are kept to the microsecond, in UTC. Slices and maps that a store
// returns are the caller's own; those that it is given it does not keep.
//
// # Who may ask on a request's path
//
// Nobody. A request is served from what a process holds in memory; stores are
// asked in advance, in batches, or for a key that the process has never seen.
package storage
