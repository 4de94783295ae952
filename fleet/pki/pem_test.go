package pki_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"slices"
	"testing"

	"github.com/llmgw/llmgw/fleet/pki"
)

func TestParsePair(t *testing.T) {
	a := newAuthority(t, "prod")
	pair := issue(t, a, 0, node("gpu-1"))
	both := slices.Concat([]byte("a comment\n"), pair.Cert, bundle(t, a), pair.Key)
	got, err := pki.ParsePair(both, both) // one file, as some programs have it
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Certificate) != 2 || !got.Leaf.Equal(pair.Leaf) {
		t.Errorf("%d certificates of %q; want the chain of two", len(got.Certificate), got.Leaf.Subject)
	}
	if _, err := pki.ParsePair(slices.Concat(bundle(t, a), pair.Cert), pair.Key); !errors.Is(err, pki.ErrKeyMismatch) {
		t.Errorf("a chain that begins with the root: %v, want ErrKeyMismatch", err)
	}
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	old := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(other)})
	if _, err := pki.ParsePair(pair.Cert, old); !errors.Is(err, pki.ErrKeyMismatch) {
		t.Errorf("a key of another kind: %v, want ErrKeyMismatch", err)
	}
}

// Whatever stands in a file, parsing it ends with something usable or with an
// error that says which of the two it is.
func FuzzParsePEM(f *testing.F) {
	a := newAuthority(f, "prod")
	pair := issue(f, a, 0, server("cp-1", "gw.example", "10.0.0.5"))
	root := bundle(f, a)
	f.Add(pair.Cert, pair.Key)
	f.Add(slices.Concat(root, pair.Cert), pair.Key)
	f.Add(root, []byte("-----BEGIN EC PRIVATE KEY-----\n-----END EC PRIVATE KEY-----\n"))
	f.Add(pair.Cert[:len(pair.Cert)/2], pair.Key[:len(pair.Key)/2])
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"), []byte{})
	f.Fuzz(func(t *testing.T, cert, key []byte) {
		certs, err := pki.ParseBundle(cert)
		switch {
		case err != nil && !errors.Is(err, pki.ErrPEM):
			t.Errorf("bundle: error %v, want ErrPEM", err)
		case err == nil && len(certs) != bytes.Count(cert, []byte("-----BEGIN ")):
			t.Errorf("%d certificates read of %d", len(certs), bytes.Count(cert, []byte("-----BEGIN ")))
		}
		for _, c := range certs {
			if identity, err := pki.IdentityOf(c); err == nil && identity.ID != c.Subject.CommonName {
				t.Errorf("identity %v of %q", identity, c.Subject.CommonName)
			}
			_ = pki.Describe(c)
		}
		got, err := pki.ParsePair(cert, key)
		if err != nil {
			if !errors.Is(err, pki.ErrPEM) && !errors.Is(err, pki.ErrKeyMismatch) {
				t.Errorf("pair: error %v, want ErrPEM or ErrKeyMismatch", err)
			}
			return
		}
		if got.Leaf == nil || got.PrivateKey == nil || len(got.Certificate) == 0 {
			t.Errorf("half a pair: %+v", got)
		}
	})
}
