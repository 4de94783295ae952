//go:build !race

package calibrate_test

// raced is false: tests of figures draw all.
const raced = false
