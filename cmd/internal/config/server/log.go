package server

import (
	"io"
	"log/slog"
)

func levels() map[string]slog.Level {
	return map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
}

// SlogLevel returns the level, info if it is not valid.
func (l Log) SlogLevel() slog.Level { return levels()[l.Level] }

// Logger returns a logger that writes to w in the configured format, at a level
// that may be changed while it is used.
func (l Log) Logger(w io.Writer, level *slog.LevelVar) *slog.Logger {
	level.Set(l.SlogLevel())
	options := &slog.HandlerOptions{Level: level}
	if l.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
