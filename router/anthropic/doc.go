// Package anthropic writes what the Anthropic Messages API has in a shape of
// its own: errors, and the list of models. Requests are read and edited, and
// streams watched, by package openai, whose Dialect knows this API's events.
//
// All functions are safe for concurrent use.
package anthropic
