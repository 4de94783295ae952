// Package telling puts the answers of the management API into words for people.
// The tables of llmgw ctl and the pages of the console are made of these words, so
// that the two cannot say different things of the same answer.
//
// Everything here is a function of its arguments; nil answers are as empty ones.
// What is not known is "-", or says so, and is never a zero. The words hold what
// agents, engines and people wrote, as they wrote it: whoever shows them sees to it
// that they do no harm there. [Printable] does that for terminals.
package telling
