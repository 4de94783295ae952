package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"

	"github.com/llmgw/llmgw/cmd/internal/app/demo"
	serverapp "github.com/llmgw/llmgw/cmd/internal/app/server"
)

type demoCmd struct {
	Listen      string `help:"Address for clients; port 0 takes a free one. Default ${default}." default:"127.0.0.1:8080" placeholder:"ADDR"`
	AdminListen string `help:"Address for metrics and pprof, loopback only; port 0 takes a free one. Default ${default}." default:"127.0.0.1:9090" placeholder:"ADDR"`
	Auth        bool   `default:"true" negatable:"" help:"Ask for a key, and make one, which goes with the demo. --no-auth asks nobody."`
	JSON        bool   `name:"json" help:"Print one JSON line with base_url, admin_url, models and api_key when it is ready."`
}

// Run serves the demo until a signal.
func (c *demoCmd) Run(ctx context.Context, streams Streams) error {
	// What the demo has to say is on standard output; the log only warns.
	log := slog.New(slog.NewTextHandler(streams.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return demo.Run(ctx, demo.Options{
		Listen: c.Listen, AdminListen: c.AdminListen, Auth: c.Auth, Logger: log,
		Ready: func(at serverapp.Addresses, models []string, key string) {
			s := served{BaseURL: "http://" + dialable(at.Client), AdminURL: "http://" + dialable(at.Admin), Models: models, APIKey: key}
			if c.JSON {
				s.writeJSON(streams.Out)
				return
			}
			greet(streams.Out, s)
		},
	})
}

// greet shows what to do next.
func greet(w io.Writer, s served) {
	auth, more := "", ""
	if s.APIKey != "" {
		auth = " -H 'Authorization: Bearer " + s.APIKey + "'"
		more = fmt.Sprintf("\nkey: %s\n\nIt is a key for everything. Another one: llmgw keys create --admin %s --rpm 5\n", s.APIKey, s.AdminURL)
	}
	fmt.Fprintf(w, `A router and three simulated engines serve %[3]s at %[1]s. Try it:

curl -N %[1]s/v1/chat/completions%[4]s -H 'Content-Type: application/json' -d '{"model": "%[3]s", "stream": true, "max_tokens": 50, "messages": [{"role": "user", "content": "Hello"}]}'
%[5]s
Metrics are at %[2]s/metrics. Ctrl-C ends it.
`, s.BaseURL, s.AdminURL, s.Models[0], auth, more)
}

// dialable replaces an address that means "every address of this machine" by
// one that a client on it can dial.
func dialable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}
