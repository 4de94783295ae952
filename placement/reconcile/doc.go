// Package reconcile brings what runs to what is wanted, and keeps it there. It
// holds the models of a catalog against the shards that nodes report, and says
// what has to be stored, started, drained, put to sleep, woken, stopped and published.
//
//	catalog ──────┐
//	nodes, shards ┼─> Core.Step(now) ──> store a row, then start; drain, then stop
//	use by routers┘        │        └──> the endpoints that routers may use
//	answers to orders      └─ placement.Cluster
//
// [Core] decides and does nothing else: no goroutine, no clock, no call. The same
// inputs give the same orders, in production, in tests under virtual time and in
// a simulation. [Loop] gathers the inputs, applies the orders, and brings back
// what became of them.
//
// # Rules
//
//   - A replica's row is in the store before its first shard is ordered, and is
//     removed after its last one is gone.
//   - Silence is no failure. A node that is lost takes a replica down only while
//     nothing shows that it works: no router has had a byte of it, and no counter
//     of its engine has moved, for [Config.LostAfter].
//   - What was lost is not forgotten: if it comes back whole before another replica
//     serves in its place, it serves on and the other one is stopped.
//   - A replica that has to leave a node, or whose profile was changed, goes when
//     another one serves; where none can be placed, after [Config.MoveGrace].
//   - An engine is asked to end when every router that lives has acknowledged that
//     it uses it no more, and when it has nothing left to do or [Config.DrainGrace]
//     is over.
//   - How many replicas run is decided between a model's min and max by package scale.
//     Nothing is idle that is not known to be: every router that lives says that it has
//     no request there, the engine says so if it says anything, and its node is heard.
//   - Where a replica that somebody waits for, or that has to be there, finds no place,
//     replicas on demand that are idle make room: as few as will do, those first whose
//     idleness is longest for what it takes to load them again; none before it has
//     served for [Config.Residence], nor within [Config.LostAfter] of a token.
//   - A replica that is let go sleeps in place of ending where its profile says so and
//     waking it is not known to be slow. What sleeps has no cards: it is woken where
//     they are free, and ends where its rest is in the way.
//   - After a start nothing is placed anew that may still run: a stored replica
//     counts until every node of its row has reported without it, or is lost.
package reconcile
