package record

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"unsafe"

	"github.com/dchest/siphash"
)

// KeyBytes is the length of a key.
const KeyBytes = 16

// Key makes fingerprints: equal texts have equal ones, and without the key
// nobody can tell which text a fingerprint belongs to, not even by trying texts.
// So the key must not be kept where the log is. Fingerprints of different keys
// have nothing in common; every segment names its key by [Key.ID].
//
// The zero Key is none. A Key is a value; its methods may be called concurrently
// and it prints as its ID.
type Key struct {
	k0, k1 uint64
	id     KeyID
}

// KeyID names a key without telling it; 0 is no key.
type KeyID uint64

// String returns 16 hexadecimal digits.
func (id KeyID) String() string { return fmt.Sprintf("%016x", uint64(id)) }

// NewKey returns a random key.
func NewKey() Key {
	var b [KeyBytes]byte
	_, _ = rand.Read(b[:]) // never fails
	k, _ := ParseKey(b[:])
	return k
}

// ParseKey makes a key of KeyBytes bytes, which should be random; any other
// number of bytes is an error wrapping ErrInvalid.
func ParseKey(b []byte) (Key, error) {
	if len(b) != KeyBytes {
		return Key{}, fmt.Errorf("%w: a key of %d bytes; want %d", ErrInvalid, len(b), KeyBytes)
	}
	sum := sha256.Sum256(append([]byte("llmgw record key\x00"), b...))
	return Key{
		k0: binary.LittleEndian.Uint64(b),
		k1: binary.LittleEndian.Uint64(b[8:]),
		id: KeyID(binary.LittleEndian.Uint64(sum[:])),
	}, nil
}

// KeyFile reads a key from a file of 32 hexadecimal digits, or makes a random one
// and the file, readable for its owner alone, if it is not there.
func KeyFile(path string) (Key, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newKeyFile(path)
	}
	if err != nil {
		return Key{}, fmt.Errorf("record: read the key: %w", err)
	}
	text := bytes.TrimSpace(b)
	raw, err := hex.DecodeString(string(text))
	if err != nil || len(raw) != KeyBytes {
		// The content is not shown: it may be most of a key.
		return Key{}, fmt.Errorf("%w: %s is no key: want %d hexadecimal digits; remove it to have a new one made", ErrInvalid, path, 2*KeyBytes)
	}
	return ParseKey(raw)
}

func newKeyFile(path string) (_ Key, err error) {
	var raw [KeyBytes]byte
	_, _ = rand.Read(raw[:]) // never fails
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return Key{}, fmt.Errorf("record: make a key: %w", err)
	}
	_, err = fmt.Fprintf(f, "%x\n", raw)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		_ = os.Remove(path) // half a key would be refused for ever
		return Key{}, fmt.Errorf("record: make a key: %w", err)
	}
	return ParseKey(raw[:])
}

// ID returns the key's name; 0 of the zero Key.
func (k Key) ID() KeyID { return k.id }

// Fingerprint returns the SipHash-2-4 of the text under the key. It allocates
// nothing. Source: Aumasson and Bernstein, SipHash: a fast short-input PRF,
// INDOCRYPT 2012.
func (k Key) Fingerprint(text string) uint64 {
	// The hash only reads, so the text need not be copied into a slice.
	return siphash.Hash(k.k0, k.k1, unsafe.Slice(unsafe.StringData(text), len(text)))
}

// FingerprintBytes is Fingerprint of a text in bytes.
func (k Key) FingerprintBytes(text []byte) uint64 { return siphash.Hash(k.k0, k.k1, text) }

// LogValue is the key's ID.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.id.String()) }

// Format prints the key's ID, whatever the verb, so that no log shows a key.
func (k Key) Format(f fmt.State, _ rune) { _, _ = fmt.Fprintf(f, "key %v", k.id) }
