// Package prefix knows which endpoint already holds the beginning of a prompt,
// so that a router can send a request where it need not be computed again.
//
// It has two indexes. [Index] is approximate and needs nothing of the engines:
// it remembers which prompts were sent where, and corrects itself by what the
// answers say of cached tokens. [Exact] is told by the engines themselves, by
// their KV-cache events, and needs a prompt's token ids.
//
// The package decides nothing: an index is asked by a scorer, which other votes
// can outdo. It does no I/O, reads no clock, starts no goroutine and draws no
// chance; the same calls give the same results.
//
// # The approximate index
//
//	request body -> canonical text -> Chain (a hash per 64 bytes)
//	                                    |
//	         Lookup(chain, &result) <---+---> Send(id, chain) -> sent
//	         who holds how much of it         the picker's choice
//	                                              |
//	         Observe(sent, chain, usage) <--------+  the engine's word
//
// A [Chain] is written the prompt's text and keeps of it one hash for each
// ChunkBytes bytes, each over all that stands before it. Two prompts have the
// same hash at a place if they are the same up to there, so the radix tree of
// prompts needs no text: a node's label is a run of hashes, where two labels
// part is found by binary search, and a node is found from the first hash of
// its label in one map. A match that ends within a label counts up to there.
//
// Each endpoint is taken for an LRU cache of a capacity that is learned: holding
// a node means holding all before it, the oldest goes first, of one prompt the
// end first, as engines do. What an engine says of cached tokens corrects this:
// if it had lost what it was believed to hold, all that was used before is
// forgotten too and the capacity estimated lower; if it had more, higher.
// [Index.Clear] empties an endpoint, as after a restart.
//
// The index is bounded in bytes; when they are used up, what was longest not
// used on any endpoint goes first.
package prefix
