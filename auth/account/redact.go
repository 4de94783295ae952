package account

import (
	"fmt"
	"io"
	"log/slog"
)

// However a value with a secret is printed or logged, the secret does not show. Whoever
// needs it reads the field.
const redacted = "[redacted]"

func write(f fmt.State, text string) { _, _ = io.WriteString(f, text) } //nolint:revive // as the verb says

// Format implements [fmt.Formatter] for every verb.
func (in SignIn) Format(f fmt.State, _ rune) { write(f, "sign-in "+redacted) }

// LogValue implements [slog.LogValuer].
func (in SignIn) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON implements [json.Marshaler].
func (in SignIn) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// Format implements [fmt.Formatter] for every verb.
func (o Opened) Format(f fmt.State, _ rune) { write(f, "session "+redacted) }

// LogValue implements [slog.LogValuer].
func (o Opened) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON implements [json.Marshaler].
func (o Opened) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// Format implements [fmt.Formatter] for every verb.
func (l NewLink) Format(f fmt.State, _ rune) { write(f, "link "+l.ID+" "+redacted) }

// LogValue implements [slog.LogValuer].
func (l NewLink) LogValue() slog.Value { return slog.StringValue(l.ID) }

// MarshalJSON implements [json.Marshaler].
func (l NewLink) MarshalJSON() ([]byte, error) { return []byte(`"` + l.ID + `"`), nil }

// Format implements [fmt.Formatter] for every verb.
func (v Visitor) Format(f fmt.State, _ rune) { write(f, "visitor "+v.Account.ID) }

// LogValue implements [slog.LogValuer].
func (v Visitor) LogValue() slog.Value { return slog.StringValue(v.Account.ID) }

// MarshalJSON implements [json.Marshaler].
func (v Visitor) MarshalJSON() ([]byte, error) { return []byte(`"` + v.Account.ID + `"`), nil }
