package server_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/cmd/internal/config/logging"
	"github.com/llmgw/llmgw/cmd/internal/config/server"
)

func TestDefaultsAreValid(t *testing.T) {
	if err := server.DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
}

func TestValidate(t *testing.T) {
	tests := []struct {
		name   string
		change func(*server.Config)
		want   []string
	}{
		{"IPv6 loopback, port 0", func(c *server.Config) { c.AdminListen = "[::1]:0" }, nil},
		{"localhost", func(c *server.Config) { c.AdminListen = "localhost:9090" }, nil},
		{"port 0 thrice", func(c *server.Config) {
			c.Listen, c.AdminListen, c.MetricsListen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
		}, nil},
		{"admin open to all", func(c *server.Config) { c.AdminListen = ":9090" }, []string{
			`admin_listen: ":9090" is open to other machines; want a loopback address, e.g. "127.0.0.1:9090", because profiles hold keys and prompts (metrics_listen serves other machines)`,
		}},
		{"admin on the network", func(c *server.Config) { c.AdminListen = "10.0.0.1:9090" }, []string{
			`admin_listen: "10.0.0.1:9090" is open to other machines; want a loopback address, e.g. "127.0.0.1:9090", because profiles hold keys and prompts (metrics_listen serves other machines)`,
		}},
		{"addresses", func(c *server.Config) { c.Listen, c.AdminListen, c.MetricsListen = "8080", "", "h:http" }, []string{
			`listen: a port alone is no address; want ":8080"`,
			`admin_listen: "" is no address: missing port in address; want e.g. "127.0.0.1:9090"`,
			`metrics_listen: "h:http" is no address: port "http" is not a number from 0 to 65535; want e.g. ":9091"`,
		}},
		{"ports", func(c *server.Config) { c.Listen, c.AdminListen, c.MetricsListen = "h", "9999", "99999" }, []string{
			`listen: "h" is no address: missing port in address; want e.g. ":8080"`,
			`admin_listen: a port alone is no address; want "127.0.0.1:9999"`,
			`metrics_listen: "99999" is no address: missing port in address; want e.g. ":9091"`,
		}},
		{"address twice", func(c *server.Config) { c.MetricsListen = ":8080" }, []string{
			`metrics_listen: ":8080" is listen already; want another port`,
		}},
		{"half a pair", func(c *server.Config) { c.TLS.CertFile = "c" }, []string{
			`tls.key_file: "" is empty, but tls.cert_file is set; set both or none`,
		}},
		{"numbers", func(c *server.Config) {
			c.HTTP, c.Shutdown = server.HTTP{MaxConnections: -1}, server.Shutdown{Grace: -1, Drain: -time.Second}
		}, []string{
			`http.read_header_timeout: 0s is not positive; want e.g. 10s`,
			`http.idle_timeout: 0s is not positive; want e.g. 2m`,
			`http.max_header_bytes: 0 is out of range; want 4096 to 1048576`,
			`http.max_connections: -1 is negative; want 0 (no bound) or more`,
			`http.max_concurrent_streams: 0 is out of range; want 1 to 100000`,
			`shutdown.grace: -1ns is negative; want 0 or more, e.g. 5s`,
			`shutdown.drain: -1s is negative; want 0 or more, e.g. 60s`,
		}},
		{"log", func(c *server.Config) { c.Log = logging.Log{Level: "INFO"} }, []string{
			`log.level: "INFO" is unknown; want debug, info, warn or error`,
			`log.format: "" is unknown; want text or json`,
		}},
		{"where the pages are", func(c *server.Config) {
			c.Portal.Pages.PublicURL, c.Landing.Contact = "https://llm.example.org:8443/", "ask Ada"
		}, nil},
		{"pages below a path", func(c *server.Config) { c.Portal.Pages.PublicURL = "https://example.org/llm" }, []string{
			`portal.public_url: "https://example.org/llm"; want the address of the pages, such as https://llm.example.org, with no path and no user in it`,
		}},
		{"a long contact", func(c *server.Config) { c.Landing.Contact = strings.Repeat("x", 513) }, []string{
			`landing.contact: more than 512 bytes; want whom to ask for access, such as help@example.org`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := server.DefaultConfig()
			tt.change(&c)
			var got []string
			if err := c.Validate(); err != nil {
				got = strings.Split(err.Error(), "\n")
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLogger(t *testing.T) {
	var out bytes.Buffer
	var level slog.LevelVar
	log := logging.Log{Level: "warn", Format: "json"}.Logger(&out, &level)
	log.Info("unseen")
	level.Set(slog.LevelInfo)
	log.Info("seen")
	if got := out.String(); strings.Contains(got, "unseen") || !strings.HasPrefix(got, "{") || !strings.Contains(got, `"msg":"seen"`) {
		t.Errorf("log = %s", got)
	}
}
