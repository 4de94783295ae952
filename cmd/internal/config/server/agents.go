package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/llmgw/llmgw/fleet/pki"
	"github.com/llmgw/llmgw/placement/catalog"
)

// AgentTLS is by what this server and the agents know each other.
type AgentTLS struct {
	// CertFile is a PEM file with this server's certificate, as `llmgw ctl cert
	// server` makes it. Default "", agents speak in clear; set all three files or
	// none.
	CertFile string `yaml:"cert_file"`
	// KeyFile is the PEM file with its private key. Default "".
	KeyFile string `yaml:"key_file"`
	// CAFile is the PEM file with the roots by which agents' certificates are held.
	// Default "".
	CAFile string `yaml:"ca_file"`
}

// ControlPlane reports whether the server is one: it is no router, agent_listen is
// not empty, and was written, or a model is to be run on machines of the fleet.
func (c Config) ControlPlane() bool {
	return !c.Router && c.AgentListen != "" && (c.Agents || c.Runs())
}

// Runs reports whether a model has a profile, be it of the configuration or, as far
// as is known, of the store.
func (c Config) Runs() bool {
	return c.StoredProfiles || slices.ContainsFunc(c.Gateway.Models, func(m catalog.Model) bool { return m.Profile != nil })
}

// AgentAddress is where a control plane listens for agents; empty for what is none.
// A model's profile alone does not open a port to everybody: where nobody wrote
// agent_listen, and agents do not prove who they are, only this machine is heard.
func (c Config) AgentAddress() string {
	switch {
	case !c.ControlPlane():
		return ""
	case c.Agents || c.AgentTLS != (AgentTLS{}):
		return c.AgentListen
	}
	_, port, _ := strings.Cut(c.AgentListen, ":") // the default
	return "127.0.0.1:" + port
}

// Keeps reports whether the server has a store: it needs one, or was told of one. A
// router has one for keys only.
func (c Config) Keeps() bool {
	if c.Router {
		return c.Auth.Enabled
	}
	return c.Auth.Enabled || c.ControlPlane() || c.Store.DSN != defaultDSN
}

// WithControlPlane returns c as if agent_listen had been written, for callers that
// fill in a Config by code.
func (c Config) WithControlPlane(listen string) Config {
	c.AgentListen, c.Agents = listen, true
	return c
}

// files are the three files.
func (t AgentTLS) files() tlsFiles { return tlsFiles{"agent_tls", t.CertFile, t.KeyFile, t.CAFile} }

// tlsFiles are what one end of a connection needs on which both prove themselves.
type tlsFiles struct{ section, cert, key, ca string }

func (t tlsFiles) validate() error {
	named := 0
	for _, file := range []string{t.cert, t.key, t.ca} {
		if file != "" {
			named++
		}
	}
	if named == 1 || named == 2 {
		return fmt.Errorf("%s: set cert_file, key_file and ca_file, or none of them: a connection on which both ends prove themselves needs all three", t.section)
	}
	return nil
}

// check reads the files as the server does.
func (t tlsFiles) check() error {
	if t.cert == "" {
		return nil
	}
	err := checkPair(t.section, TLS{CertFile: t.cert, KeyFile: t.key})
	ca, caErr := pki.ReadFile(t.ca)
	if caErr == nil {
		_, caErr = pki.ParseBundle(ca)
	}
	return errors.Join(err, under(t.section+".ca_file: ", caErr))
}

// ClearWarning says what it means that agents of other machines speak in clear;
// empty where they do not.
func (c Config) ClearWarning() string {
	if !c.ControlPlane() || c.AgentTLS != (AgentTLS{}) {
		return ""
	}
	if host, _, err := splitAddress(c.AgentAddress()); err == nil && isLoopback(host) {
		return ""
	}
	return fmt.Sprintf("agent_listen: %q without agent_tls lets everybody who reaches it pose as a node, and orders with the secrets of engines go in clear; for a network that you trust only, else make certificates with llmgw ctl cert", c.AgentListen)
}
