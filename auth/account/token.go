package account

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"fmt"
	"io"
	"strings"

	"github.com/llmgw/llmgw/storage"
)

const (
	tokenBytes = 32 // 256 random bits
	tokenChars = 43 // of base64url
)

// FormToken returns what the forms of a session carry, from the token that its browser
// sends. It is derived, so that it needs no place of its own, and neither leads back
// to the token nor can be made without it.
func FormToken(token string) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("llmgw form"))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// newToken makes a token that only whoever is given it has.
func (s *Service) newToken() (string, error) {
	var b [tokenBytes]byte
	if _, err := io.ReadFull(s.deps.Random, b[:]); err != nil {
		return "", fmt.Errorf("account: read randomness: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(b[:]), nil
}

// hashOf returns what a token is found by; false if the text has not the form of one,
// of which no store need be asked.
func hashOf(token string) (storage.TokenHash, bool) {
	if len(token) != tokenChars {
		return storage.TokenHash{}, false
	}
	if _, err := base64.RawURLEncoding.Strict().DecodeString(token); err != nil || strings.ContainsAny(token, "\r\n") {
		return storage.TokenHash{}, false
	}
	return sha256.Sum256([]byte(token)), true
}

// newID makes a name of 100 random bits that is no secret.
func (s *Service) newID(prefix string) (string, error) {
	var b [15]byte
	if _, err := io.ReadFull(s.deps.Random, b[:]); err != nil {
		return "", fmt.Errorf("account: read randomness: %w", err)
	}
	return prefix + strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))[:20], nil
}
