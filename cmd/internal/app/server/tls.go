package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	config "github.com/llmgw/llmgw/cmd/internal/config/server"
)

// certificatePoll is how often the files are looked at. Renewal comes weeks
// before expiry, so seconds do not matter; a watch on the directory would miss
// files that are swapped by a symbolic link, as Kubernetes does.
const certificatePoll = 10 * time.Second

// certificate is a certificate that is read again when its files change.
type certificate struct {
	files   config.TLS
	log     *slog.Logger
	metrics *metrics
	current atomic.Pointer[tls.Certificate]

	mu        sync.Mutex
	cert, key []byte // as last looked at; guarded by mu
}

// newCertificate reads the files once. It returns nil without files.
func newCertificate(files config.TLS, logger *slog.Logger, m *metrics) (*certificate, error) {
	if files == (config.TLS{}) {
		return nil, nil
	}
	c := &certificate{files: files, log: logger, metrics: m}
	if _, err := c.load(); err != nil {
		return nil, err
	}
	return c, nil
}

// load reads the files and reports whether they held a new certificate.
func (c *certificate) load() (bool, error) {
	cert, certErr := os.ReadFile(c.files.CertFile)
	key, keyErr := os.ReadFile(c.files.KeyFile)
	if err := errors.Join(certErr, keyErr); err != nil {
		return false, fmt.Errorf("tls: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if bytes.Equal(cert, c.cert) && bytes.Equal(key, c.key) {
		return false, nil
	}
	// Remembered even if they do not fit together, so that one bad pair is
	// reported once.
	c.cert, c.key = cert, key
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return false, fmt.Errorf("tls: %s and %s: %w", c.files.CertFile, c.files.KeyFile, err)
	}
	c.current.Store(&pair)
	c.metrics.certificateExpiry.Set(float64(pair.Leaf.NotAfter.Unix()))
	return true, nil
}

// run looks at the files, if there are any, until ctx is done. Files that cannot be read leave the
// certificate as it is.
func (c *certificate) run(ctx context.Context) error {
	if c == nil {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(certificatePoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		switch renewed, err := c.load(); {
		case err != nil:
			c.log.Error("the new certificate is not usable; the old one is kept", "err", err)
		case renewed:
			c.log.Info("certificate renewed", "expires", c.current.Load().Leaf.NotAfter)
		}
	}
}

// tlsConfig returns nil for a nil certificate, which means plain HTTP.
func (c *certificate) tlsConfig() *tls.Config {
	if c == nil {
		return nil
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}
