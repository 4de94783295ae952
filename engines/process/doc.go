// Package process does what an [engines.Launch] says, for one shard: it starts
// its processes, knows when the engine is ready or why it never will be, takes
// a running shard up again after its own restart, and stops it so that nothing
// is left.
//
// A [Runner] starts a shard with [Runner.Start] or takes one up with
// [Runner.Adopt]; either gives a [Shard]. [Shard.Wait], [Shard.Status] and
// [Shard.Changed] say how it is. [Shard.Sleep] has its engine give the memory of its
// cards back, where it was launched so, and [Shard.Wake] takes that again. [Shard.Stop]
// ends it, [Shard.Detach] lets it run on. [Ports] is the book of the ports that engines get, and [PortHolder] says
// who has one.
//
// It does not decide what runs where, restarts nothing by itself, and does not
// look at an engine's load.
//
// # What is on disk
//
// In the shard's directory, for the owner alone:
//
//	shard.json   the record: what was launched, with which processes
//	secret       the shard's secret, which the record does not hold
//	lock         held by who attends to the shard
//	engine.log   output of the engine; SIDECAR.log that of a sidecar
//	*.log.1      what stood in a log before it was full, or the start before
//
// The record is written before the first process starts. It holds a random
// name, which stands in every process's environment as [Marker], so that one
// that was started in the moment before its launcher ended is found. A number of
// a process proves nothing by itself: the moment of its start, and the boot of
// the machine, have to be those of the record.
//
// # Logs
//
// Processes write to files, never to a pipe of the launcher, so that its end is
// nothing to them. They hold their file open for appending. At its bound the
// file is copied to NAME.log.1 and emptied in place; that happens only while
// somebody attends to the shard.
//
// What a line means counts until the engine is ready. After that clients can
// make it print anything, and only its end is a failure.
//
// Everything here needs Linux; elsewhere [Runner.Start] and [Runner.Adopt] give
// [ErrUnsupported].
package process
