package control_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/llmgw/llmgw/fleet/control"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// certifier makes certificates for a test.
type certifier struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
	next int64
}

func newCertifier(t testing.TB) *certifier {
	c := &certifier{t: t, pool: x509.NewCertPool(), next: 1}
	template := c.template("root")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	c.key = c.newKey()
	der, err := x509.CreateCertificate(rand.Reader, template, template, c.key.Public(), c.key)
	if err != nil {
		t.Fatal(err)
	}
	if c.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	c.pool.AddCert(c.cert)
	return c
}

func (c *certifier) template(name string) *x509.Certificate {
	c.next++
	return &x509.Certificate{
		SerialNumber: big.NewInt(c.next), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
}

func (c *certifier) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	return key
}

func (c *certifier) issue(name string) tls.Certificate {
	key := c.newKey()
	der, err := x509.CreateCertificate(rand.Reader, c.template(name), c.cert, key.Public(), c.key)
	if err != nil {
		c.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// lines is a log that tests read.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Over sockets and TLS the certificate's name has to be the node's id.
func TestCertificatesProveNodes(t *testing.T) {
	var log lines
	p, err := control.New(control.DefaultConfig(), control.Deps{
		Authority: leader(),
		Logger:    slog.New(slog.NewTextHandler(&log, nil)),
		Verify: func(conn *tls.ConnectionState, node string) error {
			if name := conn.PeerCertificates[0].Subject.CommonName; name != node {
				return errors.New("its name is another")
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	certs := newCertifier(t)
	address := serveTLS(t, p, certs)
	connectAs := func(certificate []tls.Certificate, node string) (*fleetpb.ConnectResponse, error) {
		stream, hangUp := dialTLS(t, address, certs, certificate)
		defer hangUp()
		_ = stream.Send(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Hello{Hello: hello(node)}})
		return stream.Receive()
	}

	if got, err := connectAs([]tls.Certificate{certs.issue("n1")}, "n1"); err != nil || got.GetWelcome() == nil {
		t.Errorf("its own certificate: %v, %v", got, err)
	}
	if _, err := connectAs([]tls.Certificate{certs.issue("n2")}, "n1"); connect.CodeOf(err) != connect.CodePermissionDenied ||
		!strings.Contains(err.Error(), `the certificate of "n2" (serial 5) does not prove that the agent is node "n1": its name is another`) {
		t.Errorf("another's certificate: %v", err)
	}
	if got := log.String(); !strings.Contains(got, `node=n1`) || !strings.Contains(got, `certificate="\"n2\" (serial 5)"`) || !strings.Contains(got, "reason=identity") {
		t.Errorf("the log does not name both: %s", got)
	}
	if _, err := connectAs(nil, "n1"); connect.CodeOf(err) != connect.CodeUnauthenticated || !strings.Contains(err.Error(), `claims to be node "n1" and shows no certificate`) {
		t.Errorf("no certificate: %v", err)
	}
}

// serveTLS runs a plane on a socket until the test ends.
func serveTLS(t testing.TB, p *control.Plane, certs *certifier) (address string) {
	t.Helper()
	server := &http.Server{} //nolint:gosec // Configure sets the timeouts
	mux := http.NewServeMux()
	mux.Handle(p.Handler())
	server.Handler = mux
	control.Configure(server)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = p.Run(ctx) })
	listener := control.NewListener(l, certs.server())
	wg.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		cancel()
		_ = server.Close()
		wg.Wait()
	})
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if at, _ := p.Accession(); !at.IsZero() {
			return l.Addr().String()
		}
		if time.Now().After(deadline) {
			t.Fatal("the plane does not run")
		}
	}
}

type clientStream = connect.BidiStreamForClientSimple[fleetpb.ConnectRequest, fleetpb.ConnectResponse]

func dialTLS(t testing.TB, address string, certs *certifier, certificate []tls.Certificate) (stream *clientStream, hangUp func()) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: certs.pool, Certificates: certificate, MinVersion: tls.VersionTLS13}, Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP2(true)
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := fleetpb.NewAgentServiceClient(&http.Client{Transport: transport}, "https://"+address).Connect(ctx)
	if err != nil {
		t.Fatal(fmt.Errorf("connect: %w", err))
	}
	return stream, func() {
		cancel()
		_ = stream.CloseRequest()
		_ = stream.CloseResponse()
		transport.CloseIdleConnections()
	}
}

// server is how a control plane proves itself.
func (c *certifier) server() *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{c.issue("server")}, ClientCAs: c.pool, ClientAuth: tls.VerifyClientCertIfGiven, MinVersion: tls.VersionTLS13,
		NextProtos: []string{"h2", "http/1.1"},
	}
}
