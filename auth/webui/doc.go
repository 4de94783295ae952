// Package webui is the look of the pages and what guards them. It knows nothing of
// accounts, keys or nodes: whoever has pages hands it a table of routes and
// templates for what is between the header and the footer.
//
//	request ── route of the table ── headers ── whose session ── Access ── cross-site? ── form ── token ── Handler
//	              │ none             on every                     │           │            │        │
//	             404, 405 + Allow    answer                   404, to sign    403     413, 415     403
//	                                                          in, or 403
//
// # Guards by construction
//
// A [Route] of the table is the only way to a handler, and [Site.Handler] puts the
// guards before each: no handler can forget them, and none sees a request that did
// not pass. A POST has a bounded body of one form, comes from a page of this site
// as far as the browser says where it comes from, and carries the token of its
// session, or of its pre-session cookie where nobody has to be signed in. A GET has
// no body and changes nothing.
//
// # Rendering
//
// A page is rendered whole before a byte of it is sent, so that a fault in a
// template is an error page and never half of a page. What goes wrong is a
// [Problem]: what happened, and what to do next.
//
// Scripts run on no page but those whose route names one, and then only the file
// that is served from here. There is no inline script or style at all.
package webui
