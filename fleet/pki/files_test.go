package pki_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/fleet/pki"
)

func mode(t *testing.T, name string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestAuthorityOnDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "authority")
	a := newAuthority(t, "prod")
	if _, err := pki.ReadAuthority(dir); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "llmgw ctl cert init") {
		t.Errorf("no authority: %v", err)
	}
	if err := pki.WriteAuthority(dir, a); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(dir, pki.AuthorityKeyFile)
	if d, c, k := mode(t, dir), mode(t, filepath.Join(dir, pki.AuthorityCertFile)), mode(t, key); d != 0o700 || c != 0o644 || k != 0o600 {
		t.Errorf("modes %o, %o, %o; want 700, 644, 600", d, c, k)
	}
	read, err := pki.ReadAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !read.Certificate().Equal(a.Certificate()) {
		t.Error("another authority was read")
	}
	if err := pki.WriteAuthority(dir, newAuthority(t, "prod")); !errors.Is(err, pki.ErrExists) {
		t.Errorf("a second authority in a directory: %v, want ErrExists", err)
	}
	if err := os.Chmod(key, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.ReadAuthority(dir); err == nil || !strings.Contains(err.Error(), "mode 0640") || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key that others read: %v", err)
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.ReadAuthority(dir); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "the authority's key") {
		t.Errorf("no key: %v", err)
	}
}

func TestWritePair(t *testing.T) {
	a := newAuthority(t, "prod")
	one, two := issue(t, a, 0, node("gpu-1")), issue(t, a, 0, node("gpu-1"))
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "gpu-1.crt"), filepath.Join(dir, "gpu-1.key")
	holds := func(want pki.Pair) {
		t.Helper()
		gotCert, certErr := os.ReadFile(cert)
		gotKey, keyErr := os.ReadFile(key)
		if err := errors.Join(certErr, keyErr); err != nil || string(gotCert) != string(want.Cert) || string(gotKey) != string(want.Key) {
			t.Errorf("not the pair that is wanted, %v", err)
		}
		if c, k := mode(t, cert), mode(t, key); c != 0o644 || k != 0o600 {
			t.Errorf("modes %o and %o, want 644 and 600", c, k)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
			t.Errorf("%v, %v; want two files and nothing left behind", entries, err)
		}
	}
	if err := pki.WritePair(cert, key, one, false); err != nil {
		t.Fatal(err)
	}
	holds(one)
	if err := pki.WritePair(cert, key, two, false); !errors.Is(err, pki.ErrExists) || !strings.Contains(err.Error(), "gpu-1.crt") {
		t.Errorf("an overwrite: %v, want ErrExists", err)
	}
	holds(one)
	if err := pki.WritePair(cert, key, two, true); err != nil {
		t.Fatal(err)
	}
	holds(two)
	// Who could read the old files can read the new ones; of a key nobody else.
	for name, m := range map[string]fs.FileMode{cert: 0o444, key: 0o644} {
		if err := os.Chmod(name, m); err != nil {
			t.Fatal(err)
		}
	}
	if err := pki.WritePair(cert, key, one, true); err != nil {
		t.Fatal(err)
	}
	if c, k := mode(t, cert), mode(t, key); c != 0o644 || k != 0o640 {
		t.Errorf("modes %o and %o, want 644 and 640", c, k)
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if err := pki.WritePair(cert, key, one, false); !errors.Is(err, pki.ErrExists) {
		t.Errorf("an overwrite of one file: %v, want ErrExists", err)
	}
	if _, err := os.Stat(key); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a refused pair left its key: %v", err)
	}
	if err := pki.WritePair(filepath.Join(dir, "away", "c"), filepath.Join(dir, "away", "k"), one, false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that there is not: %v", err)
	}
}

func TestReadFileIsBounded(t *testing.T) {
	name := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(name, make([]byte, 4<<20+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.ReadFile(name); err == nil || !strings.Contains(err.Error(), "no certificate or key") {
		t.Errorf("error %v", err)
	}
}
