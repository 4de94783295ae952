//go:build !race

package twin_test

// raceEnabled: the race detector is off.
const raceEnabled = false
