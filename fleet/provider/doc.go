// Package provider keeps the providers: addresses at which somebody else runs an
// engine.
//
// A dynamic provider is registered by an agent, on a lease that the agent renews. A
// static one was added by an operator, a cloud is a vendor's API; both stay until an
// operator says otherwise. Each is asked once a minute what it serves, which says
// whether it is there and whether it is what it was. What it serves is inventory: no
// model reaches a caller before a catalog says so, which is not this package's doing.
//
//	agent ── Register ──┐                      ┌── publishes Snapshot ── routes, pages
//	operator ── Add … ──┤                      │
//	Tick, each second ──┼── Core.Step(now, e) ─┼── asks providers (Prober) ─┐
//	                    └──────────▲───────────┤                            │
//	                               │           └── writes, audit (Store)     │
//	                               └────────────── Answered ◄────────────────┘
//
// The life of a dynamic provider:
//
//	        Register                 no answer, or the lease ended
//	none ─────────────► well ────────────────────────────────────► degraded
//	                     ▲    answers, and the lease is renewed      │   │
//	                     └───────────────────────────────────────────┘   │
//	none ◄──── RemoveAfter since the first failure, and no lease ────────┘
//
// [Core] decides and does nothing else: it has no goroutine, clock or store, and takes
// the time with each event. [Registry] owns one, in one goroutine; goroutines that ask
// providers are bounded by [Config].Probes and end within [Config].ProbeTimeout, and
// one writes to the store, which may be away meanwhile. How long a lease lives is kept
// in memory alone.
//
// [Guard] says which addresses may be dialled, [Sealer] keeps credentials, and
// [Catalogue] knows vendors.
package provider
