package pki

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Names of an authority's files in its directory.
const (
	AuthorityCertFile = "ca.crt"
	AuthorityKeyFile  = "ca.key"
)

// maxFile bounds a file of certificates; that of an operating system's roots has
// about 200 KiB.
const maxFile = 4 << 20

// ErrExists is wrapped where a file would have been overwritten.
var ErrExists = errors.New("pki: it exists already")

// ReadFile reads a file of certificates or a key. One of more than 4 MiB is an
// error.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s: it has more than %d bytes, which is no certificate or key", path, maxFile)
	}
	return data, nil
}

// ReadAuthority reads the authority of a directory. A key that others than its
// owner can read is refused: whoever has it is the fleet.
func ReadAuthority(dir string) (*Authority, error) {
	certFile, keyFile := filepath.Join(dir, AuthorityCertFile), filepath.Join(dir, AuthorityKeyFile)
	certPEM, err := ReadFile(certFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no authority in %s: %w; make one with llmgw ctl cert init, or name the directory of yours", dir, err)
	}
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(keyFile)
	if err != nil {
		return nil, fmt.Errorf("the authority's key: %w; certificates are issued where it is", err)
	}
	if open := info.Mode().Perm() & 0o077; open != 0 && os.PathSeparator == '/' {
		return nil, fmt.Errorf("%s can be read or written by others than its owner (mode %04o); chmod 600 it, and make a new authority if somebody may have read it", keyFile, info.Mode().Perm())
	}
	keyPEM, err := ReadFile(keyFile)
	if err != nil {
		return nil, err
	}
	a, err := ParseAuthority(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", certFile, keyFile, err)
	}
	return a, nil
}

// WriteAuthority writes an authority into a directory that only its owner
// enters, and makes that. One that is there is never overwritten, since every
// certificate that it issued would be worth nothing: the error wraps ErrExists.
func WriteAuthority(dir string, a *Authority) error {
	pair, err := a.Pair()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o700); err != nil { // if it was there
		return err
	}
	return WritePair(filepath.Join(dir, AuthorityCertFile), filepath.Join(dir, AuthorityKeyFile), pair, false)
}

// WritePair writes a certificate, which everybody may read, and its key, which
// its owner alone may. Each file appears as a whole or not at all. Files that
// are there are an error that wraps ErrExists, unless they are to be replaced:
// then the new ones have their owner and group, and a key that its group could
// read stays so, in order that the program that read the old ones can read these.
//
// Replacing takes two steps, the key's first: a [Reloader] that looks in between
// keeps what it has and looks again. If the process ends in between, the pair
// does not fit together and is to be written again.
func WritePair(certFile, keyFile string, pair Pair, replace bool) error {
	if !replace {
		for _, name := range []string{certFile, keyFile} {
			if _, err := os.Lstat(name); err == nil {
				return fmt.Errorf("%w: %s", ErrExists, name)
			}
		}
	}
	if err := writeFile(keyFile, pair.Key, 0o600, replace); err != nil {
		return err
	}
	err := writeFile(certFile, pair.Cert, 0o644, replace)
	if err != nil && !replace {
		return errors.Join(err, os.Remove(keyFile))
	}
	return err
}

// writeFile makes a file appear with all its content, or leaves things as they
// are.
func writeFile(name string, data []byte, mode fs.FileMode, replace bool) (err error) {
	dir := filepath.Dir(name)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(name)+".*") // with mode 0600
	if err != nil {
		return err
	}
	renamed := false
	defer func() {
		_ = tmp.Close() // if it is not closed yet
		if !renamed {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	if _, err := tmp.Write(data); err != nil {
		return err
	}
	if old, err := os.Stat(name); replace && err == nil && keepOwner(tmp, old) {
		mode |= old.Mode().Perm() & 0o040 // the group, where it was let in
	}
	if err := tmp.Chmod(mode); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	if replace {
		if err := os.Rename(tmp.Name(), name); err != nil {
			return err
		}
		renamed = true
		return syncDir(dir)
	}
	// Unlike a rename, a link never takes the place of what is there.
	if err := os.Link(tmp.Name(), name); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%w: %s", ErrExists, name)
		}
		return err
	}
	return syncDir(dir)
}

// syncDir makes a new name in a directory survive a loss of power.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
