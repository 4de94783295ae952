package password

import (
	"fmt"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// How long a password may be. Length is the only rule: NIST SP 800-63B-4 asks for 15
// characters where a password is all there is, and OWASP's ASVS for no other rule.
const (
	LeastChars = 15
	MostBytes  = 1024
)

// Normal returns the one spelling of a password, which is what is hashed: Unicode's
// NFC, as RFC 8265 has it (OpaqueString). An é that one keyboard sends as a letter
// with an accent and another as one character is one é, and nothing else changes:
// NFKC, which NIST names, would make one password of several that look different.
// Spaces and case stay. Nothing is cut off. The error says what is wrong with it.
func Normal(password string) (string, error) {
	switch {
	case len(password) > MostBytes:
		return "", fmt.Errorf("has %d bytes; want at most %d", len(password), MostBytes)
	case !utf8.ValidString(password):
		return "", fmt.Errorf("is not UTF-8")
	}
	password = norm.NFC.String(password)
	if n := utf8.RuneCountInString(password); n < LeastChars {
		return "", fmt.Errorf("has %d characters; want at least %d, such as a few words in a row", n, LeastChars)
	}
	return password, nil
}
