//go:build !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd

package plugin

import (
	"log/slog"
	"os"
)

// hold does nothing where files cannot be locked.
func hold(string) (*os.File, error) { return nil, nil }

// removeRemains does nothing: a host that lives could not be told from one that
// does not.
func removeRemains(string, *slog.Logger) {}
