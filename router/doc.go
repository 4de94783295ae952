// Package router is the data plane's request path as one http.Handler: it reads
// what a client of an OpenAI or Anthropic API sends, finds the model, asks the
// hooks, chooses an engine, relays the answer, and says what became of it.
//
//	identify -> read, peek -> resolve, authorise -> charge -> wake, admit
//	   -> [ schedule -> send -> relay ]  further endpoints, then fallbacks,
//	   -> settle, record                 until a byte has reached the client
//
// It serves POST /v1/* and /tokenize with a JSON body that names a model, four
// paths of sound and images with a form that does, what there is about stored
// responses below /v1/responses/{id}, and GET /v1/models and /v1/models/{model}.
// Every other path is answered 404 in the shape of the API it looks like.
//
// A form is spooled: its beginning in memory, the rest in a file without a name,
// for the model may stand behind the file, and another engine may have to get it.
// A stored response is one engine's; the router remembers whose, and sends what
// refers to it there or nowhere.
//
// What it does not do: it knows no keys, limits or bands (six hooks do, see
// [Deps]; they refuse a request with an [*openai.Error], and any other error of
// theirs is a 503), starts no engine, and measures none (package scrape does). It holds
// no lock while a request runs, and one snapshot of the endpoints and one of the
// catalog for each.
//
// A failed attempt may be followed by another endpoint only while nothing has
// been sent to the client. After that an error ends a stream as an event in the
// API's own form, and breaks a document off.
package router
