package plugin

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/llmgw/llmgw/engines"
)

// Serve is the whole main of an adapter's program: it answers the host that started
// the program, until the host ends it or is gone itself, and then ends the process
// or returns. Standard output belongs to the handshake; slog's default logger, which
// Serve sets, writes JSON to standard error, from where the host takes it into its
// own log. A program that was not started by a host says what it is and ends with
// status 1.
func Serve(adapter engines.Adapter) {
	if os.Getenv(cookieKey) != cookieValue {
		fmt.Fprint(os.Stderr, introduction(adapter))
		os.Exit(1)
	}
	stderr := os.Stderr // go-plugin sets another one
	log := slog.New(slog.NewJSONHandler(stderr, nil))
	slog.SetDefault(log)
	go func() {
		// The host holds the other end of standard input and writes nothing. Its
		// end is the host's, however that died, and on every system.
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig:  handshake(),
		VersionedPlugins: versions(&server{adapter: adapter, log: log}),
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, grpc.MaxRecvMsgSize(mostBytes))...)
		},
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: stderr, JSONFormat: true}),
	})
}

// introduction is what a program says that was started by hand.
func introduction(adapter engines.Adapter) string {
	d, err := adapter.Describe(context.Background())
	if err != nil {
		return fmt.Sprintf("This is an engine adapter of llmgw, and it cannot describe itself: %v\n", err)
	}
	return fmt.Sprintf("This is the engine adapter %q (%s) of llmgw, version %s, protocol %s.\n"+
		"llmgw starts it where a model runs on that engine; it does nothing by itself.\n"+
		"Install it as %s%s in the directory of adapters.\n", d.Engine, d.Title, d.Version, spoken(), Prefix, d.Engine)
}
