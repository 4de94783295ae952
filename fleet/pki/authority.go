package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"time"
)

// Lifetimes of certificates, counted from when they are issued.
const (
	DefaultAuthorityLifetime = 10 * 365 * day
	MinAuthorityLifetime     = day
	MaxAuthorityLifetime     = 30 * 365 * day
	// DefaultLifetime is that of a node's, router's or server's certificate.
	DefaultLifetime = 365 * day
	MinLifetime     = time.Minute
	// MaxLifetime is the longest that Apple's systems accept of a server.
	MaxLifetime = 825 * day

	day = 24 * time.Hour
)

// Skew is how long before it is issued a certificate begins to be valid: enough
// for two clocks that are wrong by ten minutes each, in opposite directions.
const Skew = 30 * time.Minute

// Errors of an authority.
var (
	// ErrLifetime: a lifetime is out of range, or beyond the authority's own.
	ErrLifetime = errors.New("pki: lifetime")
	// ErrNoHosts: a server's certificate was to be issued without a name.
	ErrNoHosts = errors.New("pki: a server needs every name and address under which it is dialled, and none was given")
	// ErrNotOurs: a certificate is of another authority.
	ErrNotOurs = errors.New("pki: not issued by this authority")
)

// Authority issues the certificates of one cluster. It holds its key; its
// methods may be called concurrently.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// Pair is a certificate with its private key.
type Pair struct {
	Leaf *x509.Certificate
	Cert []byte // PEM
	Key  []byte // PEM, PKCS #8; secret
}

// NewAuthority makes the authority of a cluster, whose root is valid from now
// less [Skew] for lifetime. Errors wrap ErrName or ErrLifetime.
func NewAuthority(cluster string, now time.Time, lifetime time.Duration) (*Authority, error) {
	if err := CheckID(cluster); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	if lifetime < MinAuthorityLifetime || lifetime > MaxAuthorityLifetime {
		return nil, fmt.Errorf("%w of an authority: %s is out of range; want %s to %s", ErrLifetime, days(lifetime), days(MinAuthorityLifetime), days(MaxAuthorityLifetime))
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("pki: make a key: %w", err)
	}
	id, err := keyID(&key.PublicKey)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		// Two roots of a cluster, one of which is on its way out, have names of
		// their own: some verifiers look a root up by its name alone.
		Subject:               subject(cluster, fmt.Sprintf("authority %x", id[:4])),
		URIs:                  []*url.URL{{Scheme: "spiffe", Host: cluster}},
		NotAfter:              now.Add(lifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true, // it issues no further authorities
		SubjectKeyId:          id,
	}
	cert, err := sign(template, now, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return &Authority{cert: cert, key: key}, nil
}

// ParseAuthority reads an authority from PEM. certPEM may be a bundle that has
// further roots: the one of the key is taken.
func ParseAuthority(certPEM, keyPEM []byte) (*Authority, error) {
	bundle, err := ParseBundle(certPEM)
	if err != nil {
		return nil, err
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, err
	}
	for _, cert := range bundle {
		if !belongs(cert, key) {
			continue
		}
		if _, ok := clusterOf(cert); !ok || !cert.IsCA {
			return nil, fmt.Errorf("%w: the certificate of %q is not an authority that llmgw ctl cert init made", ErrNoIdentity, cert.Subject.CommonName)
		}
		return &Authority{cert: cert, key: key}, nil
	}
	return nil, fmt.Errorf("%w: it is of none of the certificates beside it", ErrKeyMismatch)
}

// Cluster is the cluster whose certificates it issues.
func (a *Authority) Cluster() string {
	cluster, _ := clusterOf(a.cert)
	return cluster
}

// Certificate is the root. The caller must not change it.
func (a *Authority) Certificate() *x509.Certificate { return a.cert }

// Pair returns the root and its key, to be written to a disk.
func (a *Authority) Pair() (Pair, error) { return newPair(a.cert, a.key) }

// Request is what a certificate is to say.
type Request struct {
	Role Role
	ID   string // see CheckID
	// Hosts are every DNS name and IP address under which a server is dialled, at
	// least one; none for other roles.
	Hosts []string
	// Lifetime is from MinLifetime to MaxLifetime, and not beyond the
	// authority's own.
	Lifetime time.Duration
}

// Issue makes a key and a certificate for it, valid from now less [Skew].
// Errors wrap ErrName, ErrNoHosts or ErrLifetime; all are told at once.
func (a *Authority) Issue(now time.Time, req Request) (Pair, error) {
	identity := Identity{Cluster: a.Cluster(), Role: req.Role, ID: req.ID}
	hosts, hostsErr := parseHosts(req.Hosts)
	switch {
	case hostsErr != nil:
	case req.Role == RoleServer && len(hosts) == 0:
		hostsErr = ErrNoHosts
	case req.Role != RoleServer && len(hosts) > 0:
		hostsErr = fmt.Errorf("%w: a %s is not dialled, and so has no host such as %s", ErrName, req.Role, hosts[0])
	}
	if err := errors.Join(identity.check(), hostsErr, a.checkLifetime(now, req.Lifetime)); err != nil {
		return Pair{}, err
	}
	template := &x509.Certificate{
		Subject:     subject(identity.Cluster, identity.ID),
		URIs:        []*url.URL{{Scheme: "spiffe", Host: identity.Cluster, Path: "/" + identity.Role.String() + "/" + identity.ID}},
		ExtKeyUsage: usages(identity.Role),
		NotAfter:    now.Add(req.Lifetime),
	}
	for _, h := range hosts {
		if h.Name != "" {
			template.DNSNames = append(template.DNSNames, h.Name)
		} else {
			template.IPAddresses = append(template.IPAddresses, h.Addr.AsSlice())
		}
	}
	return a.issue(template, now)
}

// Renew issues a certificate that says what an earlier one of this authority
// said, whether or not that has expired, for a new key. A lifetime of 0 is that of
// the earlier one. Errors wrap ErrNotOurs, ErrNoIdentity or ErrLifetime.
func (a *Authority) Renew(now time.Time, old *x509.Certificate, lifetime time.Duration) (Pair, error) {
	if err := a.Issued(old); err != nil {
		return Pair{}, err
	}
	if old.Equal(a.cert) {
		return Pair{}, fmt.Errorf("%w: this is the authority itself, which is replaced by a new one and not renewed", ErrNoIdentity)
	}
	identity, err := IdentityOf(old)
	if err != nil {
		return Pair{}, err
	}
	if lifetime == 0 {
		lifetime = old.NotAfter.Sub(old.NotBefore) - Skew
	}
	if err := a.checkLifetime(now, lifetime); err != nil {
		return Pair{}, err
	}
	return a.issue(&x509.Certificate{
		Subject:     subject(identity.Cluster, identity.ID),
		URIs:        old.URIs,
		DNSNames:    old.DNSNames,
		IPAddresses: old.IPAddresses,
		ExtKeyUsage: usages(identity.Role),
		NotAfter:    now.Add(lifetime),
	}, now)
}

// Issued reports whether the authority signed a certificate; if not, the error
// wraps ErrNotOurs.
func (a *Authority) Issued(cert *x509.Certificate) error {
	if err := cert.CheckSignatureFrom(a.cert); err != nil {
		return fmt.Errorf("%w: %q was issued by %q, this is %q", ErrNotOurs, cert.Subject.CommonName, cert.Issuer, a.cert.Subject)
	}
	return nil
}

func (a *Authority) checkLifetime(now time.Time, lifetime time.Duration) error {
	left := a.cert.NotAfter.Sub(now)
	switch {
	case lifetime < MinLifetime || lifetime > MaxLifetime:
		return fmt.Errorf("%w: %s is out of range; want %s to %s", ErrLifetime, days(lifetime), days(MinLifetime), days(MaxLifetime))
	case left <= 0:
		return fmt.Errorf("%w: the authority expired at %s; make a new one", ErrLifetime, stamp(a.cert.NotAfter))
	case lifetime > left:
		return fmt.Errorf("%w: %s is longer than the authority itself has left, %s; ask for less, or make a new authority", ErrLifetime, days(lifetime), days(left))
	}
	return nil
}

// issue signs a leaf for a new key.
func (a *Authority) issue(template *x509.Certificate, now time.Time) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("pki: make a key: %w", err)
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.BasicConstraintsValid = true
	cert, err := sign(template, now, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return Pair{}, err
	}
	return newPair(cert, key)
}

