// Package wire holds what goes over the bench's connections: the requests that
// the load generator sends, the exact bytes that the fake engine answers with
// and the generator expects, and a small HTTP/1.1 reader that both ends share.
//
// A request says in its field "user" how the engine shall behave ([Params]) and
// what checksum its messages have, so that a proxy which alters the prompt on
// the way is found by the engine, and one which alters the answer by the
// generator. Nothing here knows sockets or time.
package wire
