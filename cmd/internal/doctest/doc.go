// Package doctest holds the tests of the documentation: links lead somewhere,
// configurations are accepted, programs compile, and the tutorial's commands do
// what it says they do.
package doctest
