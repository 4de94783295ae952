package pki_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/fleet/pki"
)

// files writes a pair and a bundle, either of which may be empty, and returns
// what names them.
func files(t testing.TB, pair pki.Pair, roots ...*pki.Authority) pki.Config {
	t.Helper()
	dir := t.TempDir()
	cfg := pki.DefaultConfig()
	if pair.Leaf != nil {
		cfg.CertFile, cfg.KeyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
		write(t, cfg.CertFile, pair.Cert)
		write(t, cfg.KeyFile, pair.Key)
	}
	if len(roots) > 0 {
		cfg.CAFile = filepath.Join(dir, "ca.crt")
		write(t, cfg.CAFile, bundle(t, roots...))
	}
	return cfg
}

func bundle(t testing.TB, roots ...*pki.Authority) []byte {
	t.Helper()
	var out []byte
	for _, a := range roots {
		pair, err := a.Pair()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, pair.Cert...)
	}
	return out
}

func write(t testing.TB, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func loaded(t testing.TB, cfg pki.Config) *pki.Reloader {
	t.Helper()
	r, err := pki.NewReloader(cfg, pki.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	if changed, err := r.Load(); err != nil || !changed {
		t.Fatalf("load: %v, %v", changed, err)
	}
	return r
}

func serverConfig(t testing.TB, r *pki.Reloader, opts pki.ServerOptions) *tls.Config {
	t.Helper()
	cfg, err := r.Server(opts)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func clientConfig(t testing.TB, r *pki.Reloader, host string) *tls.Config {
	t.Helper()
	cfg, err := r.Client(host)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// shake connects a client to a server in memory and returns how either fared,
// and what the server knows of the client. In TLS 1.3 a client hears of its own
// refusal only when it reads.
func shake(server, client *tls.Config) (state tls.ConnectionState, serverErr, clientErr error) {
	a, b := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer a.Close()
		conn := tls.Server(a, server)
		if serverErr = conn.Handshake(); serverErr == nil {
			state = conn.ConnectionState()
			_, serverErr = conn.Write([]byte("hello"))
		}
	}()
	conn := tls.Client(b, client)
	_, clientErr = io.ReadFull(conn, make([]byte, 5))
	_ = b.Close()
	<-done
	return state, serverErr, clientErr
}

func TestHandshake(t *testing.T) {
	const host = "10.0.0.5" // dialled by its bare address
	const year = 365 * 24 * time.Hour
	prod, other := newAuthority(t, "prod"), newAuthority(t, "prod")
	serverPair := issue(t, prod, 0, server("cp-1", host, "gw.example"))
	nodePair := issue(t, prod, 0, node("gpu-1"))
	posing := foreign(t, prod, "spiffe://prod/node/gpu-1", "gpu-1", host)
	tests := []struct {
		name      string
		server    pki.Pair
		client    pki.Pair
		trust     *pki.Authority // the client's; nil: prod
		host      string         // "": the address
		opts      pki.ServerOptions
		serverErr string // "": the handshake succeeds
		clientErr string
		is        error // of the side that refuses
	}{
		{name: "a node", server: serverPair, client: nodePair, opts: pki.ServerOptions{Clients: pki.ClientsRequired, Roles: []pki.Role{pki.RoleNode}}},
		{name: "a node at a name", server: serverPair, client: nodePair, host: "gw.example", opts: pki.ServerOptions{Clients: pki.ClientsRequired}},
		{name: "a clock that is 20 minutes behind", server: serverPair, client: issue(t, prod, -20*time.Minute, node("gpu-1")), opts: pki.ServerOptions{Clients: pki.ClientsRequired}},
		{name: "nobody where anybody may", server: serverPair, opts: pki.ServerOptions{Clients: pki.ClientsIfGiven}},
		{name: "a node where none is asked", server: serverPair, client: nodePair},
		{name: "a server that follows another", server: serverPair, client: serverPair, opts: pki.ServerOptions{Clients: pki.ClientsRequired, Roles: []pki.Role{pki.RoleRouter, pki.RoleServer}}},

		{
			name: "no certificate", server: serverPair, opts: pki.ServerOptions{Clients: pki.ClientsRequired},
			serverErr: "client didn't provide a certificate", clientErr: "certificate required",
		},
		{
			name: "a node of another authority", server: serverPair, client: issue(t, other, 0, node("gpu-1")), opts: pki.ServerOptions{Clients: pki.ClientsRequired},
			serverErr: "unknown authority", clientErr: "unknown certificate authority",
		},
		{
			name: "the same where none is needed", server: serverPair, client: issue(t, other, 0, node("gpu-1")), opts: pki.ServerOptions{Clients: pki.ClientsIfGiven},
			serverErr: "unknown authority", clientErr: "unknown certificate authority",
		},
		{
			name: "a node that has expired", server: serverPair, client: issue(t, prod, year+time.Minute, node("gpu-1")), opts: pki.ServerOptions{Clients: pki.ClientsRequired},
			serverErr: "expired", clientErr: "expired certificate",
		},
		{
			name: "a clock that is too far behind", server: serverPair, client: issue(t, prod, -31*time.Minute, node("gpu-1")), opts: pki.ServerOptions{Clients: pki.ClientsRequired},
			serverErr: "not yet valid", clientErr: "expired certificate",
		},
		{
			name: "a node as router", server: serverPair, client: nodePair, opts: pki.ServerOptions{Clients: pki.ClientsRequired, Roles: []pki.Role{pki.RoleRouter, pki.RoleServer}},
			serverErr: "node gpu-1 of cluster prod; want a router or server", clientErr: "bad certificate", is: pki.ErrWrongRole,
		},
		{
			name: "a server as node", server: serverPair, client: serverPair, opts: pki.ServerOptions{Clients: pki.ClientsRequired, Roles: []pki.Role{pki.RoleNode}},
			serverErr: "server cp-1 of cluster prod; want a node", clientErr: "bad certificate", is: pki.ErrWrongRole,
		},
		{
			name: "a certificate that says nothing", server: serverPair, client: foreign(t, prod, "https://prod/node/gpu-1", "gpu-1", ""), opts: pki.ServerOptions{Clients: pki.ClientsRequired},
			serverErr: "says nothing of a cluster", clientErr: "bad certificate", is: pki.ErrNoIdentity,
		},
		{
			name: "two names in one certificate", server: serverPair, client: foreign(t, prod, "spiffe://prod/node/gpu-2", "gpu-1", ""), opts: pki.ServerOptions{Clients: pki.ClientsRequired},
			serverErr: "another id in its URI", clientErr: "bad certificate", is: pki.ErrNoIdentity,
		},
		{
			name: "a cluster that is not the authority's", server: serverPair, client: foreign(t, prod, "spiffe://test/node/gpu-1", "gpu-1", ""), opts: pki.ServerOptions{Clients: pki.ClientsRequired},
			serverErr: "issued by the authority of cluster prod", clientErr: "bad certificate", is: pki.ErrWrongCluster,
		},
		{
			name: "a server of another authority", server: serverPair, client: nodePair, trust: other, opts: pki.ServerOptions{Clients: pki.ClientsRequired},
			serverErr: "bad certificate", clientErr: "unknown authority",
		},
		{
			name: "a server without the address that is dialled", server: issue(t, prod, 0, server("cp-1", "gw.example", "10.0.0.6")), client: nodePair, opts: pki.ServerOptions{Clients: pki.ClientsRequired},
			serverErr: "bad certificate", clientErr: "certificate is valid for 10.0.0.6, not 10.0.0.5",
		},
		{
			name: "a common name alone", server: issue(t, prod, 0, server("gw.example", "10.0.0.6")), client: nodePair, host: "gw.example", opts: pki.ServerOptions{Clients: pki.ClientsRequired},
			serverErr: "bad certificate", clientErr: "not valid for any names, but wanted to match gw.example",
		},
		{
			name: "a server that has expired", server: issue(t, prod, year+time.Minute, server("cp-1", host)), client: nodePair, opts: pki.ServerOptions{Clients: pki.ClientsRequired},
			serverErr: "bad certificate", clientErr: "has expired",
		},
		{
			name: "a node's certificate at a server", server: nodePair, client: nodePair, opts: pki.ServerOptions{Clients: pki.ClientsRequired},
			serverErr: "bad certificate", clientErr: "doesn't contain any IP SANs",
		},
		{
			name: "the same with a name and both usages", server: posing, client: nodePair, opts: pki.ServerOptions{Clients: pki.ClientsRequired},
			serverErr: "bad certificate", clientErr: "node gpu-1 of cluster prod; want a server", is: pki.ErrWrongRole,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.trust == nil {
				tt.trust = prod
			}
			if tt.host == "" {
				tt.host = host
			}
			serverCfg := serverConfig(t, loaded(t, files(t, tt.server, prod)), tt.opts)
			client := loaded(t, files(t, tt.client, tt.trust))
			state, serverErr, clientErr := shake(serverCfg, clientConfig(t, client, tt.host))
			if tt.serverErr == "" {
				if serverErr != nil || clientErr != nil {
					t.Fatalf("server %v, client %v", serverErr, clientErr)
				}
				shown := tt.client.Leaf != nil && tt.opts.Clients != pki.ClientsAny
				if _, err := pki.PeerIdentity(state); (err == nil) != shown {
					t.Errorf("identity of the client: %v", err)
				}
				return
			}
			if serverErr == nil || !strings.Contains(serverErr.Error(), tt.serverErr) {
				t.Errorf("server: %v, want %q", serverErr, tt.serverErr)
			}
			if clientErr == nil || !strings.Contains(clientErr.Error(), tt.clientErr) {
				t.Errorf("client: %v, want %q", clientErr, tt.clientErr)
			}
			if tt.is != nil && !errors.Is(serverErr, tt.is) && !errors.Is(clientErr, tt.is) {
				t.Errorf("neither %v nor %v is %v", serverErr, clientErr, tt.is)
			}
		})
	}
}

// foreign issues, by an authority's key, what Issue would not: any URI for any
// common name, with both usages.
func foreign(t *testing.T, a *pki.Authority, uri, name, address string) pki.Pair {
	t.Helper()
	root, err := a.Pair()
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.ParsePair(root.Cert, root.Key)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(uri)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, URIs: []*url.URL{u}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	if address != "" {
		template.IPAddresses = []net.IP{net.ParseIP(address)}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Certificate(), &key.PublicKey, ca.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pki.Pair{
		Leaf: leaf,
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
	}
}

// Where clients are verified nothing is resumed, so that each connection is held
// against the bundle as it is then; and nothing older than TLS 1.3 is spoken.
func TestNoSessionOutlivesTrust(t *testing.T) {
	prod, next := newAuthority(t, "prod"), newAuthority(t, "prod")
	files := files(t, issue(t, prod, 0, server("cp-1", "gw.example")), prod, next)
	r := loaded(t, files)
	serverCfg := serverConfig(t, r, pki.ServerOptions{Clients: pki.ClientsRequired})
	own := issue(t, prod, 0, node("gpu-1"))
	nodePair, err := pki.ParsePair(own.Cert, own.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(prod.Certificate())
	client := &tls.Config{
		ServerName: "gw.example", RootCAs: roots, Certificates: []tls.Certificate{*nodePair},
		ClientSessionCache: tls.NewLRUClientSessionCache(8), // it would resume
	}
	for range 3 {
		state, serverErr, clientErr := shake(serverCfg, client)
		if serverErr != nil || clientErr != nil || state.DidResume || state.Version != tls.VersionTLS13 {
			t.Fatalf("server %v, client %v, resumed %v, version %x", serverErr, clientErr, state.DidResume, state.Version)
		}
	}
	one, err1 := serverCfg.GetConfigForClient(nil)
	two, err2 := serverCfg.GetConfigForClient(nil)
	if err := errors.Join(err1, err2); err != nil || one != two {
		t.Errorf("each connection has a configuration of its own, %v", err)
	}
	old := client.Clone()
	old.MaxVersion = tls.VersionTLS12
	if _, serverErr, _ := shake(serverCfg, old); serverErr == nil || !strings.Contains(serverErr.Error(), "version") {
		t.Errorf("TLS 1.2: %v, want a refusal", serverErr)
	}
	write(t, files.CAFile, bundle(t, next))
	if changed, err := r.Load(); err != nil || !changed {
		t.Fatalf("load: %v, %v", changed, err)
	}
	if _, serverErr, clientErr := shake(serverCfg, client); serverErr == nil || clientErr == nil {
		t.Error("a node whose authority was taken out is let in")
	}
}

// Listeners that ask nobody are for clients of every age.
func TestAnyClientMaySpeakTLS12(t *testing.T) {
	prod := newAuthority(t, "prod")
	serverCfg := serverConfig(t, loaded(t, files(t, issue(t, prod, 0, server("cp-1", "gw.example")))), pki.ServerOptions{})
	client := clientConfig(t, loaded(t, files(t, pki.Pair{}, prod)), "gw.example")
	client.MinVersion, client.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if state, serverErr, clientErr := shake(serverCfg, client); serverErr != nil || clientErr != nil || state.Version != tls.VersionTLS12 {
		t.Errorf("server %v, client %v, version %x", serverErr, clientErr, state.Version)
	}
}

func TestConfigurationsNeedTheirFiles(t *testing.T) {
	prod := newAuthority(t, "prod")
	pair := issue(t, prod, 0, server("cp-1", "gw.example"))
	if _, err := loaded(t, files(t, pki.Pair{}, prod)).Server(pki.ServerOptions{}); !errors.Is(err, pki.ErrNotLoaded) || !strings.Contains(err.Error(), "cert_file") {
		t.Errorf("a listener without a certificate: %v", err)
	}
	if _, err := loaded(t, files(t, pair)).Server(pki.ServerOptions{Clients: pki.ClientsIfGiven}); !errors.Is(err, pki.ErrNotLoaded) || !strings.Contains(err.Error(), "ca_file") {
		t.Errorf("a listener without roots: %v", err)
	}
	early, err := pki.NewReloader(files(t, pair, prod), pki.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := early.Client("gw.example"); !errors.Is(err, pki.ErrNotLoaded) {
		t.Errorf("a client before Load: %v", err)
	}
	cfg := serverConfig(t, early, pki.ServerOptions{Clients: pki.ClientsRequired})
	client := clientConfig(t, loaded(t, files(t, pair, prod)), "gw.example")
	if _, serverErr, _ := shake(cfg, client); !errors.Is(serverErr, pki.ErrNotLoaded) {
		t.Errorf("a handshake before Load: %v", serverErr)
	}
}

// DialTLS is what an http.Transport needs for HTTP/2 with the newest files.
func TestDialTLS(t *testing.T) {
	prod := newAuthority(t, "prod")
	serverCfg := serverConfig(t, loaded(t, files(t, issue(t, prod, 0, server("cp-1", "127.0.0.1")), prod)),
		pki.ServerOptions{Clients: pki.ClientsRequired, NextProtos: []string{"h2", "http/1.1"}})
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{
		TLSConfig: serverCfg, ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			identity, err := pki.CheckNode(*r.TLS, "gpu-1")
			if err != nil {
				http.Error(w, err.Error(), http.StatusForbidden)
				return
			}
			_, _ = io.WriteString(w, r.Proto+" "+identity.String())
		}),
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeTLS(l, "", "") }()
	defer func() {
		_ = srv.Close()
		<-served
	}()
	client := loaded(t, files(t, issue(t, prod, 0, node("gpu-1")), prod))
	transport := &http.Transport{DialTLSContext: client.DialTLS(nil, "h2", "http/1.1"), ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+l.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "HTTP/2.0 node gpu-1 of cluster prod" {
		t.Errorf("answer %q, %v", body, err)
	}
	failing := errors.New("no network")
	dial := client.DialTLS(func(context.Context, string, string) (net.Conn, error) { return nil, failing })
	if _, err := dial(t.Context(), "tcp", "gw.example:1"); !errors.Is(err, failing) {
		t.Errorf("error %v, want the dialler's", err)
	}
	if _, err := dial(t.Context(), "tcp", "gw.example"); err == nil {
		t.Error("an address without a port is dialled")
	}
}
