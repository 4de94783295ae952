// Package convert turns the types of package engines into messages of the
// protocol between control plane and agents, and back. Both ends use it, so that
// they cannot differ.
//
// A function to the wire never fails: what it is given was made by our own code.
// One from the wire checks what the rest of the program relies on (ids, ports,
// times), and its error wraps [ErrMessage] and says which field is wrong. It
// does not bound sizes; that is the stream's to do.
//
// Lists and maps of strings are shared with the argument, not copied. Empty and
// nil are one. A number of an enum that this version does not know becomes the
// unset value: a newer agent's state is not known, which is not an error.
package convert

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// ErrMessage is the class of errors about a message that says what cannot be.
var ErrMessage = errors.New("not a message of the protocol")

func faulty(field, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %w", ErrMessage, field, fmt.Errorf(format, args...))
}

// each converts a list; of an empty one it makes nil.
func each[A, B any](list []A, convert func(A) B) []B {
	if len(list) == 0 {
		return nil
	}
	out := make([]B, len(list))
	for i, v := range list {
		out[i] = convert(v)
	}
	return out
}

// tryEach converts a list up to the first error, which names the entry.
func tryEach[A, B any](field string, list []A, convert func(A) (B, error)) ([]B, error) {
	if len(list) == 0 {
		return nil, nil
	}
	out := make([]B, len(list))
	for i, v := range list {
		var err error
		if out[i], err = convert(v); err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", field, i, err)
		}
	}
	return out, nil
}

// orNil returns nil for a list or a map that is empty, which is how a message
// without one arrives.
func orNil[M ~map[K]V, K comparable, V any](m M) M {
	if len(m) == 0 {
		return nil
	}
	return m
}

func listOrNil[V any](list []V) []V {
	if len(list) == 0 {
		return nil
	}
	return list
}

// enum converts a number of one side's enum to the other's, which count alike; what
// is beyond most becomes 0.
func enum[B, A ~uint8 | ~int32](v, most A) B {
	if v < 0 || v > most {
		return 0
	}
	return B(v)
}

// TimeToWire converts a moment; the zero time is absent.
func TimeToWire(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// TimeFromWire converts a moment, in UTC; one that is absent is the zero time.
func TimeFromWire(field string, t *timestamppb.Timestamp) (time.Time, error) {
	if t == nil {
		return time.Time{}, nil
	}
	if err := t.CheckValid(); err != nil {
		return time.Time{}, faulty(field, "%w", err)
	}
	return t.AsTime(), nil
}

// DurationToWire converts a duration; 0 is absent.
func DurationToWire(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// DurationFromWire converts a duration; one that is absent is 0. What is longer
// than a Go duration can be, or below zero, is an error.
func DurationFromWire(field string, d *durationpb.Duration) (time.Duration, error) {
	if d == nil {
		return 0, nil
	}
	if err := d.CheckValid(); err != nil {
		return 0, faulty(field, "%w", err)
	}
	out := d.AsDuration()
	if out < 0 || durationpb.New(out).GetSeconds() != d.GetSeconds() {
		return 0, faulty(field, "%ds is no duration; want 0s to 292 years", d.GetSeconds())
	}
	return out, nil
}
