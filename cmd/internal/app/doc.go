// Package app is the composition layer: below it stands one package per role
// of the binary, which puts the libraries together with fx and runs them as
// one group. What is known about the binary itself stands here.
package app
