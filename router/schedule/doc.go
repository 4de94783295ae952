// Package schedule decides which endpoint a request goes to, and says why.
//
// A [Profile] is a pipeline: filters drop endpoints that must not be used,
// scorers vote on the rest, and a picker chooses by the weighted mean of the
// votes. The built-in profiles are those of [Profiles]; an embedder adds
// filters, scorers, pickers and profiles of its own through [Deps].
//
//	pool --filters--> candidates --scorers--> votes --weights--> scores --picker--> pick
//	        | drops (counted)  ^ who holds the prompt's beginning             |
//	        v                                                                 v
//	     Decision record: signals with their age, votes, draw       in flight is reserved
//
// [Scheduler.Decide] is pure on what it is given: the time stands in the
// [Request], chance comes from the generator, load from the endpoints. It
// reserves the request's place before it returns, so the next decision sees
// it, and of decisions made at the same moment on the same numbers only one
// goes through while the others look again. A burst between two scrapes
// therefore spreads as evenly as a slow trickle.
//
// # What a vote means
//
// A vote lies in [0,1] and 1 is best. Load votes fall as 1/(1+load/target):
// they are 1/2 at the target and never reach 0, so that of two endpoints that
// are both overloaded the lesser still wins. Load is always per unit of an
// endpoint's weight, with the request itself counted in, so a larger endpoint
// takes proportionally more. What is unknown or stale is never read as idle:
// it votes one half of what local knowledge alone would.
//
// # Prefixes
//
// What an endpoint holds of a prompt in its KV cache need not be computed again.
// Who holds what is known to a [PrefixIndex], which is not part of this package:
// it is asked once a decision, about [Request].Prompt, and told of the pick.
// [PrefixAffinity] makes a vote of it, which load can outvote.
//
// # Large pools
//
// A pool of more than [Config].SampleAbove endpoints is not looked at as a whole,
// but for the endpoints that hold the prompt, those where the session belongs, and
// a random sample. Filters and scorers see those only; [Profile].Full says
// otherwise. An endpoint with more than sample/pool of the whole weight gets less
// than its share of such a pool, since it is not seen often enough.
//
// # Records
//
// [Decision.AppendBinary] writes what a decision was made on and its pick, without
// text, for [Scheduler.Replay] to make it again, by the same profile or another.
package schedule
