//go:build race

package twin_test

// raceEnabled: the race detector is on, and everything takes ten times as long.
const raceEnabled = true
