//go:build !linux

package load

import "time"

// sleepUntil sleeps as exactly as the runtime does.
func sleepUntil(t time.Time) { time.Sleep(time.Until(t)) }

// processCPU is not measured here.
func processCPU() time.Duration { return 0 }
