// Package console is the operators' pages: what the fleet has, what runs on it, what
// waits, what is used, and what is wrong with it. They change nothing: they answer GET
// and HEAD.
//
//	services of the management API ──┐
//	Traffic, a counter's reading ────┤  page: asks, puts into words (apipb/telling),
//	                                 │  sorts what is broken first, shows 50 rows
//	Run: samples for rates ──────────┤
//	Run: usage added up ─────────────┘
//
// Words and numbers are those of llmgw ctl, made of the same answers by the same code.
// What is not known is shown as "-" or "not known", never as 0.
//
// A console serves one listener. What it is not given in [Deps] has no pages, and no
// page leads there: so the same code makes the console of the admin listener and that
// on the clients' port, behind the guard of the routes' Access.
//
// A service that fails costs its part of a page, which says so; the rest is served.
package console
