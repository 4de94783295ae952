package generate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/llmgw/llmgw/router/openai"
)

// errBadEvent says that a stream is no stream of completions.
var errBadEvent = errors.New("malformed event")

// facts is what one event says.
type facts struct {
	content  bool // output: text, reasoning, a call of a tool; not a role alone
	finish   bool // a finish_reason
	done     bool // [DONE]
	failed   bool // an error instead of a chunk
	usage    openai.Usage
	hasUsage bool
	badUsage string // what is wrong with the counts; "": nothing
	data     []byte // of an event that failed; valid until the next call
}

// events cuts a stream of completions into events and says what each one
// brings. It is strict where a relay must not be: data that is neither JSON nor
// [DONE] is an error. Lines end in LF or CRLF. The zero value is ready.
type events struct {
	kept    kept
	pending []byte // the unfinished event
	from    int    // of pending: lines before it were looked at
	joined  []byte
	stream  openai.Stream
}

// reset makes e ready for another stream; its buffers are kept if they are
// small.
func (e *events) reset() {
	if cap(e.pending)+cap(e.joined) > freeBytes {
		e.pending, e.joined = nil, nil
	}
	e.pending, e.from = e.pending[:0], 0
	e.kept.release()
}

// feed takes the next bytes and yields the facts of each event that they
// complete, those without data left out. It stops at an error, its own, which
// wraps errBadEvent or errTooLong, or that of yield.
func (e *events) feed(p []byte, yield func(facts) error) error {
	e.pending = append(e.pending, p...)
	if err := e.kept.hold(cap(e.pending) + cap(e.joined)); err != nil {
		return err
	}
	start := 0 // of the event
	for at := e.from; ; {
		lf := bytes.IndexByte(e.pending[at:], '\n')
		if lf < 0 {
			e.pending = e.pending[:copy(e.pending, e.pending[start:])]
			e.from = at - start
			break
		}
		line := e.pending[at : at+lf]
		at += lf + 1
		if len(line) > 1 || len(line) == 1 && line[0] != '\r' {
			continue
		}
		f, ok, err := e.read(e.pending[start:at])
		start = at
		if err == nil && ok {
			err = yield(f)
		}
		if err != nil {
			return err
		}
	}
	if len(e.pending) > maxEventBytes {
		return fmt.Errorf("%w: an event of more than %d MiB", errTooLong, maxEventBytes>>20)
	}
	return nil
}

// unfinished is whether the stream so far ends inside an event.
func (e *events) unfinished() bool { return len(bytes.TrimSpace(e.pending)) > 0 }

// read looks at one event with its blank line; ok is false if it has no data.
func (e *events) read(ev []byte) (f facts, ok bool, err error) {
	data := e.data(ev)
	if len(bytes.TrimSpace(data)) == 0 {
		return f, false, nil
	}
	// A fresh Stream for each event tells what this one brings: content is
	// sticky in a Stream.
	e.stream.Reset(openai.StreamOptions{})
	e.stream.Feed(ev)
	f = facts{content: e.stream.SawContent(), done: e.stream.Done(), failed: e.stream.Failed()}
	switch {
	case f.failed:
		f.data = data
	case f.done:
	case !json.Valid(data) || bytes.TrimSpace(data)[0] != '{':
		return f, false, fmt.Errorf("%w: its data is neither a JSON object nor [DONE]: %s", errBadEvent, excerpt(data))
	default:
		f.finish = hasFinish(data)
		f.usage, f.hasUsage = e.stream.Usage()
		f.badUsage = badUsage(data)
	}
	return f, true, nil
}

// data returns the event's data, several lines joined by LF.
func (e *events) data(ev []byte) (data []byte) {
	n := 0 // lines
	for line := range bytes.Lines(ev) {
		line = bytes.TrimRight(line, "\r\n")
		value, found := bytes.CutPrefix(line, []byte("data"))
		if !found || len(value) > 0 && value[0] != ':' {
			continue
		}
		value = bytes.TrimPrefix(bytes.TrimPrefix(value, []byte(":")), []byte(" "))
		switch n++; n {
		case 1:
			data = value
		case 2:
			e.joined = append(append(append(e.joined[:0], data...), '\n'), value...)
			data = e.joined
		default:
			e.joined = append(append(e.joined, '\n'), value...)
			data = e.joined
		}
	}
	return data
}

// hasFinish is whether a chunk has a finish_reason that is not null. A key
// cannot stand inside a string without its quotes escaped.
func hasFinish(chunk []byte) bool {
	key := []byte(`"finish_reason"`)
	for {
		i := bytes.Index(chunk, key)
		if i < 0 {
			return false
		}
		chunk = chunk[i+len(key):]
		value, isKey := bytes.CutPrefix(bytes.TrimLeft(chunk, " \t\r\n"), []byte(":"))
		value = bytes.TrimLeft(value, " \t\r\n")
		if isKey && len(value) > 2 && value[0] == '"' && value[1] != '"' {
			return true
		}
	}
}

// excerpt is the beginning of b, quoted, for a message.
func excerpt(b []byte) string {
	const most = 80
	if len(b) > most {
		return fmt.Sprintf("%q…", b[:most])
	}
	return fmt.Sprintf("%q", b)
}
