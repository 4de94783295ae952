package pki

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config is which files hold a certificate. Start from DefaultConfig.
type Config struct {
	// CertFile is a PEM file with the certificate and, after it, its chain.
	// Default "", no certificate; set it with KeyFile or not at all.
	CertFile string `yaml:"cert_file"`
	// KeyFile is the PEM file with its private key. Default "".
	KeyFile string `yaml:"key_file"`
	// CAFile is a PEM file with the roots that peers are held against, and no
	// others. Default "": of servers the roots of the operating system, of clients
	// none, so that none can be asked for a certificate.
	CAFile string `yaml:"ca_file"`
	// Poll is how often the files are looked at. Default 10s; positive. Renewal
	// comes weeks before expiry, so seconds do not matter; a watch on the directory
	// would miss files that are swapped by a symbolic link, as Kubernetes does.
	Poll time.Duration `yaml:"poll"`
}

// DefaultConfig returns the defaults. At least a certificate or a bundle is still
// to be named.
func DefaultConfig() Config { return Config{Poll: 10 * time.Second} }

// Validate returns every problem, each beginning with its key.
func (c Config) Validate() error {
	var errs []error
	switch {
	case c.CertFile != "" && c.KeyFile == "":
		errs = append(errs, fmt.Errorf("key_file: %q is empty, but cert_file is set; set both or none", c.KeyFile))
	case c.CertFile == "" && c.KeyFile != "":
		errs = append(errs, fmt.Errorf("cert_file: %q is empty, but key_file is set; set both or none", c.CertFile))
	case c.CertFile == "" && c.CAFile == "":
		errs = append(errs, errors.New("cert_file: neither it nor ca_file is set; set one of them"))
	}
	if c.Poll <= 0 {
		errs = append(errs, fmt.Errorf("poll: %v is not positive; want e.g. 10s", c.Poll))
	}
	return errors.Join(errs...)
}

// Deps are a Reloader's collaborators.
type Deps struct {
	// Use is what the certificate is for: the label of its metrics, such as
	// client_listener. Required where there is a Registerer, and unique in it.
	Use        string
	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil leaves metrics unregistered
}

// Reloader holds a certificate with its key, a bundle of roots, or both, and
// replaces them when their files change. The pair and the bundle are replaced
// each by itself, and only by what is whole: while a new certificate and an old
// key stand side by side, while a file is unreadable, damaged or away, and while
// the new certificate is not valid yet or any more but the old one is, the old one
// is used.
//
// To take a certificate out of a fleet whose key was lost: make a new authority,
// put its root beside the old one into every bundle, renew what is to stay by the
// new one, and take the old root out. From then on handshakes with the lost key
// fail; connections that were open before are for their owner to end.
//
// All methods may be called concurrently.
type Reloader struct {
	cfg    Config
	log    *slog.Logger
	pair   *watched[*tls.Certificate] // nil without
	bundle *watched[*roots]           // nil without
}

// NewReloader validates cfg and returns a Reloader. It reads nothing: call Load
// before the first handshake, and Run.
func NewReloader(cfg Config, deps Deps) (*Reloader, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("pki: %w", err)
	}
	r := &Reloader{cfg: cfg, log: deps.Logger}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if cfg.CertFile != "" {
		r.pair = &watched[*tls.Certificate]{
			what: "certificate", files: []string{cfg.CertFile, cfg.KeyFile},
			parse:   func(d [][]byte) (*tls.Certificate, error) { return ParsePair(d[0], d[1]) },
			expires: func(p *tls.Certificate) time.Time { return p.Leaf.NotAfter },
			prefer:  preferValid,
		}
	}
	if cfg.CAFile != "" {
		r.bundle = &watched[*roots]{
			what: "bundle of authorities", files: []string{cfg.CAFile},
			parse:   func(d [][]byte) (*roots, error) { return newRoots(d[0]) },
			expires: func(b *roots) time.Time { return b.firstExpiry },
			prefer:  func(_ time.Time, _, _ *roots) error { return nil },
		}
	}
	if deps.Registerer != nil {
		if deps.Use == "" {
			return nil, errors.New("pki: Deps.Use is required with a Registerer, and empty")
		}
		if err := deps.Registerer.Register(newCollector(deps.Use, r)); err != nil {
			return nil, fmt.Errorf("pki: register the metrics of %s: %w", deps.Use, err)
		}
	}
	return r, nil
}

// preferValid refuses a new pair that cannot be used now in place of one that
// can: a certificate for tomorrow, or the wrong file.
func preferValid(now time.Time, old, next *tls.Certificate) error {
	valid := func(c *x509.Certificate) bool { return !now.Before(c.NotBefore) && !now.After(c.NotAfter) }
	if valid(old.Leaf) && !valid(next.Leaf) {
		return fmt.Errorf("pki: it is valid from %s to %s, which now is not", stamp(next.Leaf.NotBefore), stamp(next.Leaf.NotAfter))
	}
	return nil
}

// roots are those of a bundle.
type roots struct {
	pool        *x509.CertPool
	firstExpiry time.Time
}

func newRoots(data []byte) (*roots, error) {
	certs, err := ParseBundle(data)
	if err != nil {
		return nil, err
	}
	first := slices.MinFunc(certs, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
	return &roots{pool: pool(certs), firstExpiry: first.NotAfter}, nil
}

// Load reads the files and reports whether they held something new. What cannot
// be used leaves things as they are, and errors of both parts are joined.
func (r *Reloader) Load() (changed bool, err error) {
	pair, bundle := r.pair.look(), r.bundle.look()
	return pair.changed || bundle.changed, errors.Join(pair.err, bundle.err)
}

// Run looks at the files until ctx is done, then returns nil. Call it once. What
// cannot be used is logged once, and only when it is still so at the next look,
// since a renewal may be halfway.
func (r *Reloader) Run(ctx context.Context) error {
	tick := time.NewTicker(r.cfg.Poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			r.pair.poll(r.log)
			r.bundle.poll(r.log)
		}
	}
}

// Info returns what the certificate in use says; false if there is none.
func (r *Reloader) Info() (Info, bool) {
	pair, ok := r.pair.get()
	if !ok {
		return Info{}, false
	}
	return Describe(pair.Leaf), true
}
