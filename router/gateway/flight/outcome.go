package flight

import (
	"encoding/binary"
	"time"
)

// BlockBytes is the part of a prompt, in bytes of what the prefix index reads of
// it, that the gateway writes one fingerprint for.
const BlockBytes = 1024

// Tokens is a number of tokens that may be unknown, which the zero value is.
type Tokens struct {
	n     int64
	known bool
}

// CountTokens returns the known number n; one below 0 is unknown.
func CountTokens(n int64) Tokens { return Tokens{n: max(n, 0), known: n >= 0} }

// Get returns the number and whether it is known. An unknown one gives 0.
func (t Tokens) Get() (int64, bool) { return t.n, t.known }

// Outcome is what became of one request.
type Outcome struct {
	// Request, Session and Tenant are fingerprints; 0: none.
	Request, Session, Tenant uint64
	// Path is the route's; Model as asked for, Served the one that answered;
	// Endpoint the hash of who was asked last, 0 if nobody was.
	Path, Model, Served string
	Band                string
	Endpoint            uint64

	Start time.Time
	// FirstContent is zero if none came.
	FirstContent time.Time
	End          time.Time

	Status int // sent to the client; 0 if nothing was
	// Result is the router's name of it, Code that of an error of ours.
	Result, Code string
	Stream       bool
	Attempts     int
	PromptBytes  int // in the request's body
	BytesOut     int64

	PromptTokens, CachedTokens, OutputTokens Tokens

	// Blocks identify the prompt's whole blocks of BlockBytes bytes each, from its
	// start: two prompts have the same first n ones if they begin with the same n
	// blocks. None where it was not read. A Recorder is given hashes and writes
	// fingerprints of them.
	Blocks     []uint64
	BlockBytes int
}

// TTFT is the time from the start to the first content, false if there was none.
func (o *Outcome) TTFT() (time.Duration, bool) {
	return o.FirstContent.Sub(o.Start), !o.FirstContent.IsZero()
}

// appendHead appends all but the blocks.
func (o *Outcome) appendHead(b []byte) []byte {
	b = append(b, version)
	for _, v := range [...]uint64{o.Request, o.Session, o.Tenant, o.Endpoint} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	for _, v := range [...]string{o.Path, o.Model, o.Served, o.Band, o.Result, o.Code} {
		b = appendText(b, v)
	}
	b = binary.AppendVarint(b, o.Start.UnixNano())
	b = appendBool(b, !o.FirstContent.IsZero())
	if !o.FirstContent.IsZero() {
		b = binary.AppendVarint(b, int64(o.FirstContent.Sub(o.Start)))
	}
	b = binary.AppendVarint(b, int64(o.End.Sub(o.Start)))
	b = appendBool(b, o.Stream)
	for _, v := range [...]int64{int64(o.Status), int64(o.Attempts), int64(o.PromptBytes), o.BytesOut} {
		b = binary.AppendVarint(b, v)
	}
	for _, t := range [...]Tokens{o.PromptTokens, o.CachedTokens, o.OutputTokens} {
		b = appendBool(b, t.known)
		if t.known {
			b = binary.AppendUvarint(b, uint64(t.n))
		}
	}
	return b
}

// appendBlocks appends the blocks' fingerprints. A record without has nothing
// here.
func (o *Outcome) appendBlocks(b []byte, fingerprint func([]byte) uint64) []byte {
	if len(o.Blocks) == 0 {
		return b
	}
	b = binary.AppendUvarint(b, uint64(o.BlockBytes))
	b = binary.AppendUvarint(b, uint64(len(o.Blocks)))
	for _, h := range o.Blocks {
		at := len(b)
		b = binary.LittleEndian.AppendUint64(b, h)
		binary.LittleEndian.PutUint64(b[at:], fingerprint(b[at:]))
	}
	return b
}

func parseOutcome(payload []byte) (*Outcome, error) {
	r, err := open(payload)
	if err != nil {
		return nil, err
	}
	o := new(Outcome)
	for _, v := range [...]*uint64{&o.Request, &o.Session, &o.Tenant, &o.Endpoint} {
		*v = r.uint64()
	}
	for _, v := range [...]*string{&o.Path, &o.Model, &o.Served, &o.Band, &o.Result, &o.Code} {
		*v = r.text()
	}
	o.Start = r.time()
	if r.bool() {
		o.FirstContent = o.Start.Add(time.Duration(r.varint()))
	}
	o.End = o.Start.Add(time.Duration(r.varint()))
	o.Stream = r.bool()
	o.Status, o.Attempts, o.PromptBytes, o.BytesOut = int(r.varint()), int(r.varint()), int(r.varint()), r.varint()
	for _, t := range [...]*Tokens{&o.PromptTokens, &o.CachedTokens, &o.OutputTokens} {
		if r.bool() {
			*t = CountTokens(int64(r.uvarint()))
		}
	}
	if len(r.rest) > 0 {
		o.BlockBytes = int(r.uvarint())
		o.Blocks = make([]uint64, r.count(8))
		for i := range o.Blocks {
			o.Blocks[i] = r.uint64()
		}
	}
	return o, r.end()
}
