package pki

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Info is what a certificate says, for people and programs.
type Info struct {
	Name string `json:"name"` // the common name
	// Role is node, router or server; authority for a root; none for a
	// certificate of another authority.
	Role    string `json:"role"`
	Cluster string `json:"cluster,omitempty"`
	// Hosts are the DNS names and addresses for which a server is accepted.
	Hosts       []string  `json:"hosts,omitempty"`
	Usages      []string  `json:"usages,omitempty"` // client, server
	Issuer      string    `json:"issuer"`
	Serial      string    `json:"serial"`      // hexadecimal
	Fingerprint string    `json:"fingerprint"` // sha256: and the digest in hexadecimal
	NotBefore   time.Time `json:"not_before"`
	NotAfter    time.Time `json:"not_after"`
}

// Describe reads a certificate.
func Describe(cert *x509.Certificate) Info {
	sum := sha256.Sum256(cert.Raw)
	info := Info{
		Name:        cert.Subject.CommonName,
		Role:        RoleNone.String(),
		Hosts:       slices.Clone(cert.DNSNames),
		Issuer:      cert.Issuer.String(),
		Serial:      hex.EncodeToString(cert.SerialNumber.Bytes()),
		Fingerprint: "sha256:" + hex.EncodeToString(sum[:]),
		NotBefore:   cert.NotBefore.UTC(),
		NotAfter:    cert.NotAfter.UTC(),
	}
	for _, ip := range cert.IPAddresses {
		info.Hosts = append(info.Hosts, ip.String())
	}
	for _, u := range cert.ExtKeyUsage {
		if name := usageName(u); name != "" {
			info.Usages = append(info.Usages, name)
		}
	}
	if identity, err := IdentityOf(cert); err == nil {
		info.Role, info.Cluster = identity.Role.String(), identity.Cluster
	} else if cluster, ok := clusterOf(cert); ok && cert.IsCA {
		info.Role, info.Cluster = "authority", cluster
	}
	return info
}

// usageName says what a usage lets its owner prove itself as; "" for code, mail
// and so on, which are nothing here.
func usageName(u x509.ExtKeyUsage) string {
	switch u {
	case x509.ExtKeyUsageClientAuth:
		return "client"
	case x509.ExtKeyUsageServerAuth:
		return "server"
	default:
		return ""
	}
}

// Fault is something wrong with a certificate.
type Fault struct {
	Code FaultCode `json:"code"`
	Text string    `json:"text"` // what is wrong, and what to do
}

// FaultCode is the kind of a Fault. The strings are part of the interface.
type FaultCode string

// The kinds of faults.
const (
	FaultExpired      FaultCode = "expired"
	FaultNotYetValid  FaultCode = "not_yet_valid"
	FaultExpiresSoon  FaultCode = "expires_soon"
	FaultKey          FaultCode = "key_mismatch"
	FaultKeyOpen      FaultCode = "key_readable_by_others"
	FaultUnknownCA    FaultCode = "unknown_authority"
	FaultRole         FaultCode = "wrong_role"
	FaultUsage        FaultCode = "wrong_usage"
	FaultHost         FaultCode = "host_missing"
	FaultNoHosts      FaultCode = "no_hosts"
	FaultWrongCluster FaultCode = "wrong_cluster"
)

// Expect is what a certificate is held against; what is zero is not asked.
type Expect struct {
	Roots []*x509.Certificate // it must be issued by one of these
	Role  Role
	Hosts []string // a server must be accepted under each
	Left  time.Duration
}

// Examine returns what is wrong with a certificate and its chain at a time, in
// the order in which it is best mended; none if it can be used.
func Examine(now time.Time, chain []*x509.Certificate, want Expect) []Fault {
	cert := chain[0]
	var faults []Fault
	add := func(code FaultCode, format string, args ...any) {
		faults = append(faults, Fault{Code: code, Text: fmt.Sprintf(format, args...)})
	}
	then := "renew it"
	if cert.IsCA {
		then = "make a new authority, with both in every bundle until all is issued anew"
	}
	switch left := cert.NotAfter.Sub(now); {
	case now.Before(cert.NotBefore):
		add(FaultNotYetValid, "it is valid in %s, from %s; is the clock of this machine, or was that of the authority, right?", days(cert.NotBefore.Sub(now)), stamp(cert.NotBefore))
	case left <= 0:
		add(FaultExpired, "it expired %s ago, at %s; %s", days(-left), stamp(cert.NotAfter), then)
	case left < want.Left:
		add(FaultExpiresSoon, "it expires in %s, at %s; %s", days(left), stamp(cert.NotAfter), then)
	}
	if len(want.Roots) > 0 {
		faults = append(faults, issuedBy(now, chain, want.Roots)...)
	}
	identity, err := IdentityOf(cert)
	if want.Role != RoleNone && identity.Role != want.Role {
		if err != nil {
			add(FaultRole, "it cannot be used as a %s: %v", want.Role, err)
		} else {
			add(FaultRole, "it is that of a %s and cannot be used as a %s", identity.Role, want.Role)
		}
	}
	if err == nil {
		for _, u := range usages(identity.Role) {
			if !slices.Contains(cert.ExtKeyUsage, u) && !slices.Contains(cert.ExtKeyUsage, x509.ExtKeyUsageAny) {
				add(FaultUsage, "a %s proves itself as a %s, and its extended key usage does not say so", identity.Role, usageName(u))
			}
		}
		if identity.Role == RoleServer && len(cert.DNSNames)+len(cert.IPAddresses) == 0 {
			add(FaultNoHosts, "no name or address stands in it under which a server is dialled; the common name counts for nothing")
		}
	}
	for _, h := range want.Hosts {
		if err := cert.VerifyHostname(h); err != nil {
			add(FaultHost, "whoever dials %s refuses it: it is for %s", h, orNone(Describe(cert).Hosts))
		}
	}
	return faults
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "no name or address"
	}
	return strings.Join(list, ", ")
}

// issuedBy holds a certificate against roots. A root that has expired vouches for
// nothing; the end of the certificate itself is told apart.
func issuedBy(now time.Time, chain, roots []*x509.Certificate) []Fault {
	cert := chain[0]
	at := now
	if now.Before(cert.NotBefore) || now.After(cert.NotAfter) {
		at = cert.NotAfter
	}
	chains, err := cert.Verify(x509.VerifyOptions{
		Roots: pool(roots), Intermediates: pool(chain[1:]), CurrentTime: at,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}, // told apart, too
	})
	if err != nil {
		return []Fault{{Code: FaultUnknownCA, Text: fmt.Sprintf("the authority does not vouch for it: it was issued by %s, this is %s (%v)", cert.Issuer, roots[0].Subject, err)}}
	}
	if _, err := PeerIdentity(tls.ConnectionState{PeerCertificates: chain, VerifiedChains: chains}); errors.Is(err, ErrWrongCluster) {
		return []Fault{{Code: FaultWrongCluster, Text: err.Error()}}
	}
	return nil
}

func pool(certs []*x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	for _, c := range certs {
		p.AddCert(c)
	}
	return p
}

// ExamineKey returns what is wrong with the key of a certificate. The error is of
// reading it.
func ExamineKey(cert *x509.Certificate, keyPEM []byte) ([]Fault, error) {
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, err
	}
	if !belongs(cert, key) {
		return []Fault{{Code: FaultKey, Text: "the private key does not belong to it; was one of the two files not replaced?"}}, nil
	}
	return nil, nil
}
