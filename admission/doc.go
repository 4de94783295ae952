// Package admission decides whether a request may run now: it gets a lease, it
// waits for its turn, or it is refused. It knows nothing of HTTP, nor of where
// a request will run.
//
// Engines queue first come, first served, so whoever fills an engine's queue
// makes everybody wait. Here requests wait before they reach an engine, where
// their order can still be chosen.
//
//	Admit ── free: Lease, at once
//	  │
//	  └ bands by priority ─ tenants in turn ─ first come ──> Lease ── Release
//	       held above the ceiling of saturation                          │
//	                 ▲                                                   │
//	            Detector <── LoadSource (engines' metrics)  wakes who waits
//
// [Controller] blocks requests until their turn; put its Run beside what serves
// them. [Core] is what it decides by, for simulations, tests and [Replay]: no
// goroutine, timer or clock, and the same calls with the same seed decide the
// same.
//
// # Pools, bands, tenants
//
// A pool is the engines that a request may go to, named by its model. Each has
// a saturation of its own: 1 is full. A band's requests wait while their pool's
// saturation is above the band's ceiling, so as a pool fills bronze stops first
// and platinum last, and part of every engine is kept free for those who must
// not wait. An idle pool takes at least one request of any band. Of what waits
// and is not held the highest band goes first; within a band tenants take
// turns, so one with a thousand requests costs its neighbour one turn; within a
// tenant it is first come, first served.
//
// Nothing lifts a ceiling with time: where higher bands keep a pool above the
// ceiling of a lower one, that one's requests wait until Config.QueueTTL has
// them refused. A band that must always get on needs a ceiling that the others
// leave room below. A ceiling above 1 never waits, whatever its priority.
//
// # Capacity
//
// What a ceiling is a share of is learned (see [WorseOf]): the most requests
// that an engine was seen to run at once, at first [SaturationConfig]'s
// TargetInflight. An engine of which bands with a high ceiling use most is
// given more as long as it holds nothing back; a load that stays below a low
// ceiling never talks an engine up. An engine without metrics stays at the
// target unless EndpointLoad.BatchCapacity says what it can. A pool that serves
// batch alone wants that too, or a band with a high ceiling: of an engine of
// which nothing else is known, 0.30 of the target of 8 is 3 requests.
//
// A share of the places in a batch is not the same share of an engine's speed:
// an engine that runs 256 at once may be half as fast for each at 77, the 0.30
// of bronze. A lower ceiling or a lower BatchCapacity buys latency for
// throughput.
package admission
