package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/llmgw/llmgw/router/endpoint"
)

// trust holds the authorities that endpoints name by file.
type trust struct {
	mu    sync.Mutex
	pools map[string]*x509.CertPool // guarded by mu
}

func newTrust() *trust { return &trust{pools: map[string]*x509.CertPool{}} }

// load reads every file that the specs name. Errors begin with the key's path.
func (t *trust) load(specs []endpoint.Spec) error {
	pools := map[string]*x509.CertPool{}
	var errs []error
	for i, s := range specs {
		if s.CAFile == "" || pools[s.CAFile] != nil {
			continue
		}
		pem, err := os.ReadFile(s.CAFile)
		if err != nil {
			errs = append(errs, fmt.Errorf("endpoints[%d].ca_file: %w", i, err))
			continue
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			errs = append(errs, fmt.Errorf("endpoints[%d].ca_file: %q holds no certificate; want PEM", i, s.CAFile))
			continue
		}
		pools[s.CAFile] = pool
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	t.mu.Lock()
	t.pools = pools
	t.mu.Unlock()
	return nil
}

// config is what to dial TLS with; nil means the system's authorities.
func (t *trust) config(file string) *tls.Config {
	if file == "" {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return &tls.Config{RootCAs: t.pools[file], MinVersion: tls.VersionTLS12}
}
