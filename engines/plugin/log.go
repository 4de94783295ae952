package plugin

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
)

// relayLog puts the lines that a program prints on standard error into log, until
// the end of r: JSON with its level and attributes, other text as warnings. Lines
// beyond a hundred a second are counted only.
func relayLog(r io.Reader, log *slog.Logger) {
	const (
		longest   = 8 << 10
		perSecond = 100
	)
	lines := bufio.NewReaderSize(r, longest)
	var second int64
	var logged, dropped int
	tell := func() {
		if dropped > 0 {
			log.Warn("the adapter logs too much", "dropped_lines", dropped)
		}
		logged, dropped = 0, 0
	}
	defer tell()
	for {
		line, cut, err := lines.ReadLine()
		if err != nil {
			return
		}
		if now := time.Now().Unix(); now != second {
			tell()
			second = now
		}
		if logged++; logged > perSecond {
			dropped++
		} else {
			relayLine(line, log)
		}
		for cut && err == nil { // the rest of a line that is too long is not a line
			_, cut, err = lines.ReadLine()
		}
	}
}

// relayLine understands slog's JSON and hclog's.
func relayLine(line []byte, log *slog.Logger) {
	var fields map[string]any
	if len(line) == 0 {
		return
	}
	if json.Unmarshal(line, &fields) != nil {
		log.Warn("the adapter says", "line", string(line))
		return
	}
	text := func(keys ...string) string {
		for _, k := range keys {
			if s, ok := fields[k].(string); ok {
				delete(fields, k)
				return s
			}
		}
		return ""
	}
	message := text("msg", "@message")
	var level slog.Level
	if err := level.UnmarshalText([]byte(text("level", "@level"))); err != nil {
		level = slog.LevelInfo
	}
	for _, k := range []string{"time", "@timestamp", "@module"} {
		delete(fields, k)
	}
	attrs := []slog.Attr{slog.String("says", message)}
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		attrs = append(attrs, slog.Any(k, fields[k]))
	}
	log.LogAttrs(context.Background(), level, "the adapter says", attrs...)
}

// hclogTo returns a logger for go-plugin whose only effect is on log. What go-plugin
// says of starts and ends the host says better, so that all of it is at debug level.
func hclogTo(log *slog.Logger) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Debug, Output: io.Discard})
	l.RegisterSink(sink{log})
	return l
}

type sink struct{ log *slog.Logger }

// Accept implements [hclog.SinkAdapter].
func (s sink) Accept(_ string, level hclog.Level, message string, args ...any) {
	s.log.Debug("go-plugin: "+message, append([]any{"hclog_level", level.String()}, args...)...)
}

// printed takes what a Go program prints after the handshake.
type printed struct{ log *slog.Logger }

// Write logs p.
func (w printed) Write(p []byte) (int, error) {
	const longest = 1 << 10
	w.log.Debug("the adapter prints", "text", fmt.Sprintf("%.*s", longest, p))
	return len(p), nil
}
