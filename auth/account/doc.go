// Package account keeps people who sign in on the pages, and what they may do: sign up
// and wait to be approved, sign in, see and end their sessions, and make and end their
// own keys. Operators approve and suspend them, and make one-time links.
//
//	sign-up ── account, pending ── operator approves ── sign-in ── session ── keys
//	                                     │ suspends: sessions end, keys open nothing
//
// It knows no HTTP: pages are auth/portal's and commands are others'. It promises what
// they cannot see to by themselves:
//
//   - what an attempt to sign in or up says, does and takes is the same whether or not
//     there is such an account, until the password is right;
//   - guessing is slowed down by address, wherever it comes from;
//   - few passwords are hashed at once, few wait, and the rest are turned away before
//     anything is done for them: see package password;
//   - sessions, forms and links have tokens of 256 random bits that are in no store, and
//     a session's account is looked at in the same read as the session;
//   - an account's keys are bounded together: all are of one lineage, whose ID is the
//     account's. So making another key gives nobody more.
//
// Nothing is held in memory but what bounds logs and writes, so any process may serve
// any visitor, and what one ends is ended in all.
package account
