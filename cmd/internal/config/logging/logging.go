// Package logging is the section log of the files that operators write.
package logging

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// Log is how the process logs. No prompt, answer or key is ever logged.
type Log struct {
	// Level is the least severe level written: debug, info, warn or error.
	// Default info.
	Level string `yaml:"level"`
	// Format is text, for people, or json, one object a line. Default text.
	Format string `yaml:"format"`
}

// Default returns the defaults.
func Default() Log { return Log{Level: "info", Format: "text"} }

// Validate reports every fault, each beginning with its key.
func (l Log) Validate() error {
	var errs []error
	if _, ok := levels()[l.Level]; !ok {
		errs = append(errs, fmt.Errorf("log.level: %q is unknown; want debug, info, warn or error", l.Level))
	}
	if l.Format != "text" && l.Format != "json" {
		errs = append(errs, fmt.Errorf("log.format: %q is unknown; want text or json", l.Format))
	}
	return errors.Join(errs...)
}

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
