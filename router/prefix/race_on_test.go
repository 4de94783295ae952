//go:build race

package prefix_test

// raceEnabled: the race detector is on, and everything takes ten times as long.
const raceEnabled = true
