package account

import (
	"fmt"
	"strings"
)

const (
	mostAddressBytes = 254 // RFC 5321, 4.5.3.1.3 less the angle brackets
	mostLocalBytes   = 64  // 4.5.3.1.1
	mostLabelBytes   = 63  // RFC 1035, 2.3.4
)

// ParseAddress returns the one spelling of an e-mail address: in lower case, without
// space around it. The error is an [*InvalidError].
//
// Addresses here are ASCII, and before the @ only letters, digits and the signs . _ + -
// are taken. An operator reads them and decides by them who is let in: none may look
// like another one, nor mean anything to a shell in which a command with it is pasted.
// Nothing is ever sent to an address, so none has to be reachable.
func ParseAddress(text string) (string, error) {
	bad := func(format string, args ...any) (string, error) {
		return "", &InvalidError{Field: "address", Problem: fmt.Sprintf(format, args...)}
	}
	text = strings.Trim(text, " \t\r\n")
	if text == "" {
		return bad("is empty; want an e-mail address")
	}
	if len(text) > mostAddressBytes {
		return bad("has %d bytes; want at most %d", len(text), mostAddressBytes)
	}
	for i := range len(text) {
		if text[i] <= ' ' || text[i] >= 0x7f {
			return bad("has a space or a letter that is not of ASCII; want plain letters, and the xn-- form of a domain that has others")
		}
	}
	text = strings.ToLower(text)
	local, domain, ok := strings.Cut(text, "@")
	if !ok || local == "" || domain == "" || strings.Contains(domain, "@") {
		return bad("is not an e-mail address; want one such as ada@example.org")
	}
	if len(local) > mostLocalBytes {
		return bad("has %d bytes before the @; want at most %d", len(local), mostLocalBytes)
	}
	for part := range strings.SplitSeq(local, ".") {
		if part == "" {
			return bad("has a dot in a place before the @ where none can be")
		}
		for i := range len(part) {
			if c := part[i]; !alphanumeric(c) && c != '_' && c != '-' && c != '+' {
				return bad("has %q before the @; want letters, digits and . _ + -", c)
			}
		}
	}
	if !alphanumeric(local[0]) && local[0] != '_' {
		return bad("begins with %q; want a letter or a digit", local[0])
	}
	for label := range strings.SplitSeq(domain, ".") {
		if len(label) == 0 || len(label) > mostLabelBytes || label[0] == '-' || label[len(label)-1] == '-' {
			return bad("has no domain after the @; want one such as example.org")
		}
		for i := range len(label) {
			if c := label[i]; !alphanumeric(c) && c != '-' {
				return bad("has %q after the @; want letters, digits, dots and -", c)
			}
		}
	}
	return text, nil
}

func alphanumeric(c byte) bool { return c-'a' < 26 || c-'0' < 10 }
