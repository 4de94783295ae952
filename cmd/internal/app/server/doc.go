// Package server is the role `llmgw server`: it builds the data plane with fx,
// opens the listeners and runs everything as one group.
//
//	fx.New        objects; nothing runs
//	app.Start     listeners are opened
//	group.Run     actors, until the first returns: a signal, or a failure
//	app.Stop      listeners are closed
//
// When the group ends, its actors are stopped one after the other in the order
// of their stages:
//
//	signals       a second SIGTERM or Ctrl-C kills the process from here on
//	readiness     /ready fails; new requests are still served for shutdown.grace
//	drain         no new connection; running requests may take shutdown.drain
//	data plane    scrapers and the like
//	operators     the admin and metrics listeners answer to the very end
//
// SIGHUP reads the file again. A file with a fault changes nothing; models,
// endpoints and scoring change while requests run; what needs a restart is
// named in a warning.
package server
