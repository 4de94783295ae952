package pki

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
)

// ErrNotLoaded is wrapped by the errors of handshakes before Load succeeded, and
// of configurations that need files which were not named.
var ErrNotLoaded = errors.New("pki: there is no certificate")

// ClientAuth is what a listener wants of its clients.
type ClientAuth int

// What a listener may want.
const (
	// ClientsAny: anybody may connect; nobody is asked for a certificate. Such a
	// listener speaks TLS 1.2 too, for clients that are not of the fleet.
	ClientsAny ClientAuth = iota
	// ClientsIfGiven: a certificate that is shown must be good, but none is needed;
	// PeerIdentity tells them apart.
	ClientsIfGiven
	// ClientsRequired: without a good certificate there is no connection.
	ClientsRequired
)

// ServerOptions are what differs between the listeners of a process.
type ServerOptions struct {
	Clients ClientAuth
	// Roles are whose certificates are let in; empty for every role. Where roots of
	// another authority are in the bundle, their certificates need an identity,
	// too.
	Roles []Role
	// NextProtos are the protocols offered by ALPN, the preferred first. Where
	// clients are verified a net/http server needs h2 and http/1.1 here; elsewhere
	// it puts in its own.
	NextProtos []string
}

// Server returns the configuration of a listener. Each handshake uses the newest
// certificate and, of clients, the newest bundle. Where clients are verified only
// TLS 1.3 is spoken and no session is resumed, so that no ticket outlives a root
// that was taken out. An error wraps ErrNotLoaded: a file that it needs was not
// named.
func (r *Reloader) Server(opts ServerOptions) (*tls.Config, error) {
	if r.pair == nil {
		return nil, fmt.Errorf("%w: a listener needs cert_file and key_file", ErrNotLoaded)
	}
	cfg := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     opts.NextProtos,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return r.certificate() },
	}
	if opts.Clients == ClientsAny {
		return cfg, nil
	}
	if r.bundle == nil {
		return nil, fmt.Errorf("%w: a listener that verifies its clients needs ca_file", ErrNotLoaded)
	}
	cfg.MinVersion = tls.VersionTLS13
	cfg.SessionTicketsDisabled = true
	cfg.ClientAuth = tls.RequireAndVerifyClientCert
	if opts.Clients == ClientsIfGiven {
		cfg.ClientAuth = tls.VerifyClientCertIfGiven
	}
	cfg.VerifyConnection = func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 { // ClientAuth has let it in
			return nil
		}
		return checkRole(state, opts.Roles)
	}
	// Connections keep their configuration: one for all of them, until the bundle
	// changes.
	var newest atomic.Pointer[tls.Config]
	cfg.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		roots, err := r.roots()
		if err != nil {
			return nil, err
		}
		if now := newest.Load(); now != nil && now.ClientCAs == roots {
			return now, nil
		}
		now := cfg.Clone()
		now.ClientCAs = roots
		newest.Store(now)
		return now, nil
	}
	return cfg, nil
}

func checkRole(state tls.ConnectionState, roles []Role) error {
	peer, err := PeerIdentity(state)
	if err != nil {
		return err
	}
	if len(roles) > 0 && !slices.Contains(roles, peer.Role) {
		var names []string
		for _, r := range roles {
			names = append(names, r.String())
		}
		return fmt.Errorf("%w: %s; want a %s", ErrWrongRole, peer, strings.Join(names, " or "))
	}
	return nil
}

// Client returns the configuration for one connection to a host, a DNS name or
// an address, which must stand in the server's certificate. Ask for it anew for
// each connection, or use DialTLS: it holds what was newest when it was made. The
// certificate is shown if there is one. With a bundle only TLS 1.3 is spoken, no
// session is resumed, and a certificate of a node or router is not taken for a
// server's.
func (r *Reloader) Client(host string, nextProtos ...string) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host, NextProtos: nextProtos}
	if r.bundle != nil {
		roots, err := r.roots()
		if err != nil {
			return nil, err
		}
		cfg.MinVersion = tls.VersionTLS13
		cfg.RootCAs = roots
		cfg.VerifyConnection = checkServer
	}
	if r.pair != nil {
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return r.certificate() }
	}
	return cfg, nil
}

// checkServer refuses a server that says it is something else. One without an
// identity is of an authority that knows no roles, and its name was verified.
func checkServer(state tls.ConnectionState) error {
	peer, err := PeerIdentity(state)
	switch {
	case errors.Is(err, ErrNoIdentity):
		return nil
	case err != nil:
		return err
	case peer.Role != RoleServer:
		return fmt.Errorf("%w: %s; want a server", ErrWrongRole, peer)
	}
	return nil
}

// DialFunc opens a connection, as net.Dialer.DialContext does.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// DialTLS returns what opens a connection and completes the handshake with the
// newest certificate and bundle: for http.Transport.DialTLSContext, with h2 among
// nextProtos and ForceAttemptHTTP2 for HTTP/2. The address is host:port. A nil
// dial is that of a zero net.Dialer.
func (r *Reloader) DialTLS(dial DialFunc, nextProtos ...string) DialFunc {
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		cfg, err := r.Client(host, nextProtos...)
		if err != nil {
			return nil, err
		}
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		conn := tls.Client(raw, cfg)
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			return nil, fmt.Errorf("pki: handshake with %s: %w", address, err)
		}
		return conn, nil
	}
}

func (r *Reloader) certificate() (*tls.Certificate, error) {
	pair, ok := r.pair.get()
	if !ok {
		return nil, fmt.Errorf("%w: %s was not read yet, which Reloader.Load does", ErrNotLoaded, r.cfg.CertFile)
	}
	return pair, nil
}

func (r *Reloader) roots() (*x509.CertPool, error) {
	bundle, ok := r.bundle.get()
	if !ok {
		return nil, fmt.Errorf("%w: %s was not read yet, which Reloader.Load does", ErrNotLoaded, r.cfg.CAFile)
	}
	return bundle.pool, nil
}
