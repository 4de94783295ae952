//go:build race

package calibrate_test

// raced says that the race detector makes everything ten times as slow: tests of
// figures draw fewer.
const raced = true
