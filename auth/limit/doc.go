// Package limit decides whether a key may send one more request: how many
// requests and tokens a minute, how many at once, and for how much money. It
// knows nothing of HTTP, keys or stores; what it needs comes with each call, the
// time too.
//
//	Acquire(now, subject, estimate) ── one step, all limits or none ──> Reservation
//	   requests a minute │ tokens a minute │ requests at once │ budget      │
//	                                                                     Settle(now, what it came to)
//
// # Windows
//
// A window is the last minute, wherever that begins: there is no edge at which
// twice the limit passes. What comes within one second is kept together and
// leaves together, so a window counts at most a second too long, never too
// short. With 3 requests a minute:
//
//	12:00:00.0  one passes                     1 of 3
//	12:00:59.5  two pass                       3 of 3
//	12:00:59.9  refused, Retry-After 0.1 s
//	12:01:00.0  the first has left, one passes 3 of 3
//	12:01:00.1  refused, Retry-After 59.9 s: those of 59.5 and 60.0 leave together
//
// Tokens are charged by an estimate and put right by [Reservation.Settle]: what
// was too much leaves the window at once. What was too little is charged then; if
// the window has no room for it, it becomes a debt that takes the place of what
// leaves the window, and nothing passes until it is paid. So who always says 1
// and uses 10,000 gets what the limit allows too, one window late. A debt is
// never more than an hour's tokens.
//
// A request that is more than the tokens of a whole minute is refused with
// [ReasonTooLarge], which no waiting helps.
//
// # Budgets
//
// A budget is reserved at the most that a request can cost and settled at what
// it did cost. What is spent and what is reserved never exceed it together, so
// 50 requests at once against a budget for one are one that passes and 49 that
// do not. Periods are days, weeks and months of a time zone; a reservation is
// settled in the period in which it was made.
//
// What may be spent is asked of a [Source], of each budget when it is first used.
// Until it answers, requests that cost something are refused as
// [ErrUnavailable]. A Source for one process says what was spent before (see
// [Restore]); the limiter counts on from there and asks no more. A Source for
// several hands out slices: what it grants it takes for spent until it is given
// back, so nothing is spent twice, whoever dies and whatever answer is lost.
// Slices are small, one part in a hundred of what is left or what one request
// needs; they are asked for ahead ([Limiter.Maintain]), so that requests seldom
// wait, and given back when they lie idle, when the period ends, when the budget
// is made smaller, and at the end ([Limiter.Drain]).
//
// # What is kept
//
// Per key that is in use about 3 KB, less if no rate is limited. Keys of which
// nothing need be remembered are forgotten. Nothing of this outlives the process:
// after a restart windows are empty, and budgets are what the Source says.
package limit
