package server

import (
	"net"
	"strings"

	"github.com/llmgw/llmgw/auth/webui"
)

// Portal is the section `portal`.
type Portal struct {
	// Enabled says that people may sign up and sign in on the client listener, have
	// keys of their own there, and open links that operators send them; and that those
	// whom `llmgw users admin` names may look at the console under /admin/. Default
	// true. While it is false, and while auth.enabled is false, the landing page is the
	// only one.
	Enabled bool         `yaml:"enabled"`
	Pages   webui.Config `yaml:",inline"`
}

// DefaultPortal returns the defaults of Portal.
func DefaultPortal() Portal { return Portal{Enabled: true, Pages: webui.DefaultConfig()} }

// Pages is the address of the pages that people sign in on, without a slash at its
// end. known is false where that is where the server listens, which listening says, and
// people may know it by another one.
func (c Config) Pages(listening string) (url string, known bool) {
	if u := c.Portal.Pages.PublicURL; u != "" {
		return strings.TrimSuffix(u, "/"), true
	}
	scheme := "http://"
	if c.TLS != (TLS{}) {
		scheme = "https://"
	}
	return scheme + Dialable(listening), false
}

// HasPages says that people can sign in on the client listener.
func (c Config) HasPages() bool { return c.Auth.Enabled && c.Portal.Enabled }

// Dialable replaces an address that means "every address of this machine" by one that
// a client on it can dial.
func Dialable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}
