//go:build !race

package storagetest

// raced is false: all is done that the suite says.
const raced = false
