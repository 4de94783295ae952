package endpoint

import (
	"fmt"
	"log/slog"
)

const redacted = "[redacted]"

// Secret is an engine's API key. However it is printed, logged or encoded, it
// shows as "[redacted]", and as nothing if it is empty.
type Secret string

// Reveal returns the key itself, for the one header that carries it.
func (s Secret) Reveal() string { return string(s) }

// String returns the key's stand-in.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// Format writes the key's stand-in, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue returns the key's stand-in.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText returns the key's stand-in; JSON and YAML use it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
