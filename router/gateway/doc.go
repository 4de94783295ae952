// Package gateway puts the data plane together: router, scheduler, endpoints,
// relay and scraper as one http.Handler with one Run. It is what the server
// binary serves, and what another program mounts in a server of its own.
//
//	gw, err := gateway.New(cfg, gateway.Deps{Logger: log, Registerer: reg})
//	go gw.Run(ctx)               // scrapes engines, drops idle connections
//	http.ListenAndServe(addr, gw)
//
// In router-only mode, the only one there is yet, endpoints are a list in the
// configuration. [Gateway.Reload] replaces that list, and the models, while
// requests run.
package gateway
