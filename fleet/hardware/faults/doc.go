// Package faults decides what a card's faults mean: nothing, that the engines on
// it have to be started anew, or that nothing may be placed on it; and when the
// card is used again.
//
// A [Book] is told what the kernel says ([Book.Kernel], fed by [Watch]) and what
// each reading of the card shows ([Book.Observe]). It takes the time as an
// argument, has no goroutine and does no I/O. What it knows survives the process
// through [Book.Marshal] and [Book.Load].
//
// # How a fault ends
//
// What is read from a card (uncorrected errors, a pending or failed remap, a
// recovery that the driver asks for, no answer) lasts as long as it is read. A
// reading that lacks the value neither begins it nor ends it.
//
// What happened once (an XID) lasts until a repair was seen after it: the
// machine was started anew, the driver was loaded anew or in another version,
// the card was reset, or its volatile counters began anew. A fault that asks for
// engines to be restarted is over with any of these, or when the agent says that
// it did so ([Book.EnginesRestarted]).
//
// A card that was excluded comes back when all its faults are over and it has
// read clean for [Policy.CleanFor] without a gap. It does so by itself at most
// [Policy.MaxReturns] times in [Policy.ReturnsWithin]; then, and at any other
// time, an operator's word ([Book.Clear]) brings it back. Another card in its
// place, known by its UUID, starts without faults.
package faults
