package schedule

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// recordVersion is the first byte of a record. A form is never changed: the next
// gets the next number.
const recordVersion = 1

// What a record knows of the decision and of a candidate, one bit each.
const (
	recordSession = 1 << iota
	recordStream
	recordSampled
	recordPrompt
)

const (
	recordLoad = 1 << iota
	recordStale
	recordRunning
	recordWaiting
	recordKVUsed
	recordFailures
	recordPrefix
	recordExact
)

// AppendBinary appends the decision to b in a compact form, from which
// [Decision.UnmarshalBinary] and [Scheduler.Replay] make it again: what it was
// made on, the draw and the pick, and not votes and scores, which follow from
// them. It has no text but the names of the profile and of the filters that
// dropped something; endpoints and the session are hashes. The hash of a session
// is not keyed: who must not let it be guessed at gives Request.SessionHash a keyed
// one. A candidate takes some 20 to 45 bytes. The error is always nil.
func (d *Decision) AppendBinary(b []byte) ([]byte, error) {
	var known byte
	set := func(bit byte, on bool) {
		if on {
			known |= bit
		}
	}
	set(recordSession, d.SessionHash != 0)
	set(recordStream, d.Stream)
	set(recordSampled, d.Sampled)
	set(recordPrompt, d.Prompt)
	b = append(b, recordVersion, known)
	b = appendText(b, d.Profile)
	b = binary.AppendVarint(b, d.At.UnixNano())
	b = binary.LittleEndian.AppendUint64(b, d.Draw)
	if d.SessionHash != 0 {
		b = binary.LittleEndian.AppendUint64(b, d.SessionHash)
	}
	for _, v := range []int{d.Attempts, d.PromptBytes, d.MaxTokens, d.Pool, d.Picked} {
		b = binary.AppendVarint(b, int64(v))
	}
	b = binary.AppendUvarint(b, d.PoolVersion)
	b = binary.AppendUvarint(b, uint64(len(d.Candidates)))
	for i := range d.Candidates {
		b = d.Candidates[i].append(b)
	}
	b = binary.AppendUvarint(b, uint64(len(d.Dropped)))
	filter := ""
	for i := range d.Dropped {
		drop := &d.Dropped[i]
		if drop.Filter == filter {
			b = appendText(b, "") // the one before
		} else {
			filter = drop.Filter
			b = appendText(b, filter)
		}
		b = binary.LittleEndian.AppendUint64(b, drop.Hash())
	}
	return b, nil
}

// append appends the candidate's signals.
func (c *Candidate) append(b []byte) []byte {
	at := len(b)
	b = append(b, 0)
	b = binary.LittleEndian.AppendUint64(b, c.Hash)
	b = appendFloat(b, c.Weight)
	b = binary.AppendVarint(b, c.InFlight)
	var known byte
	if c.Stale {
		known |= recordStale
	}
	if l := c.Load; l != nil {
		known |= recordLoad
		b = binary.AppendVarint(b, l.InFlight)
		b = binary.AppendVarint(b, int64(c.Age))
		if v, ok := l.Running.Get(); ok {
			known |= recordRunning
			b = appendFloat(b, v)
		}
		if v, ok := l.Waiting.Get(); ok {
			known |= recordWaiting
			b = appendFloat(b, v)
		}
		if v, ok := l.KVUsedRatio.Get(); ok {
			known |= recordKVUsed
			b = appendFloat(b, v)
		}
	}
	if c.Failures != 0 {
		known |= recordFailures
		b = appendFloat(b, c.Failures)
	}
	if m := c.Prefix; m.Bytes > 0 {
		known |= recordPrefix
		if m.Exact {
			known |= recordExact
		}
		b = binary.AppendVarint(b, int64(m.Bytes))
		b = binary.AppendVarint(b, int64(m.PromptBytes))
		b = binary.AppendVarint(b, int64(m.Seen))
		b = appendFloat(b, m.Doubt)
	}
	b[at] = known
	return b
}

// appendText appends a name of at most 255 bytes; what is longer is cut.
func appendText(b []byte, text string) []byte {
	text = text[:min(len(text), math.MaxUint8)]
	return append(append(b, byte(len(text))), text...)
}

// appendFloat appends v exactly, in few bytes if it is a small whole number:
// those have their bits at the upper end.
func appendFloat(b []byte, v float64) []byte {
	return binary.AppendUvarint(b, bits.ReverseBytes64(math.Float64bits(v)))
}
