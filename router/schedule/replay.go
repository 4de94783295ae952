package schedule

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/llmgw/llmgw/router/endpoint"
)

// Replay makes the decision of a record again, by the named profile or, if that is
// empty, by the one it was made by: the scorers vote on its candidates and the
// picker draws as it did. It overwrites the record's profile, scores, votes and
// pick, and returns the index of the pick. With the same profile and configuration
// that is the recorded one; with another it is what that would have picked of
// these candidates. Nothing is filtered, sampled, reserved, counted or told to the
// prefix index.
//
// Scorers get a request that has of the original what the record has; the
// built-in ones need no more. One of your own that looks at Candidate.Endpoint
// needs that filled in before, by Candidate.Hash.
//
// The error wraps ErrUnknownProfile or ErrBadScore, or is a *NoEndpointError if
// there is no candidate; then the record's pick is -1. Replay may run concurrently
// on distinct records.
func (s *Scheduler) Replay(profile string, rec *Decision) (int, error) {
	if profile == "" {
		profile = rec.Profile
	}
	p, ok := s.profiles[profile]
	if !ok {
		return -1, fmt.Errorf("%w: %q; there are %v", ErrUnknownProfile, profile, s.Profiles())
	}
	rec.Profile, rec.profile, rec.Picked = p.Name, p, -1
	if len(rec.Candidates) == 0 {
		return -1, &NoEndpointError{Model: rec.Model, Pool: rec.Pool}
	}
	req := &Request{
		Model: rec.Model, Tenant: rec.Tenant, Band: rec.Band, PromptBytes: rec.PromptBytes, MaxTokens: rec.MaxTokens,
		Stream: rec.Stream, Now: rec.At, PoolVersion: rec.PoolVersion, SessionHash: rec.SessionHash,
	}
	picked, err := p.judge(req, rec)
	if err != nil {
		return -1, err
	}
	rec.Picked = picked
	return picked, nil
}

// UnmarshalBinary replaces the decision by the one that AppendBinary wrote, and
// keeps nothing of data. The candidates have no Endpoint but its Hash, and there
// are no votes and scores before a [Scheduler.Replay]. The error wraps
// ErrBadRecord; the decision is then of no use.
func (d *Decision) UnmarshalBinary(data []byte) error {
	*d = Decision{Picked: -1}
	r := recordReader{rest: data}
	if v := r.byte(); v != recordVersion {
		return fmt.Errorf("%w: its form is %d; this version reads %d", ErrBadRecord, v, recordVersion)
	}
	known := r.byte()
	d.Stream, d.Sampled, d.Prompt = known&recordStream != 0, known&recordSampled != 0, known&recordPrompt != 0
	d.Profile = r.text()
	d.At = time.Unix(0, r.varint()).UTC()
	d.Draw = r.uint64()
	if known&recordSession != 0 {
		d.Session, d.SessionHash = true, r.uint64()
	}
	for _, v := range []*int{&d.Attempts, &d.PromptBytes, &d.MaxTokens, &d.Pool, &d.Picked} {
		*v = int(r.varint())
	}
	d.PoolVersion = r.uvarint()
	const leastCandidate, leastDrop = 11, 9 // bytes
	d.Candidates = make([]Candidate, r.count(leastCandidate))
	for i := range d.Candidates {
		r.candidate(&d.Candidates[i], d.At)
	}
	d.Dropped = make([]Drop, r.count(leastDrop))
	filter := ""
	for i := range d.Dropped {
		if name := r.text(); name != "" {
			filter = name
		}
		d.Dropped[i] = Drop{Filter: filter, hash: r.uint64()}
	}
	switch {
	case r.short:
		return fmt.Errorf("%w: its %d bytes end too early", ErrBadRecord, len(data))
	case len(r.rest) > 0:
		return fmt.Errorf("%w: %d bytes follow it", ErrBadRecord, len(r.rest))
	case d.Picked < -1 || d.Picked >= len(d.Candidates):
		return fmt.Errorf("%w: the pick is %d of %d", ErrBadRecord, d.Picked, len(d.Candidates))
	}
	return nil
}

// recordReader reads a record; once it is too short, everything reads as zero.
type recordReader struct {
	rest  []byte
	short bool
}

func (r *recordReader) take(n int) []byte {
	if len(r.rest) < n {
		r.rest, r.short = nil, true
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *recordReader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *recordReader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *recordReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if r.take(max(n, 0)); n <= 0 {
		r.rest, r.short = nil, true
		return 0
	}
	return v
}

func (r *recordReader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if r.take(max(n, 0)); n <= 0 {
		r.rest, r.short = nil, true
		return 0
	}
	return v
}

func (r *recordReader) text() string { return string(r.take(int(r.byte()))) }

func (r *recordReader) float() float64 {
	return math.Float64frombits(bits.ReverseBytes64(r.uvarint()))
}

// count reads how many things of at least so many bytes follow.
func (r *recordReader) count(least int) int {
	n := r.uvarint()
	if n > uint64(len(r.rest)/least) {
		r.rest, r.short = nil, true
		return 0
	}
	return int(n)
}

func (r *recordReader) candidate(c *Candidate, at time.Time) {
	known := r.byte()
	c.Hash, c.Weight, c.InFlight = r.uint64(), r.float(), r.varint()
	c.Stale = known&recordStale != 0
	if known&recordLoad != 0 {
		inFlight, age := r.varint(), time.Duration(r.varint())
		reading := func(bit byte) float64 {
			if known&bit == 0 {
				return math.NaN() // unknown
			}
			return r.float()
		}
		running, waiting, used := reading(recordRunning), reading(recordWaiting), reading(recordKVUsed)
		c.Load, c.Age = endpoint.NewLoadState(at.Add(-age), inFlight, running, waiting, used), age
	}
	if known&recordFailures != 0 {
		c.Failures = r.float()
	}
	if known&recordPrefix != 0 {
		c.Prefix = PrefixMatch{
			Exact: known&recordExact != 0,
			Bytes: int(r.varint()), PromptBytes: int(r.varint()), Seen: int(r.varint()), Doubt: r.float(),
		}
	}
	c.work()
}
