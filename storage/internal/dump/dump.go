// Package dump is the form in which a store's content is carried to another:
// lines of JSON, the first of which says what it is, and the last how much there
// was and its checksum.
package dump

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/llmgw/llmgw/storage"
)

const (
	format = "llmgw-store"
	// Version is that of the form. A reader takes every one up to it. Version 2
	// has a key's lineage and may_explain, version 3 the fleet, version 4 models,
	// version 5 accounts, their links and a key's account, version 6 providers.
	Version = 6
	// maxLine bounds a line: a node's registration of 1 MiB, each byte escaped.
	maxLine = 8 << 20
)

type header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Schema  int    `json:"schema"` // of the store it came from, for people
}

type trailer struct {
	End    bool   `json:"end"`
	Lines  int64  `json:"lines"` // records
	SHA256 string `json:"sha256"`
}

// Record is one line. One field is set.
type Record struct {
	Mark   *Mark   `json:"mark,omitempty"`
	Key    *Key    `json:"key,omitempty"`
	Audit  *Audit  `json:"audit,omitempty"`
	Budget *Budget `json:"budget,omitempty"`
	Grant  *Grant  `json:"grant,omitempty"`
	Usage  *Usage  `json:"usage,omitempty"`
	Hour   *Rollup `json:"hour,omitempty"`
	Day    *Rollup `json:"day,omitempty"`

	Term    *Term    `json:"term,omitempty"`
	Node    *Node    `json:"node,omitempty"`
	Cordon  *Cordon  `json:"cordon,omitempty"`
	Replica *Replica `json:"replica,omitempty"`
	Model   *Model   `json:"model,omitempty"`
	Account *Account `json:"account,omitempty"`
	Link    *Link    `json:"link,omitempty"`

	Provider *Provider `json:"provider,omitempty"`

	End json.RawMessage `json:"end,omitempty"` // of the trailer
}

// Writer writes a dump.
type Writer struct {
	w     *bufio.Writer
	sum   hash.Hash
	enc   *json.Encoder
	lines int64
}

// NewWriter writes the header.
func NewWriter(w io.Writer, schema int) (*Writer, error) {
	d := &Writer{w: bufio.NewWriterSize(w, 64<<10), sum: sha256.New()}
	d.enc = json.NewEncoder(io.MultiWriter(d.w, d.sum))
	d.enc.SetEscapeHTML(false) // audited JSON stays as it is, byte for byte
	return d, d.enc.Encode(header{format, Version, schema})
}

// Put writes a record.
func (d *Writer) Put(r Record) error {
	d.lines++
	return d.enc.Encode(r)
}

// Close writes the trailer. Without it the dump is not whole.
func (d *Writer) Close() error {
	t := trailer{End: true, Lines: d.lines, SHA256: hex.EncodeToString(d.sum.Sum(nil))}
	if err := d.enc.Encode(t); err != nil {
		return err
	}
	return d.w.Flush()
}

// Reader reads a dump.
type Reader struct {
	in    *bufio.Scanner
	sum   hash.Hash
	lines int64
	done  bool
}

// NewReader reads the header. What is no dump is ErrInvalid, one of a newer
// program ErrSchema.
func NewReader(r io.Reader) (*Reader, error) {
	d := &Reader{in: bufio.NewScanner(r), sum: sha256.New()}
	d.in.Buffer(make([]byte, 64<<10), maxLine)
	d.in.Split(wholeLines)
	if !d.in.Scan() {
		if err := d.in.Err(); err != nil {
			return nil, readError(err)
		}
		return nil, invalid("it is empty")
	}
	var h header
	if err := json.Unmarshal(d.in.Bytes(), &h); err != nil || h.Format != format || h.Version < 1 {
		return nil, invalid(`its first line is not {"format":"` + format + `",…}: it is something else`)
	}
	if h.Version > Version {
		return nil, fmt.Errorf("%w: the dump has version %d, and this program reads up to %d; use a newer one", storage.ErrSchema, h.Version, Version)
	}
	d.sum.Write(d.in.Bytes())
	return d, nil
}

// Next returns a record, and io.EOF after the last of a dump that is whole.
// Until then nothing of it is certain.
func (d *Reader) Next() (Record, error) {
	if d.done {
		return Record{}, io.EOF
	}
	if !d.in.Scan() {
		if err := d.in.Err(); err != nil {
			return Record{}, readError(err)
		}
		return Record{}, invalid("it is cut off: its last line is missing")
	}
	line := d.in.Bytes()
	var r Record
	if bytes.HasPrefix(line, []byte(`{"end":`)) {
		return Record{}, d.end(line)
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return Record{}, invalid(fmt.Sprintf("line %d: %v", d.lines+2, err))
	}
	if dec.More() || !r.single() {
		return Record{}, invalid(fmt.Sprintf("line %d: want one record", d.lines+2))
	}
	d.sum.Write(line)
	d.lines++
	return r, nil
}

func (d *Reader) end(line []byte) error {
	var t trailer
	switch err := json.Unmarshal(line, &t); {
	case err != nil || !t.End:
		return invalid("its last line is damaged")
	case t.Lines != d.lines:
		return invalid(fmt.Sprintf("%d of %d records are there", d.lines, t.Lines))
	case t.SHA256 != hex.EncodeToString(d.sum.Sum(nil)):
		return invalid("the checksum differs: it was changed")
	}
	if d.in.Scan() {
		return invalid("something follows its last line")
	}
	if err := d.in.Err(); err != nil {
		return readError(err)
	}
	d.done = true
	return io.EOF
}

func (r *Record) single() bool {
	n := 0
	for _, there := range []bool{
		r.Mark != nil, r.Key != nil, r.Audit != nil, r.Budget != nil, r.Grant != nil, r.Usage != nil, r.Hour != nil, r.Day != nil,
		r.Term != nil, r.Node != nil, r.Cordon != nil, r.Replica != nil, r.Model != nil, r.Account != nil, r.Link != nil,
		r.Provider != nil,
	} {
		if there {
			n++
		}
	}
	return n == 1 && r.End == nil
}

// wholeLines splits after each newline and keeps it. What lacks one is a line
// that was cut off, and is returned as it is: its JSON or the sum betrays it.
func wholeLines(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i+1], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

func invalid(why string) error { return fmt.Errorf("%w: the dump: %s", storage.ErrInvalid, why) }

func readError(err error) error {
	if errors.Is(err, bufio.ErrTooLong) {
		return invalid(fmt.Sprintf("a line is longer than %d bytes", maxLine))
	}
	return fmt.Errorf("read the dump: %w", err)
}
