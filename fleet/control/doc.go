// Package control is the control plane's side of the agents' streams. It knows
// which nodes there are, what they have and how their shards are, and it is what
// orders go through: it starts, stops and drains shards on nodes.
//
// It decides nothing. That a node is lost it only says; what becomes of the
// replicas on it is decided elsewhere, where routers are asked too. It writes no
// database and issues no certificate: a [Journal], an [Authority] and a function
// that looks at certificates are passed in.
//
//	agents ==stream==> Handler ── registration ──> table of nodes and shards ──> Nodes, Watch
//	       <=commands=    ^                             ^
//	                      |                             | Step, once a tick: silence is judged
//	         Start, Stop, Drain                        Run ──> Journal
//
// # Silence
//
// A node is heard with each of its messages. One that says nothing is
// unreachable after Config.UnreachableAfter and lost after Config.LostAfter. The
// clock by which this is judged runs only while this process does: a process that
// was stopped, starved or suspended finds no node silent for it, and takes what
// waits in its queues first.
//
// # Statuses
//
// Of each shard the status with the highest (generation, revision) of the
// agent's run counts, and a new stream begins with all of them. A heartbeat says
// which there are in short; one that was lost is asked for again. So whatever is
// lost, doubled or late, the table comes to what the agent says.
//
// # Weights
//
// [Plane.LookFor] says which weights matter. Agents that have directories of weights
// look for those and no others, and tell what they found, which [Node.Weights] has.
// It outlasts a stream, and is told anew on the next one.
//
// # Use
//
// [New] starts nothing. Mount [Plane.Handler] on a server that [Configure] has
// set up, behind [NewListener] where it speaks TLS, and run [Plane.Run] beside it.
package control
