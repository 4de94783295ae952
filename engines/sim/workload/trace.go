package workload

import (
	"errors"
	"fmt"
	"time"
)

// Bounds of what a trace may hold. Anything beyond is taken for a mistake in
// the file or in an argument.
const (
	// MaxTokens bounds a prompt's and an answer's length.
	MaxTokens = 1 << 24
	// MaxSpan bounds the time from a trace's first request to its last.
	MaxSpan = 10 * 366 * 24 * time.Hour
	// MaxRequests bounds the requests of one trace. So many take some 500 MB
	// of memory.
	MaxRequests = 5_000_000
	// MaxBlocks bounds the block ids of all requests of one trace.
	MaxBlocks = 1 << 25
	// MaxBytes bounds a file, after unpacking: a few megabytes of gzip can
	// hold gigabytes.
	MaxBytes = 512 << 20
)

// Request is one call of a trace.
type Request struct {
	// At is when it arrives, counted from the trace's first request, which
	// is at 0. It is never before its predecessor's.
	At time.Duration
	// PromptTokens is the prompt's length, 1 to MaxTokens.
	PromptTokens int
	// OutputTokens is the answer's length, 1 to MaxTokens.
	OutputTokens int
	// Blocks are the identities of the prompt's blocks of Trace.BlockTokens
	// tokens each, of which the last may be partly filled. Requests with
	// the same first n ids have the same first n blocks. What the ids do
	// not reach is the request's own; nil: nothing is shared, or Text has
	// it. Traces share these slices: do not write to one.
	Blocks []uint64
	// Text is the prompt itself where the trace has it, else "". Its count
	// of tokens is that of the trace's own tokenizer.
	Text string
	// Session is the conversation or user it belongs to, "" if unknown.
	Session string
	// Seq numbers the requests of a trace; no two have the same. The
	// [Prompter] makes from it what a request shares with no other.
	Seq uint64
	// Line is where it stands in the file, from 1; 0 if it is from none.
	Line int
}

// Trace is a workload: requests in the order of their arrival. Treat it as
// immutable; it may then be used concurrently.
type Trace struct {
	// Name is the file's name, or what [Synthesize] drew from.
	Name string
	// Format is the format it was read from, [Synthesized] if from none.
	Format Format
	// BlockTokens is the size of the blocks that Request.Blocks numbers,
	// 1 to MaxTokens; 0 if no request has any.
	BlockTokens int
	// Requests are all requests, at least one.
	Requests []Request
}

// Format names how a file describes requests; see the package comment.
type Format string

// The formats. The zero Format means: tell it from the content.
const (
	Mooncake Format = "mooncake"
	Qwen     Format = "qwen"
	Azure    Format = "azure"
	BurstGPT Format = "burstgpt"
	AIBrix   Format = "aibrix"
	// Synthesized is the format of what [Synthesize] made. No file has it.
	Synthesized Format = "synthetic"
)

// Formats lists the formats that can be read.
func Formats() []Format { return []Format{Mooncake, Qwen, Azure, BurstGPT, AIBrix} }

// Validate checks what the comments of Trace and Request promise, for traces
// that were put together by hand. [Open], [Read], [Synthesize] and the methods
// return valid traces. The first fault is returned; it wraps [ErrInvalid] and
// names the request by its index.
func (t *Trace) Validate() error {
	switch {
	case len(t.Requests) == 0:
		return fmt.Errorf("%w: %w", ErrInvalid, ErrEmpty)
	case len(t.Requests) > MaxRequests:
		return fmt.Errorf("%w: %d requests, want at most %d", ErrInvalid, len(t.Requests), MaxRequests)
	case t.BlockTokens < 0 || t.BlockTokens > MaxTokens:
		return fmt.Errorf("%w: block tokens: %d, want 0 (no blocks) to %d", ErrInvalid, t.BlockTokens, MaxTokens)
	}
	last, blocks := time.Duration(0), 0
	for i := range t.Requests {
		r := &t.Requests[i]
		if err := t.checkRequest(r, last); err != nil {
			return fmt.Errorf("%w: request %d: %w", ErrInvalid, i, err)
		}
		if i == 0 && r.At != 0 {
			return fmt.Errorf("%w: request 0: at %v, want 0", ErrInvalid, r.At)
		}
		if blocks += len(r.Blocks); blocks > MaxBlocks {
			return fmt.Errorf("%w: request %d: more than %d blocks up to it", ErrInvalid, i, MaxBlocks)
		}
		last = r.At
	}
	return t.checkSeqs()
}

// checkSeqs looks for a number that stands twice.
func (t *Trace) checkSeqs() error {
	ascending := true // as usual: saves a map of half the trace's size
	for i := 1; i < len(t.Requests) && ascending; i++ {
		ascending = t.Requests[i-1].Seq < t.Requests[i].Seq
	}
	if ascending {
		return nil
	}
	seen := make(map[uint64]struct{}, len(t.Requests))
	for i := range t.Requests {
		seq := t.Requests[i].Seq
		if _, twice := seen[seq]; twice {
			return fmt.Errorf("%w: request %d: seq %d stands twice", ErrInvalid, i, seq)
		}
		seen[seq] = struct{}{}
	}
	return nil
}

func (t *Trace) checkRequest(r *Request, last time.Duration) error {
	switch {
	case r.At < last:
		return fmt.Errorf("at %v, before its predecessor at %v", r.At, last)
	case r.At > MaxSpan:
		return fmt.Errorf("at %v, want at most %v", r.At, MaxSpan)
	case r.PromptTokens < 1 || r.PromptTokens > MaxTokens:
		return fmt.Errorf("prompt tokens: %d, want 1 to %d", r.PromptTokens, MaxTokens)
	case r.OutputTokens < 1 || r.OutputTokens > MaxTokens:
		return fmt.Errorf("output tokens: %d, want 1 to %d", r.OutputTokens, MaxTokens)
	case r.Blocks == nil:
		return nil
	case t.BlockTokens == 0:
		return errors.New("it has blocks, but the trace no block tokens")
	}
	if most := blocksOf(r.PromptTokens, t.BlockTokens); len(r.Blocks) > most {
		return fmt.Errorf("%d blocks, want at most %d: %d tokens in blocks of %d", len(r.Blocks), most, r.PromptTokens, t.BlockTokens)
	}
	return nil
}

// blocksOf is how many blocks of size tokens hold n, rounded up.
func blocksOf(n, size int) int { return (n + size - 1) / size }
