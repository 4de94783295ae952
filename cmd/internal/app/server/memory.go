package server

import (
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	// gcPercent is how far the heap may grow over what is live before it is
	// collected. A gateway's live heap is small and its garbage short-lived: the
	// runtime's 100 costs a twentieth of the CPU of a 1 KiB call.
	gcPercent = 400
	// memoryRatio is the share of the machine's or the container's memory that
	// the runtime tries to stay below, collecting more often near it.
	memoryRatio = 0.75
)

// tuneMemory sets the collector's pace and the soft memory limit, each unless
// the environment (GOGC, GOMEMLIMIT) does. The data plane's bound on request
// bodies is a quarter of that limit.
func tuneMemory(log *slog.Logger) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	_, err := memlimit.Set(
		memlimit.WithRatio(memoryRatio),
		memlimit.WithProvider(memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem)),
		memlimit.WithLogger(log.With("part", "memory limit")),
	)
	if err != nil {
		log.Warn("no memory limit could be found; set GOMEMLIMIT", "err", err)
	}
}
