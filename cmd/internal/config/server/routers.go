package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/feed"
)

// Routers is the section `routers`.
type Routers struct {
	// TokenFile is a file with what routers of other processes show to a control
	// plane without agent_tls, and nothing else but white space around it: 16
	// printable characters or more, without spaces. It is read at the start. Default
	// "", none is let in; with agent_tls they show certificates, and this must be
	// empty.
	TokenFile string `yaml:"token_file"`
}

// Follow is the section `follow`.
type Follow struct {
	// Servers are control planes, as https://host:7443, or http:// where they have no
	// agent_tls; they are tried in turn. Default none; a router needs one.
	Servers []string `yaml:"servers"`
	// Name is this router's. Default "", the one in its certificate, and without one
	// that of the machine. 1 to 63 letters, digits, dots, dashes and underscores.
	Name string `yaml:"name"`
	// File is where a copy of what was heard is kept, from which the router serves
	// after a start without a control plane. It holds the secrets of all engines and
	// is its owner's alone; each router needs one of its own. Default "llmgw.feed",
	// relative to where the process runs; "" keeps none.
	File string `yaml:"file"`
	// TokenFile is a file with what is shown to control planes at http://, the same
	// as their routers.token_file. It is read at the start. Default "", none.
	TokenFile string `yaml:"token_file"`
	// Reconnect is how often a control plane that is away, or refuses, is tried.
	Reconnect feed.Reconnect `yaml:"reconnect"`
	// TLS is by what this router and control planes at https:// know each other.
	TLS RouterTLS `yaml:"tls"`
}

// RouterTLS is by what a router and the control planes know each other.
type RouterTLS struct {
	// CertFile is a PEM file with this router's certificate, as `llmgw ctl cert
	// router` makes it. Default ""; set all three files or none.
	CertFile string `yaml:"cert_file"`
	// KeyFile is the PEM file with its private key. Default "".
	KeyFile string `yaml:"key_file"`
	// CAFile is the PEM file with the roots by which control planes' certificates
	// are held. Default "".
	CAFile string `yaml:"ca_file"`
}

// files are the three files.
func (t RouterTLS) files() tlsFiles { return tlsFiles{"follow.tls", t.CertFile, t.KeyFile, t.CAFile} }

// AsRouter returns c as the configuration of a router that has all it knows from
// control planes, or what stands against it.
func (c Config) AsRouter() (Config, error) {
	var errs []error
	if len(c.Follow.Servers) == 0 {
		errs = append(errs, errors.New("follow.servers: there are none; a router learns models and engines from a control plane; want e.g. [https://control.example:7443]"))
	}
	if c.Follow.TLS == (RouterTLS{}) && c.Follow.TokenFile == "" {
		errs = append(errs, errors.New("follow: neither tls nor token_file is set, so no control plane lets this router in; want one of them"))
	}
	if len(c.Gateway.Models) > 0 {
		errs = append(errs, errors.New("models: a router has those of its control plane; take them out here, and add them there"))
	}
	if c.Agents && c.AgentListen != "" {
		errs = append(errs, fmt.Errorf("agent_listen: %q, but agents dial control planes and not routers; leave it out", c.AgentListen))
	}
	if c.Auth.Enabled && c.Store.DSN.File() != "" {
		errs = append(errs, fmt.Errorf("store.dsn: %q is a file, which other processes do not share, and this router asks for keys; want the PostgreSQL of the control plane, as postgres://user:password@host:5432/database, or auth.enabled: false", c.Store.DSN))
	}
	c.Router = true
	return c, errors.Join(errs...)
}

// UseAsRouter makes of l the configuration of a router, see [Config.AsRouter], or
// returns what stands against it as strictyaml.Faults.
func (l *Loaded) UseAsRouter() error {
	c, err := l.AsRouter()
	if err != nil {
		return l.result.Locate(err)
	}
	l.Config = c
	return nil
}

// UnfollowedWarning says that a server that is no router follows nobody; empty for
// a router, and where nobody is to be followed.
func (c Config) UnfollowedWarning() string {
	if c.Router || len(c.Follow.Servers) == 0 {
		return ""
	}
	return "follow.servers: counts for nothing without --role router"
}

func (f Follow) validate() error {
	var errs []error
	secured := f.TLS != (RouterTLS{})
	if secured && f.TokenFile != "" {
		errs = append(errs, errors.New("follow.token_file: stands beside follow.tls; want one of them: control planes with agent_tls ask for certificates, others for a token"))
	}
	for i, server := range f.Servers {
		r := feed.Remote{Address: server}
		if secured {
			r.DialTLS = (&net.Dialer{}).DialContext // so that https is no fault; nothing is dialled
		}
		if _, err := feed.NewRemote(r); err != nil {
			errs = append(errs, fmt.Errorf("follow.servers[%d]: %w", i, err))
		} else if secured && !strings.HasPrefix(server, "https:") {
			errs = append(errs, fmt.Errorf("follow.servers[%d]: %q speaks in clear, but follow.tls is set; want https://", i, server))
		}
	}
	if f.Name != "" {
		errs = append(errs, under("follow.name: ", engines.ValidID(f.Name)))
	}
	return errors.Join(append(errs, under("follow.", f.Reconnect.Validate()), f.TLS.files().validate())...)
}

func (r Routers) validate(agents AgentTLS) error {
	if r.TokenFile != "" && agents != (AgentTLS{}) {
		return errors.New("routers.token_file: stands beside agent_tls, where routers show certificates, which llmgw ctl cert router makes; leave it out")
	}
	return nil
}

// leastToken is the length in bytes of the shortest token that is accepted.
const leastToken = 16

// ReadToken returns the token in a file, or "" if no file is named.
func ReadToken(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(data))
	if len(token) < leastToken || len(token) > feed.MaxTextBytes || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%s holds no token; want %d to %d printable characters without spaces, as `openssl rand -hex 32` prints", file, leastToken, feed.MaxTextBytes)
	}
	return token, nil
}

// checkRouters reads the files of both ends as the server does.
func (c Config) checkRouters() error {
	if c.Router {
		_, err := ReadToken(c.Follow.TokenFile)
		return errors.Join(under("follow.token_file: ", err), c.Follow.TLS.files().check())
	}
	_, err := ReadToken(c.Routers.TokenFile)
	return under("routers.token_file: ", err)
}
