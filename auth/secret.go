package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"strings"

	"github.com/llmgw/llmgw/storage"
)

// The text of a key: a prefix by which people and scanners of leaked secrets
// know it (llmgw_[0-9A-Za-z]{49}), 43 random characters of base 62, which are
// 256 bits, and the CRC-32 of all that in six more. At 55 bytes it is the
// longest text whose SHA-256 takes one block.
const (
	keyPrefix   = "llmgw_"
	randomChars = 43
	sumChars    = 6
	sumAt       = len(keyPrefix) + randomChars
	keyChars    = sumAt + sumChars

	base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

	redacted = "[redacted]"
)

// Secret is the text of a key. However it is printed, logged or encoded it shows
// as "[redacted]"; [Secret.Reveal] alone shows it. The zero value is none.
type Secret struct {
	// A function, since printers that reach unexported fields by reflection stop
	// at it.
	reveal func() string
}

// Mint makes a key from 43 characters' worth of random, which is
// [crypto/rand.Reader] if nil. The secret is in nobody's hands but the caller's.
func Mint(random io.Reader) (Secret, error) {
	if random == nil {
		random = rand.Reader
	}
	text := make([]byte, 0, keyChars)
	text = append(text, keyPrefix...)
	var batch [64]byte
	// Of 256 values 248 are taken, four for each character, so that all are
	// equally likely. Two batches nearly always do; a reader that gives nothing
	// but refuse is broken.
	for range 64 {
		if _, err := io.ReadFull(random, batch[:]); err != nil {
			return Secret{}, fmt.Errorf("auth: read randomness: %w", err)
		}
		for _, b := range batch {
			if b >= 4*62 {
				continue
			}
			if text = append(text, base62[b%62]); len(text) == sumAt {
				sum := checksum(string(text))
				return secretOf(string(append(text, sum[:]...))), nil
			}
		}
	}
	return Secret{}, errors.New("auth: the source of randomness gives none")
}

func secretOf(text string) Secret { return Secret{reveal: func() string { return text }} }

// Reveal returns the text. Show it once, to whom it is for, and keep it nowhere.
func (s Secret) Reveal() string {
	if s.reveal == nil {
		return ""
	}
	return s.reveal()
}

// Hash returns what the key is found by.
func (s Secret) Hash() storage.KeyHash { return sha256.Sum256([]byte(s.Reveal())) }

// Hint returns what may be shown of the key: its beginning and its end, which
// leave 208 bits to guess.
func (s Secret) Hint() string {
	text := s.Reveal()
	if len(text) != keyChars {
		return ""
	}
	return text[:len(keyPrefix)+4] + "..." + text[keyChars-4:]
}

// Format implements [fmt.Formatter] for every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// String implements [fmt.Stringer].
func (Secret) String() string { return redacted }

// MarshalText implements [encoding.TextMarshaler], and so serves JSON and YAML.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue implements [slog.LogValuer].
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// ParseKey checks the form of a key's text and returns what it is found by. An
// error wraps ErrMalformed, says what is wrong and repeats nothing of the text.
// Without an error the text is of a key that was made somewhere, or of one that
// somebody made up with care.
func ParseKey(text string) (storage.KeyHash, error) {
	switch h, ok := hashOf(text); {
	case ok:
		return h, nil
	case !strings.HasPrefix(text, keyPrefix):
		return h, fmt.Errorf("%w: it does not begin with %s", ErrMalformed, keyPrefix)
	case len(text) != keyChars:
		return h, fmt.Errorf("%w: it has %d characters; want %d", ErrMalformed, len(text), keyChars)
	default:
		return h, fmt.Errorf("%w: its checksum does not fit; it has a typo", ErrMalformed)
	}
}

// hashOf returns what a key is found by; false if the text has not the form of a
// key.
func hashOf(text string) (storage.KeyHash, bool) {
	if !wellFormed(text) {
		return storage.KeyHash{}, false
	}
	return sum256(text), true
}

// sum256 returns the SHA-256 of a text of keyChars bytes. It allocates nothing.
func sum256(text string) storage.KeyHash {
	var buf [keyChars]byte
	copy(buf[:], text)
	return sha256.Sum256(buf[:])
}

// prefixed reports whether a text looks like a key at first sight.
func prefixed(text string) bool { return len(text) == keyChars && text[:len(keyPrefix)] == keyPrefix }

// wellFormed reports whether a text has the form of a key, checksum included.
func wellFormed(text string) bool {
	if !prefixed(text) {
		return false
	}
	for i := len(keyPrefix); i < sumAt; i++ {
		if !inBase62(text[i]) {
			return false
		}
	}
	sum := checksum(text[:sumAt])
	return string(sum[:]) == text[sumAt:]
}

func inBase62(c byte) bool { return c-'0' < 10 || c|0x20-'a' < 26 }

// checksum writes the CRC-32 (IEEE) of a text in base 62, the highest digit first.
func checksum(text string) [sumChars]byte {
	// Not crc32.ChecksumIEEE: it goes through a function variable, so that a copy
	// of the text would have to be allocated for it.
	sum := ^uint32(0)
	for i := range len(text) {
		sum = crc32.IEEETable[byte(sum)^text[i]] ^ sum>>8
	}
	sum = ^sum
	var out [sumChars]byte
	for i := sumChars - 1; i >= 0; i-- {
		out[i] = base62[sum%62]
		sum /= 62
	}
	return out
}

// findKey returns where in a text a key begins, or -1.
func findKey(text string) int {
	for from := 0; ; {
		i := strings.Index(text[from:], keyPrefix)
		if i < 0 {
			return -1
		}
		from += i
		if len(text)-from < keyChars {
			return -1
		}
		if wellFormed(text[from : from+keyChars]) {
			return from
		}
		from += len(keyPrefix)
	}
}

// withoutKeys returns a text with every key in it replaced.
func withoutKeys(text string) string {
	for {
		i := findKey(text)
		if i < 0 {
			return text
		}
		text = text[:i] + redacted + text[i+keyChars:]
	}
}
