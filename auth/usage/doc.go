// Package usage accounts for requests: one row each, whatever its end, what it
// cost, and where the figures come from.
//
// [Recorder.Record] puts a row into a bounded buffer and never blocks. Run takes
// them from there to the store in batches. While the store is away they wait;
// when the buffer is full, later ones are dropped and counted. A row leaves the
// buffer once it is kept, and the store keeps one request once, so a batch of
// which nobody knows whether it was kept is sent again. At the end of Run what is
// left is written, for as long as Config.DrainTimeout allows.
//
//	request ends → Record → buffer → Run → store: rows, roll-ups, what is spent
//	                  └→ full: dropped, counted
//
// [Price] says what tokens cost, in integers: 10^-9 of the currency unit for a
// million tokens. [WriteCSV] and [WriteJSON] export rows.
package usage
