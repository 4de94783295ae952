package server

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/llmgw/llmgw/fleet/pki"
	"github.com/llmgw/llmgw/router/gateway"
)

// Check returns, as strictyaml.Faults, what the file names and this machine does
// not have: files with keys and certificates, variables with keys, the
// directory for forms. A server would not start on them. It is apart from reading a file, because a file is
// often checked where its secrets are not.
func (l *Loaded) Check() error {
	var errs []error
	errs = append(errs, checkPair("tls", l.TLS), l.AgentTLS.files().check(), l.checkRouters())
	if err := l.Gateway.Router.Core.CheckSpoolDir(); err != nil {
		errs = append(errs, fmt.Errorf("router.%w", err))
	}
	for i, e := range l.Gateway.Endpoints {
		errs = append(errs, checkEndpoint(fmt.Sprintf("endpoints[%d].", i), e))
	}
	return l.result.Locate(errors.Join(errs...))
}

// checkPair reads the files of a section as the server does.
func checkPair(section string, t TLS) error {
	if t == (TLS{}) {
		return nil
	}
	cert, certErr := pki.ReadFile(t.CertFile)
	key, keyErr := pki.ReadFile(t.KeyFile)
	if certErr != nil || keyErr != nil {
		return errors.Join(under(section+".cert_file: ", certErr), under(section+".key_file: ", keyErr))
	}
	if _, err := pki.ParsePair(cert, key); err != nil {
		return fmt.Errorf("%s.cert_file: %s with the key in %s: %w", section, t.CertFile, t.KeyFile, err)
	}
	return nil
}

func checkEndpoint(path string, e gateway.Endpoint) error {
	var errs []error
	if _, set := os.LookupEnv(e.KeyEnv); e.KeyEnv != "" && !set {
		errs = append(errs, fmt.Errorf("%skey_env: the environment variable %q is not set; set it, or leave the key out", path, e.KeyEnv))
	}
	if e.KeyFile != "" {
		if _, err := os.ReadFile(e.KeyFile); err != nil {
			errs = append(errs, fmt.Errorf("%skey_file: %w", path, err))
		}
	}
	if e.CAFile != "" {
		switch pem, err := os.ReadFile(e.CAFile); {
		case err != nil:
			errs = append(errs, fmt.Errorf("%sca_file: %w", path, err))
		case !x509.NewCertPool().AppendCertsFromPEM(pem):
			errs = append(errs, fmt.Errorf("%sca_file: %q holds no certificate; want PEM", path, e.CAFile))
		}
	}
	return errors.Join(errs...)
}
