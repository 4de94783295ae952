package provider

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// Secret is a provider's credential while it is open. However it is printed, logged or
// marshalled it says "[secret]".
type Secret struct{ text string }

// NewSecret returns a credential of 1 to 8192 bytes that can stand in a header: visible
// ASCII. The error does not repeat it.
func NewSecret(text string) (Secret, error) {
	if len(text) < 1 || len(text) > 8192 {
		return Secret{}, fmt.Errorf("%w: it has %d bytes; want 1 to 8192", ErrCredential, len(text))
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }); i >= 0 {
		return Secret{}, fmt.Errorf("%w: byte %d is not visible ASCII; check for a newline or a space at its end", ErrCredential, i)
	}
	return Secret{text}, nil
}

// Reveal returns it.
func (s Secret) Reveal() string { return s.text }

// IsZero reports whether there is none.
func (s Secret) IsZero() bool { return s.text == "" }

const hidden = "[secret]"

// String hides it.
func (s Secret) String() string { return hidden }

// GoString hides it.
func (s Secret) GoString() string { return hidden }

// Format hides it from every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// LogValue implements [slog.LogValuer].
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText implements [encoding.TextMarshaler].
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// ErrCredential: a credential cannot be sealed or opened.
var ErrCredential = errors.New("provider: credential")

// Sealer seals credentials with AES-256-GCM. Its methods may be called concurrently.
type Sealer struct {
	keys []sealingKey // the first seals
}

type sealingKey struct {
	id   string
	aead cipher.AEAD
}

const (
	maxKeyFile = 64 << 10
	maxKeys    = 64
	sealing    = 1 // the form of what is sealed: this byte, the nonce, the text
)

// NewSealer reads a file of keys: one of 32 bytes a line, in base64 or hexadecimal;
// empty lines and lines that begin with # are left out. The first key seals, and all
// open, so a key is rotated by putting a new one before it. No error repeats a key.
func NewSealer(file []byte) (*Sealer, error) {
	if len(file) > maxKeyFile {
		return nil, fmt.Errorf("%w: the key file has %d bytes; want %d at most", ErrCredential, len(file), maxKeyFile)
	}
	s := &Sealer{}
	n := 0
	for line := range bytes.Lines(file) {
		n++
		text := strings.TrimSpace(string(line))
		if text == "" || text[0] == '#' {
			continue
		}
		key, err := parseKey(text)
		if err != nil {
			return nil, fmt.Errorf("%w: line %d of the key file: %w", ErrCredential, n, err)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("%w: line %d of the key file: %w", ErrCredential, n, err)
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, fmt.Errorf("%w: line %d of the key file: %w", ErrCredential, n, err)
		}
		id := keyID(key)
		for _, k := range s.keys {
			if k.id == id {
				return nil, fmt.Errorf("%w: line %d of the key file: key %s is there twice", ErrCredential, n, id)
			}
		}
		s.keys = append(s.keys, sealingKey{id, aead})
	}
	if len(s.keys) == 0 || len(s.keys) > maxKeys {
		return nil, fmt.Errorf("%w: the key file has %d keys; want 1 to %d: make one with: openssl rand -base64 32", ErrCredential, len(s.keys), maxKeys)
	}
	return s, nil
}

func parseKey(text string) ([]byte, error) {
	if len(text) == 64 {
		if key, err := hex.DecodeString(text); err == nil {
			return key, nil
		}
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) != 32 {
		return nil, errors.New("want 32 bytes in base64 or hexadecimal, as openssl rand -base64 32 writes")
	}
	return key, nil
}

// keyID names a key without telling anything of it.
func keyID(key []byte) string {
	sum := sha256.Sum256(append([]byte("llmgw provider credentials\x00"), key...))
	return hex.EncodeToString(sum[:8])
}

// KeyID is the ID of the key that seals.
func (s *Sealer) KeyID() string { return s.keys[0].id }

// Seal returns a credential sealed, and the ID of the key that did. Opened it is for
// that provider alone: a row of the store that is given another address opens nothing.
func (s *Sealer) Seal(secret Secret, id, baseURL string) (sealed []byte, keyID string, err error) {
	if secret.IsZero() {
		return nil, "", fmt.Errorf("%w: there is none to seal", ErrCredential)
	}
	k := s.keys[0]
	out := make([]byte, 1+k.aead.NonceSize(), 1+k.aead.NonceSize()+len(secret.text)+k.aead.Overhead())
	out[0] = sealing
	_, _ = rand.Read(out[1:]) // never fails
	return k.aead.Seal(out, out[1:], []byte(secret.text), boundTo(id, baseURL)), k.id, nil
}

// Open opens what Seal returned.
func (s *Sealer) Open(sealed []byte, keyID, id, baseURL string) (Secret, error) {
	for _, k := range s.keys {
		if k.id != keyID {
			continue
		}
		head := 1 + k.aead.NonceSize()
		if len(sealed) < head || sealed[0] != sealing {
			return Secret{}, fmt.Errorf("%w: it is not in a form that this program seals", ErrCredential)
		}
		text, err := k.aead.Open(nil, sealed[1:head], sealed[head:], boundTo(id, baseURL))
		if err != nil {
			return Secret{}, fmt.Errorf("%w: it was changed, or sealed for another provider", ErrCredential)
		}
		return Secret{string(text)}, nil
	}
	return Secret{}, fmt.Errorf("%w: it is sealed with key %q, which the key file does not have; put that key back, or set the credential again", ErrCredential, keyID)
}

func boundTo(id, baseURL string) []byte { return []byte(id + "\x00" + baseURL) }
