// Package gateway puts the data plane together: router, scheduler, endpoints,
// relay and scraper as one http.Handler with one Run. It is what the server
// binary serves, and what another program mounts in a server of its own.
//
//	gw, err := gateway.New(cfg, gateway.Deps{Logger: log, Registerer: reg})
//	go gw.Run(ctx)               // scrapes engines, drops idle connections
//	http.ListenAndServe(addr, gw)
//
// Without Run requests are served all the same, on what the router knows by
// itself; a test that does not look at loads needs none.
//
// An embedder plugs in by [Deps]: hooks for callers, charges, admission and
// records, routing profiles with scorers of its own, and a dialer, by which
// engines can be in the same process and the whole run under virtual time. The
// decisions of the profile debug are logged. The programs in the folder examples
// show each of these.
//
// In router-only mode, the only one there is yet, endpoints are a list in the
// configuration. [Gateway.Reload] replaces that list, and the models, while
// requests run.
package gateway
