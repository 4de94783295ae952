// Package portal is the pages that people see who use the models: a landing page
// that needs no key and holds no data, signing up and in, one's own keys and what
// they have used, one-time links, and a chat.
//
// It decides nothing. Who may do what is said by the accounts it is given
// ([Accounts], which an *account.Service is), and what guards its routes stands in
// package webui: [Portal.Routes] is a table for [webui.Site.Handler].
//
// # What is shown once
//
// The text of a key is in the answer to the form that makes it, or that opens a
// link, and nowhere else: the answer is not kept by browsers, and sending the form
// again makes no second key. See [Portal.Routes].
//
// # Chat
//
// A message of the chat becomes a request of its own to [Deps].Plane, in the name of
// one of the visitor's keys, which bounds it as it bounds every request with that
// key. Nothing that the browser sent goes along but the model, the messages, and the
// end of the connection.
package portal
