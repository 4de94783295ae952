package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	config "github.com/llmgw/llmgw/cmd/internal/config/server"
	"github.com/llmgw/llmgw/fleet/pki"
)

// certificate is that of the client listener, read again when its files change.
// The zero one means plain HTTP.
type certificate struct{ reloader *pki.Reloader }

// newCertificate reads the files once. One that has expired is served and told
// of: that a client sees why is better than no server.
func newCertificate(files config.TLS, log *slog.Logger, reg prometheus.Registerer) (certificate, error) {
	if files == (config.TLS{}) {
		return certificate{}, nil
	}
	cfg := pki.DefaultConfig()
	cfg.CertFile, cfg.KeyFile = files.CertFile, files.KeyFile
	r, err := pki.NewReloader(cfg, pki.Deps{Use: "client_listener", Logger: log, Registerer: reg})
	if err != nil {
		return certificate{}, err
	}
	if _, err := r.Load(); err != nil {
		return certificate{}, fmt.Errorf("tls: %w", err)
	}
	if info, ok := r.Info(); ok && time.Now().After(info.NotAfter) {
		log.Error("the certificate of the client listener has expired, and clients refuse it; replace its files, and it is read again", "file", files.CertFile, "expired", info.NotAfter)
	}
	return certificate{r}, nil
}

// load reads the files again, if there are any, and reports whether they held
// something new.
func (c certificate) load() (changed bool, err error) {
	if c.reloader == nil {
		return false, nil
	}
	return c.reloader.Load()
}

// run looks at the files, if there are any, until ctx is done.
func (c certificate) run(ctx context.Context) error {
	if c.reloader == nil {
		<-ctx.Done()
		return nil
	}
	return c.reloader.Run(ctx)
}

// tlsConfig returns nil for plain HTTP.
func (c certificate) tlsConfig() (*tls.Config, error) {
	if c.reloader == nil {
		return nil, nil
	}
	return c.reloader.Server(pki.ServerOptions{Clients: pki.ClientsAny})
}
