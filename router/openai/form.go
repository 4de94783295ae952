package openai

import (
	"bytes"
	"mime"
	"strings"
	"unicode/utf8"
)

// Bounds of a form. OpenAI's longest, an image edit, has some thirty parts with
// headers of a few hundred bytes.
const (
	// MaxFormParts is how many parts a form may have.
	MaxFormParts = 256
	// MaxPartHeaderBytes is how long the header of one part may be.
	MaxPartHeaderBytes = 8 << 10
	// MaxFormModelBytes is how long the value of a form's model may be.
	MaxFormModelBytes = 1 << 10
)

// formPiece is how much of a form is looked at at a time, and so with the header
// of a part the most that is held of it.
const formPiece = 32 << 10

// Form finds in a multipart/form-data body, while its bytes pass, what a relay
// needs to know of it: the model, wherever among the parts it stands, and where
// its value is. It holds at most 40 KiB of the body. Give it the body's bytes by
// Write, split anywhere, and call Close at the body's end; what it found holds
// after Close returned nil.
//
// Servers read forms differently where RFC 2046 and RFC 7578 leave room, and who
// gets another model past a gateway than the one it allowed has found such a
// place. So a Form refuses what it could read in two ways: a preamble, an
// epilogue, the boundary anywhere but as a delimiter, bare line ends, folded
// headers, transfer encodings, a second "model" in any spelling, escaped quotes
// but in a file name that ends its header and holds neither ";" nor "=". A file
// name may be in any encoding that has ASCII in it, all else is UTF-8.
// What it accepts, package mime/multipart reads alike (FuzzForm).
type Form struct {
	// Model is the value of the part "model", and ModelSpan where it stands.
	Model     string
	ModelSpan Span
	// Stream is whether the part "stream" says yes.
	Stream bool
	// User is the part "user" if it is at most 1,024 bytes of text, else empty.
	User string
	// PromptBytes is the size of the parts "prompt" and "input" that are no
	// files.
	PromptBytes int
	// Parts is the number of parts.
	Parts int

	dash   []byte // two dashes and the boundary
	state  formState
	buf    []byte // what is not scanned
	at     int    // of buf in the body
	part   formPart
	start  int    // of the part's value in the body
	value  []byte // of the part, as far as it is of interest
	models int
	err    *PeekError
}

type formState uint8

const (
	formStart     formState = iota // the first delimiter is expected
	formDelimited                  // a delimiter stands before
	formHeader                     // within the header of a part
	formBody                       // within the value of a part
	formEnd                        // the last delimiter stands before
	formOver                       // and a line end after it
)

