// Package scrape keeps the load of every endpoint in a set up to date by
// reading the engines' metrics pages.
//
// [Scraper.Run] gives each endpoint instance a goroutine of its own, so that
// at most one scrape of it is in flight and a slow engine delays nobody. How
// many run at a time is bounded, and engines whose last scrape failed wait in
// a narrower lane of their own: many hung engines cannot keep the healthy ones
// from being read. A new instance is scraped at once, one that has left the
// set no more.
//
// A scrape that fails changes nothing: the last measurement grows old, which
// is what schedulers look at. A page without some metric makes that one
// unknown. Neither stops traffic, and both show: in a counter by [Outcome],
// and once in the log when an endpoint's outcome changes.
//
// Which engine runs at an address is told by its configuration, or by its
// page: then the paths of all contracts are tried, in their order, until one
// has a page that some contract recognises.
package scrape
