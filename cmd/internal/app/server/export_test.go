package server

import (
	"io"
	"log/slog"
	"testing"

	config "github.com/llmgw/llmgw/cmd/internal/config/server"
)

// StartServer runs a server with a gateway until the test ends, or stop is called. All
// that it logs goes to log.
func StartServer(t *testing.T, cfg config.Config, log io.Writer) (at Addresses, stop func()) {
	t.Helper()
	r := startLogging(t, cfg, gatewayModule(), slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true}))
	return r.Addresses, func() {
		r.stop()
		if err := <-r.done; err != nil {
			t.Error(err)
		}
		r.done <- nil
	}
}

// KeyedConfig is a configuration that asks for keys, with one engine.
func KeyedConfig(t *testing.T) config.Config {
	t.Helper()
	return keyed(t)
}
