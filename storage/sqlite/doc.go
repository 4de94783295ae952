// Package sqlite is the store for one machine: a file, and no server. It keeps
// [storage.Store]'s promises with SQLite in its write-ahead log mode.
//
// # One writer, several readers
//
// A [Store] has one connection that writes and some that read. They do not wait
// for each other, and neither do other processes that read the same file; those
// that write wait for their turn, at most BusyTimeout. So the commands of llmgw
// work on the file of a server that runs.
//
// A method returns when what it did is on disk: each transaction ends with an
// fsync (synchronous=FULL), since SQLite's faster mode may lose the last ones
// when the machine fails, and a budget or a revocation would be lost with them.
// Usage comes in batches, so that one fsync keeps hundreds of rows.
//
// # Usage
//
// Rows of usage stand many to a pack, which is a row of a table, and their identities
// beside them by the time that they begin with. A batch costs a few statements, and
// not some for each row.
//
// # Space
//
// What is forgotten leaves free pages in the file. [Store.PruneUsage] and
// [Store.Run] give them back to the file system little by little
// (auto_vacuum=INCREMENTAL), so that the file shrinks without a pause in which
// it is copied.
//
// # Where not to put the file
//
// The write-ahead log needs memory that processes share, which no network file
// system has: NFS, SMB and the like would corrupt the file and are refused. Use
// storage/postgres for more than one machine.
package sqlite
