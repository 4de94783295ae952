package openai

import (
	"errors"
	"fmt"
)

// What PeekBody and Form can refuse, found by errors.Is in the *PeekError they
// return.
var (
	// ErrNotJSON: the body is not JSON text, or more follows after it.
	ErrNotJSON = errors.New("openai: body is not JSON")
	// ErrNotObject: the body is JSON but not an object.
	ErrNotObject = errors.New("openai: body is not a JSON object")
	// ErrTruncated: the body ends before its JSON text does.
	ErrTruncated = errors.New("openai: body is cut short")
	// ErrTooDeep: objects and arrays nest deeper than MaxDepth.
	ErrTooDeep = errors.New("openai: body nests too deep")
	// ErrNoModel: there is no top-level "model", or it is empty.
	ErrNoModel = errors.New("openai: no model")
	// ErrModelNotString: "model" is not a string, or no valid Unicode.
	ErrModelNotString = errors.New("openai: model is not a string")
	// ErrDuplicateModel: "model" stands twice, escaped spellings and other
	// upper and lower case included.
	ErrDuplicateModel = errors.New("openai: two models")
	// ErrDuplicateField: another field that may stand only once, which Detail
	// names, stands twice, spelled in whatever way.
	ErrDuplicateField = errors.New("openai: a field stands twice")
	// ErrNotForm: the content type is not multipart/form-data.
	ErrNotForm = errors.New("openai: body is not a form")
	// ErrNoBoundary: the content type of a form names no usable boundary.
	ErrNoBoundary = errors.New("openai: form without a boundary")
	// ErrMalformedForm: the parts of a form cannot be told apart, or could be in
	// more than one way.
	ErrMalformedForm = errors.New("openai: form is malformed")
	// ErrFormLimit: a form has too many parts, or too long a header or model.
	ErrFormLimit = errors.New("openai: form exceeds a bound")
)

// PeekError is the error of PeekBody and Form.
type PeekError struct {
	Kind   error  // one of the sentinels above
	Offset int    // bytes from the start of the body
	Detail string // what was expected there, or the field at fault; may be empty; holds no input
}

func (e *PeekError) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("%v at byte %d", e.Kind, e.Offset)
	}
	return fmt.Sprintf("%v at byte %d: %s", e.Kind, e.Offset, e.Detail)
}

// Unwrap returns the sentinel.
func (e *PeekError) Unwrap() error { return e.Kind }