// NewForm returns a Form for a body of that content type, the value of the
// header. An error is a *PeekError: ErrNotForm, or ErrNoBoundary.
func NewForm(contentType string) (*Form, error) {
	// Extended and continued parameters (RFC 2231) and quoted pairs are read by
	// few, so that they would hide a boundary from the others.
	kind, _, _ := strings.Cut(contentType, ";")
	if !strings.EqualFold(strings.TrimSpace(kind), "multipart/form-data") {
		return nil, &PeekError{Kind: ErrNotForm}
	}
	_, params, err := mime.ParseMediaType(contentType)
	charset := params["charset"]
	switch boundary := params["boundary"]; {
	case err != nil || strings.ContainsAny(contentType, `*\`):
		return nil, &PeekError{Kind: ErrNoBoundary, Detail: "the content type is malformed"}
	case boundary == "":
		return nil, &PeekError{Kind: ErrNoBoundary, Detail: "the content type has no boundary"}
	case !validBoundary(boundary):
		return nil, &PeekError{Kind: ErrNoBoundary, Detail: "the boundary is not 1 to 70 of the characters that RFC 2046 allows"}
	case charset != "" && !strings.EqualFold(charset, "utf-8"):
		return nil, &PeekError{Kind: ErrNoBoundary, Detail: "the form's charset is not utf-8"}
	default:
		return &Form{dash: []byte("--" + boundary)}, nil
	}
}

// validBoundary is whether b is a boundary by RFC 2046, section 5.1.1, without
// spaces, which nobody uses.
func validBoundary(b string) bool {
	for _, c := range []byte(b) {
		if !alphanumeric(c) && strings.IndexByte("'()+_,-./:=?", c) < 0 {
			return false
		}
	}
	return len(b) <= 70
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// Write takes the next bytes of the body; it keeps none of b. An error is a
// *PeekError, and the same one from there on.
func (f *Form) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0 && f.err == nil; {
		piece := rest[:min(len(rest), formPiece)]
		rest = rest[len(piece):]
		f.buf = append(f.buf, piece...)
		used := 0
		for more := true; more && f.err == nil; {
			var n int
			n, more = f.step(f.buf[used:])
			used += n
			f.at += n
		}
		f.buf = f.buf[:copy(f.buf, f.buf[used:])]
	}
	if f.err != nil {
		return 0, f.err
	}
	return len(b), nil
}

// Close says that the body has ended. An error is a *PeekError.
func (f *Form) Close() error {
	switch {
	case f.err != nil:
	case len(f.buf) > 0 && f.state == formEnd:
		f.fail(0, ErrMalformedForm, "more follows after the last boundary")
	case f.state < formEnd:
		f.fail(len(f.buf), ErrTruncated, "the last boundary is missing")
	case f.models == 0 || f.ModelSpan == Span{}:
		f.fail(0, ErrNoModel, "")
	}
	if f.err != nil {
		return f.err
	}
	return nil
}

// fail notes the first error, found i bytes after f.at.
func (f *Form) fail(i int, err error, why string) (int, bool) {
	if f.err == nil {
		f.err = &PeekError{Kind: err, Offset: f.at + i, Detail: why}
	}
	return 0, false
}

// step looks at the bytes that come next and returns how many of them are done
// with. more is false if those that follow are needed to go on.
func (f *Form) step(b []byte) (n int, more bool) {
	switch f.state {
	case formStart:
		switch {
		case bytes.HasPrefix(b, f.dash):
			f.state = formDelimited
			return len(f.dash), true
		case bytes.HasPrefix(f.dash, b):
			return 0, false
		}
		return f.fail(0, ErrMalformedForm, "the body does not begin with the boundary")
	case formDelimited:
		return f.delimited(b)
	case formHeader:
		return f.header(b)
	case formBody:
		return f.body(b)
	case formEnd:
		switch {
		case len(b) == 0 || string(b) == "\r":
			return 0, false
		case bytes.HasPrefix(b, crlf):
			f.state = formOver
			return len(crlf), true
		}
	case formOver:
		if len(b) == 0 {
			return 0, false
		}
	}
	return f.fail(0, ErrMalformedForm, "more follows after the last boundary")
}

var crlf = []byte("\r\n") //nolint:gochecknoglobals // constant

// delimited tells the delimiter before a part from the last one.
func (f *Form) delimited(b []byte) (n int, more bool) {
	switch {
	case len(b) < 2:
		return 0, false
	case string(b[:2]) == "--":
		f.state = formEnd
		return 2, true
	case string(b[:2]) != "\r\n":
		return f.fail(0, ErrMalformedForm, "the boundary does not end its line")
	}
	if f.Parts++; f.Parts > MaxFormParts {
		return f.fail(0, ErrFormLimit, "it has more than 256 parts")
	}
	f.state = formHeader
	return 2, true
}

// header reads the header of a part once all of it is there.
func (f *Form) header(b []byte) (n int, more bool) {
	if bytes.HasPrefix(b, crlf) {
		return f.fail(0, ErrMalformedForm, "a part has no header")
	}
	end := bytes.Index(b[:min(len(b), MaxPartHeaderBytes)], []byte("\r\n\r\n"))
	if end < 0 {
		if len(b) >= MaxPartHeaderBytes {
			return f.fail(0, ErrFormLimit, "the header of a part is longer than 8 KiB")
		}
		return 0, false
	}
	if bytes.Contains(b[:end], f.dash) {
		return f.fail(0, ErrMalformedForm, "the boundary stands within the header of a part")
	}
	p, why := readPart(b[:end])
	switch {
	case why != "":
		return f.fail(0, ErrMalformedForm, why)
	case p.namesModel():
		if f.models++; f.models > 1 {
			return f.fail(0, ErrDuplicateModel, "")
		}
		if p.name == "model" && (p.file || !p.plain) {
			return f.fail(0, ErrModelNotString, "")
		}
	}
	n = end + len("\r\n\r\n")
	f.part, f.start, f.value, f.state = p, f.at+n, f.value[:0], formBody
	return n, true
}

// body looks for the end of a part's value.
func (f *Form) body(b []byte) (n int, more bool) {
	i := bytes.Index(b, f.dash)
	if i < 0 {
		// A delimiter may have begun, with its line end before it.
		n = max(0, len(b)-len(f.dash)-1)
		if !f.take(b[:n]) {
			return f.fail(0, ErrFormLimit, "the model is longer than 1,024 bytes")
		}
		return n, false
	}
	if i < 2 || string(b[i-2:i]) != "\r\n" {
		return f.fail(i, ErrMalformedForm, "the boundary stands within a part")
	}
	if !f.take(b[:i-2]) {
		return f.fail(0, ErrFormLimit, "the model is longer than 1,024 bytes")
	}
	f.endPart(Span{f.start, f.at + i - 2})
	f.state = formDelimited
	return i + len(f.dash), true
}

// take keeps the value of a part that is of interest; false if it is too long
// for what it is.
func (f *Form) take(b []byte) bool {
	if f.part.file {
		return true
	}
	switch f.part.name {
	case "model":
		if len(f.value)+len(b) > MaxFormModelBytes {
			return false
		}
	case "user", "stream":
		b = b[:min(len(b), maxUserBytes+1-len(f.value))]
	default:
		return true
	}
	f.value = append(f.value, b...)
	return true
}

// endPart takes note of a part whose value stands at v.
func (f *Form) endPart(v Span) {
	if f.part.file {
		return
	}
	switch f.part.name {
	case "model":
		switch {
		case len(f.value) == 0:
			f.fail(0, ErrNoModel, "the model is empty")
		case !plainText(f.value):
			f.fail(0, ErrModelNotString, "")
		}
		f.Model, f.ModelSpan = string(f.value), v
	case "stream":
		f.Stream = yes(string(f.value))
	case "user":
		if f.User = ""; len(f.value) <= maxUserBytes && plainText(f.value) {
			f.User = string(f.value)
		}
	case "prompt", "input":
		f.PromptBytes += v.Len()
	}
}

// yes is whether a server takes the value of a field for true: the words are
// those of pydantic, which vLLM and SGLang read forms by.
func yes(s string) bool {
	switch strings.ToLower(s) {
	case "1", "on", "t", "true", "y", "yes":
		return true
	}
	return false
}

// plainText is whether b is valid UTF-8 without control characters.
func plainText(b []byte) bool {
	return utf8.Valid(b) && bytes.IndexFunc(b, func(r rune) bool { return r < ' ' || r == 0x7f }) < 0
}