// sign completes a template and signs it.
func sign(template *x509.Certificate, now time.Time, parent *x509.Certificate, public *ecdsa.PublicKey, by crypto.Signer) (*x509.Certificate, error) {
	serial := make([]byte, 16)
	for serial[0] == 0 { // of 128 bits, whatever they begin with, and never 0
		_, _ = rand.Read(serial) // it never fails
	}
	template.SerialNumber = new(big.Int).SetBytes(serial)
	template.NotBefore = now.Add(-Skew)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, by)
	if err != nil {
		return nil, fmt.Errorf("pki: sign the certificate of %q: %w", template.Subject.CommonName, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("pki: read the certificate of %q: %w", template.Subject.CommonName, err)
	}
	return cert, nil
}

func subject(cluster, name string) pkix.Name {
	return pkix.Name{Organization: []string{"llmgw"}, OrganizationalUnit: []string{cluster}, CommonName: name}
}

// usages are what a role may prove itself as.
func usages(r Role) []x509.ExtKeyUsage {
	if r == RoleServer {
		return []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	}
	return []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
}

// keyID names a key: the beginning of the SHA-256 of its public half (RFC 7093).
func keyID(public *ecdsa.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, fmt.Errorf("pki: encode a key: %w", err)
	}
	sum := sha256.Sum256(der)
	return sum[:20], nil
}

// newPair encodes a certificate and its key.
func newPair(cert *x509.Certificate, key crypto.Signer) (Pair, error) {
	keyPEM, err := encodeKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{Leaf: cert, Cert: encodeCert(cert), Key: keyPEM}, nil
}
