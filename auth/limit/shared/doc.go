// Package shared is auth/limit for several routers: what a key may do in a
// minute and at once is counted in Redis or Valkey, what it may spend is leased
// from the store.
//
//	Acquire ── memory: budget, own windows ── Redis: all routers' windows, places ──> Reservation
//	              │                              │ away, or slower than 50 ms
//	              │ slices, in advance           └ this router's part: limit ÷ live routers
//	            store                                                  │
//	              └──────────── live routers: rows renewed every 10 s ─┘
//
// # Rates
//
// One script, one call, on the server's clock, for requests, tokens and places
// at once. Its windows are those of auth/limit, in the seconds of the clock. What
// a request came to is told afterwards, in batches. Keys in Redis are
// "<prefix>limit:{<hash of the key's lineage>}:window" and "…:places"; each expires
// when it says nothing any more.
//
// Places are the requests under way. Each router says how many it has of a key,
// with each request and every 10 s, and that holds for 30 s. So a request of
// ten minutes is one request all the time, and those of a router that was killed
// end half a minute later.
//
// Redis that is down, slow, read-only or full stops no request. Each is decided
// by this router alone then, at the limit divided by the routers that live: so
// in a minute in which Redis goes or comes back at most twice the limit passes,
// one by Redis and one by the routers. (A limit smaller than the number of
// routers is one for each.) After three failures in a row requests do not wait
// for it, and one a second tries whether it is back. This is logged when it
// begins and when it ends. A Redis that was started less than a minute ago may not
// know of what passed before, by it and by the routers; each router keeps its part
// beside it until it does. What Redis forgets while it runs, as it throws keys out
// for want of memory, passes once more; no router alone lets more than the limit
// through even then.
//
// # Budgets
//
// Budgets are never in Redis. [Slices] takes them from the store in slices,
// which count as spent until they are given back: nothing is spent twice,
// whatever dies or forgets. A router that is killed takes along what it had: a
// slice of one part in a hundred of what is left, or the most that its requests
// under way could cost.
package shared
