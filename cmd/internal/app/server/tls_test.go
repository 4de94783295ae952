package server

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	config "github.com/llmgw/llmgw/cmd/internal/config/server"
)

// writeCertificate writes a self-signed pair for 127.0.0.1 over files.
func writeCertificate(t *testing.T, files config.TLS, name string, notAfter time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: notAfter,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{files.CertFile: {Type: "CERTIFICATE", Bytes: cert}, files.KeyFile: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func testFiles(t *testing.T) config.TLS {
	dir := t.TempDir()
	return config.TLS{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
}

func testMetrics(t *testing.T) *metrics {
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestTLSServesHTTP2(t *testing.T) {
	cfg := testConfig()
	cfg.TLS = testFiles(t)
	writeCertificate(t, cfg.TLS, "one", time.Now().Add(time.Hour))
	s := start(t, cfg, newFakePlane(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	pool := x509.NewCertPool()
	pemBytes, err := os.ReadFile(cfg.TLS.CertFile)
	if err != nil || !pool.AppendCertsFromPEM(pemBytes) {
		t.Fatalf("certificate: %v", err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.Client+"/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "HTTP/2.0" {
		t.Errorf("answer %q, %v; want HTTP/2.0", body, err)
	}
	if _, body := get(t, "http://"+s.Admin+"/metrics"); !strings.Contains(body, `llmgw_pki_certificate_expiry_timestamp_seconds{use="client_listener"}`) {
		t.Error("the certificate's expiry is not exported")
	}
}

// A renewed certificate is served when the configuration is reloaded, without a
// restart; a broken one refuses the reload and changes nothing.
func TestCertificateIsReadAgain(t *testing.T) {
	files := testFiles(t)
	writeCertificate(t, files, "one", time.Now().Add(time.Hour))
	c, err := newCertificate(files, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	cfg := testConfig()
	cfg.TLS = files
	plane := newFakePlane(nil)
	var out bytes.Buffer
	r := &reloader{
		read: func() (config.Config, error) { return cfg, nil }, apply: plane.Reload, level: new(slog.LevelVar),
		cert: c, log: slog.New(slog.NewTextHandler(&out, nil)), metrics: testMetrics(t), running: cfg,
	}
	served := func() string {
		t.Helper()
		tlsConfig, err := c.tlsConfig()
		if err != nil {
			t.Fatal(err)
		}
		cert, err := tlsConfig.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return cert.Leaf.Subject.CommonName
	}
	writeCertificate(t, files, "two", time.Now().Add(2*time.Hour))
	if err := r.tryReload(); err != nil || served() != "two" || !strings.Contains(out.String(), "read anew") {
		t.Errorf("served %s after a renewal and a reload, %v; want two\n%s", served(), err, &out)
	}
	if err := os.WriteFile(files.CertFile, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.tryReload(); err == nil || served() != "two" || len(plane.reloaded) != 1 {
		t.Errorf("served %s after a broken renewal, error %v, %d reloads; want two, an error, 1", served(), err, len(plane.reloaded))
	}
}

// One that has expired is served, and the log says so.
func TestExpiredCertificateIsTold(t *testing.T) {
	files := testFiles(t)
	writeCertificate(t, files, "one", time.Now().Add(-time.Hour))
	var out bytes.Buffer
	if _, err := newCertificate(files, slog.New(slog.NewTextHandler(&out, nil)), prometheus.NewRegistry()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "has expired") || !strings.Contains(out.String(), files.CertFile) {
		t.Errorf("log %q", &out)
	}
}

func TestUnusableCertificateEndsTheStart(t *testing.T) {
	cfg := testConfig()
	cfg.TLS = testFiles(t)
	err := runWith(t.Context(), Options{Config: cfg, Logger: slog.New(slog.DiscardHandler)}, newFakePlane(nil).module())
	if err == nil || !strings.Contains(err.Error(), "cert.pem: no such file") || strings.Contains(err.Error(), "constructor") {
		t.Errorf("error %q; want the missing file and nothing about the wiring", err)
	}
}
