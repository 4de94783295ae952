package engines

import (
	"cmp"
	"strings"
)

// CompareVersions compares two versions of one engine by their numbers, from
// left to right: "0.9.2" is before "v0.10", and "b10587" before "b11549". What
// is not a digit only separates; a version that begins as the other and goes on
// is the later one. It returns -1, 0 or 1.
func CompareVersions(a, b string) int {
	for {
		var x, y string
		x, a = number(a)
		y, b = number(b)
		switch {
		case x == "" && y == "":
			return 0
		case x == "":
			return -1
		case y == "":
			return 1
		}
		if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
			return c
		}
	}
}

// number returns the first number of s, without leading zeros but for the last
// digit, and what follows it.
func number(s string) (digits, rest string) {
	digit := func(r rune) bool { return r >= '0' && r <= '9' }
	i := strings.IndexFunc(s, digit)
	if i < 0 {
		return "", ""
	}
	s = s[i:]
	end := strings.IndexFunc(s, func(r rune) bool { return !digit(r) })
	if end < 0 {
		end = len(s)
	}
	digits, rest = s[:end], s[end:]
	for len(digits) > 1 && digits[0] == '0' {
		digits = digits[1:]
	}
	return digits, rest
}
