// Package agent is the node's side of a fleet: it dials a control plane, tells it
// what the node has and how its engines are, and starts and stops engines as it
// is ordered. It dials out and listens on nothing.
//
// What an agent promises:
//
//   - Engines run on, whatever becomes of the control plane, the link or the agent
//     itself; an agent that starts takes up what runs.
//   - There are never two engines of one shard, and never one of a generation that
//     is lower than what was heard of, however late, often or out of order the
//     orders come, and whoever of two control planes sends them.
//   - Whatever is slow or dead (a disk, a driver, an adapter, an engine) delays
//     what needs it, and no heartbeat.
//
// # Parts
//
//	link      dials, again and again; one session at a time
//	session   one stream: Hello, Welcome; then heartbeats, statuses, orders
//	clerk     decides about an order (apply, which is pure), keeps what was
//	          decided on the disk, and only then hands it on
//	shard     a goroutine for each shard: prepares, starts, drains, ends it, puts
//	          it to sleep and wakes it, with package process
//	preparer  asks the adapter, finds cards and network, sets ports aside
//	sampler   reads the hardware, so that nobody waits for it
//	outbox    what is to be told; who has news goes on at once
//	adopter   takes up what an earlier run left running
//	looker    looks for weights in the directories that the configuration names
//
//	 control plane            order                         persist
//	      |  --------------> session --> clerk --apply--> [state file]
//	      |                                |
//	      |                                v
//	      |  <-- outbox <-- status -- shard <--> engines/process <--> engine
//
// # On disk
//
// The state directory is the agent's alone (0700, locked):
//
//	lock             held by the one agent that uses the directory
//	instance         the directory's random name
//	state            what was heard of orders, and what the control plane says that
//	                 the configuration leaves open; state.previous the one before
//	shards/ID.RANK   a directory for each shard: wish.json, and run, which is
//	                 package process's: record, secret, logs
//
// The state file is replaced whole, with a checksum, and the one before is kept.
// If neither can be used, or both are another node's, the shards' directories say
// what was started, and the control plane says the rest.
package agent
