package cli

import (
	"context"
	"log/slog"

	"github.com/llmgw/llmgw/auth/limit/shared"
	serverapp "github.com/llmgw/llmgw/cmd/internal/app/server"
	server "github.com/llmgw/llmgw/cmd/internal/config/server"
)

type serverCmd struct {
	Config string `short:"c" placeholder:"FILE" help:"Configuration, YAML; without it every key has its default and no endpoint is known."`
	Role   string `enum:"server,router" default:"server" help:"What it is: a server, or a router that has its models and engines from the control planes under follow in the configuration."`
}

// Run serves until a signal.
func (c *serverCmd) Run(ctx context.Context, streams Streams) error {
	loaded, err := c.load()
	if err != nil {
		return err
	}
	shared.QuietDriver() // its lines would stand between those of the log, which may be JSON
	var level slog.LevelVar
	log := loaded.Log.Logger(streams.Err, &level)
	warn := func(l *server.Loaded) {
		for _, w := range l.Oddities {
			log.Warn("configuration", "warning", w)
		}
	}
	warn(loaded)
	return serverapp.Run(ctx, serverapp.Options{
		Config: loaded.Config, Logger: log, Level: &level,
		Reload: func() (server.Config, error) {
			next, err := c.load()
			if err != nil {
				return server.Config{}, err
			}
			warn(next)
			return next.Config, nil
		},
	})
}

// load reads the configuration and makes sure of what it names on this machine.
func (c *serverCmd) load() (*server.Loaded, error) {
	loaded, err := server.Load(c.Config, environ())
	if err == nil && c.Role == ofRouter {
		err = loaded.UseAsRouter()
	}
	if err != nil {
		return nil, err
	}
	return loaded, loaded.Check()
}
