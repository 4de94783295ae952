package pki

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Errors of what stands in files.
var (
	// ErrPEM: a file is not what it should be.
	ErrPEM = errors.New("pki: not usable PEM")
	// ErrKeyMismatch: a key is not that of the certificate.
	ErrKeyMismatch = errors.New("pki: the private key does not belong to the certificate")
)

// ParseBundle reads one or more certificates from PEM, in order; text between
// them is a comment. Anything else in it is an error that wraps ErrPEM, and so
// is a certificate that cannot be parsed: a bundle that is half understood
// would refuse peers without a word.
func ParseBundle(data []byte) ([]*x509.Certificate, error) {
	return certificates(data, func(n int, kind string) error {
		if strings.HasSuffix(kind, "PRIVATE KEY") {
			return fmt.Errorf("%w: block %d is a private key, which does not belong beside certificates that others read", ErrPEM, n)
		}
		return fmt.Errorf("%w: block %d is a %s; want CERTIFICATE", ErrPEM, n, kind)
	})
}

// ParseChain reads a certificate and those after it, as ParseBundle does, and
// passes over everything else: some programs keep the key in the same file.
func ParseChain(data []byte) ([]*x509.Certificate, error) {
	return certificates(data, func(int, string) error { return nil })
}

// certificates reads those of a file. A block of another kind is passed over if
// other returns nil.
func certificates(data []byte, other func(n int, kind string) error) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	begins, blocks := bytes.Count(data, []byte("-----BEGIN ")), 0
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		blocks++
		if block.Type != "CERTIFICATE" {
			if err := other(blocks, block.Type); err != nil {
				return nil, err
			}
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%w: block %d: %w", ErrPEM, blocks, err)
		}
		certs = append(certs, cert)
	}
	switch {
	case blocks != begins: // Decode passes over what it does not understand
		return nil, fmt.Errorf("%w: of %d blocks that begin, %d can be read; the others are cut off or damaged", ErrPEM, begins, blocks)
	case len(certs) == 0:
		return nil, fmt.Errorf("%w: there is no certificate in it; want -----BEGIN CERTIFICATE-----", ErrPEM)
	}
	return certs, nil
}

// ParsePair reads a certificate, with its chain if it has one, and its key. Both
// may be one file. Errors wrap ErrPEM or ErrKeyMismatch.
func ParsePair(certPEM, keyPEM []byte) (*tls.Certificate, error) {
	chain, err := ParseChain(certPEM)
	if err != nil {
		return nil, err
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, err
	}
	if !belongs(chain[0], key) {
		return nil, ErrKeyMismatch
	}
	pair := &tls.Certificate{PrivateKey: key, Leaf: chain[0]}
	for _, cert := range chain {
		pair.Certificate = append(pair.Certificate, cert.Raw)
	}
	return pair, nil
}

// parseKey reads the one private key of a file: PKCS #8, SEC 1 or PKCS #1.
// Other blocks, such as the parameters that openssl writes first, are passed
// over.
func parseKey(data []byte) (crypto.Signer, error) {
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			return nil, fmt.Errorf("%w: there is no private key in it; want -----BEGIN PRIVATE KEY-----", ErrPEM)
		}
		data = rest
		var key any
		var err error
		switch block.Type {
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		case "ENCRYPTED PRIVATE KEY":
			return nil, fmt.Errorf("%w: the private key is encrypted; store it as it is, in a file that only its owner reads", ErrPEM)
		default:
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%w: the private key: %w", ErrPEM, err)
		}
		signer, ok := key.(crypto.Signer)
		if !ok {
			return nil, fmt.Errorf("%w: a key of type %T cannot sign", ErrPEM, key)
		}
		return signer, nil
	}
}

// belongs reports whether a certificate is for a key.
func belongs(cert *x509.Certificate, key crypto.Signer) bool {
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(cert.PublicKey)
}

func encodeCert(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("pki: encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// days writes a duration as people speak of certificates.
func days(d time.Duration) string {
	if d%day == 0 || d > 10*day {
		return fmt.Sprintf("%dd", d/day)
	}
	return d.Round(time.Second).String()
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
