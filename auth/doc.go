// Package auth says who sends a request and what that one may use. It turns the
// key in a request's headers into an [Identity], and makes, rotates and ends
// keys. It knows nothing of limits, prices or routing: an Identity carries what
// those decide by.
//
//	request ── Middleware ── key in the headers ── SHA-256 ── known? ── Identity in the context
//	              │ exempt: as it is                              │ no
//	              │                                    refused lately? ── 401
//	              └ refused: RefuseFunc                           │ no
//	                                                    one read of the store, shared
//	                                                    by all who ask for that key
//
// # What is kept in memory
//
// [Authenticator] holds the keys that the store vouched for, and a bounded
// number of those that it refused. A key in use is looked up again in the
// background at half of Config.CacheTTL, so its requests never wait. One that
// nobody used for longer than that is looked up while its request waits, for
// staleWait at most. While the store cannot be asked, what is known is served on,
// until its own date of expiry, and what is not known is [ErrUnavailable]: a 503,
// and never a 401, since nobody knows.
//
// A revocation counts at once in the process that is told of it
// ([Authenticator.Revoke]), and within CacheTTL elsewhere.
//
// # Why time tells nothing
//
// No secret is ever compared. What is looked up is the SHA-256 of what the
// client sent, and how long that takes depends on a hash that nobody can steer
// towards one that is kept: to make one bit more agree takes twice the work, and
// a key has 256 random bits. So neither constant-time comparison nor a slow hash
// would add anything here. Passwords are another matter and not this package's.
package auth
