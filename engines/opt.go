package engines

import (
	"encoding/json"
	"fmt"
)

// Opt is a fact that may be missing. The zero value is "not known", which is
// neither 0 nor false nor the empty string. In JSON and YAML what is not known is
// null, or the key is left out.
type Opt[T comparable] struct {
	value T
	known bool
}

// Known returns v as a fact that is known.
func Known[T comparable](v T) Opt[T] { return Opt[T]{value: v, known: true} }

// Get returns the value and whether it is known. What is not known gives the
// zero value.
func (o Opt[T]) Get() (T, bool) { return o.value, o.known }

// Or returns the value, or missing where it is not known.
func (o Opt[T]) Or(missing T) T {
	if o.known {
		return o.value
	}
	return missing
}

// Is reports whether the value is known and is v.
func (o Opt[T]) Is(v T) bool { return o.known && o.value == v }

// String returns the value as fmt prints it, or "unknown".
func (o Opt[T]) String() string {
	if !o.known {
		return "unknown"
	}
	return fmt.Sprint(o.value)
}

// MarshalJSON writes the value, or null.
func (o Opt[T]) MarshalJSON() ([]byte, error) {
	if !o.known {
		return []byte("null"), nil
	}
	return json.Marshal(o.value)
}

// UnmarshalJSON reads a value; null is not known.
func (o *Opt[T]) UnmarshalJSON(data []byte) error {
	return o.decode(func(into any) error { return json.Unmarshal(data, into) })
}

// UnmarshalYAML reads a value; null is not known.
func (o *Opt[T]) UnmarshalYAML(unmarshal func(any) error) error { return o.decode(unmarshal) }

func (o *Opt[T]) decode(unmarshal func(any) error) error {
	var v *T
	if err := unmarshal(&v); err != nil {
		return err
	}
	*o = Opt[T]{}
	if v != nil {
		*o = Known(*v)
	}
	return nil
}
