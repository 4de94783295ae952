package convert

import (
	"math"

	"github.com/llmgw/llmgw/engines"
)

// optToWire converts a fact that may be missing.
func optToWire[T comparable](o engines.Opt[T]) *T {
	if v, ok := o.Get(); ok {
		return &v
	}
	return nil
}

func optFromWire[T comparable](v *T) engines.Opt[T] {
	if v == nil {
		return engines.Opt[T]{}
	}
	return engines.Known(*v)
}

func optIntToWire(o engines.Opt[int]) *int64 {
	if v, ok := o.Get(); ok {
		return new(int64(v))
	}
	return nil
}

func optIntFromWire(v *int64) engines.Opt[int] {
	if v == nil {
		return engines.Opt[int]{}
	}
	return engines.Known(int(*v))
}

// optFloatFromWire converts a measure. One that is no number is not known: it
// compares with nothing, and JSON has no word for it.
func optFloatFromWire(v *float64) engines.Opt[float64] {
	if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) {
		return engines.Opt[float64]{}
	}
	return engines.Known(*v)
}
