package openai

import "bytes"

// Bounds of what a Stream keeps of one event.
const (
	// MaxHeldBytes is the longest event that is read as a whole and can be
	// cut; a longer one passes as it comes. It is also the most that a Stream
	// holds back.
	MaxHeldBytes = 64 << 10
	// bigTail is what is searched for usage at the end of a longer event:
	// response.completed repeats the whole answer before it.
	bigTail = 8 << 10
	// bigHead is where the type of a longer event is looked for, and after that
	// in its bigTail.
	bigHead = 512
	// keptBuffer is the largest buffer a Stream keeps for its next answer.
	keptBuffer = 32 << 10
)

// StreamOptions say how to read one answer.
type StreamOptions struct {
	Dialect Dialect
	// StripUsage cuts the chunk with usage and an empty list of choices, which
	// the engine sends because the relay asked for it. Only in DialectChat,
	// since the other dialects always have usage.
	StripUsage bool
	// StripContinuous cuts the member "usage" out of chunks that have choices,
	// null included. Only in DialectChat.
	StripContinuous bool
	// WithholdError keeps an error event back that comes before anything else
	// was given out, and all that follows it: the caller still has the choice to
	// ask another engine or to answer with a status. See Stream.Withheld. The
	// first event is then held back until it is whole.
	WithholdError bool
}

// Stream watches the server-sent events of one answer while they pass. It
// takes the bytes as they were read, split anywhere, with lines that end in
// LF, CRLF or CR, and gives back those to forward: all of them, unchanged and
// not copied, unless options ask to cut something. What comes out does not
// depend on how the input was split. Only when something may have to be cut or
// withheld is an unfinished event held back; comments never are.
//
// The zero value reads DialectChat and cuts nothing; Reset makes it ready for
// another answer. It never fails: what it does not understand passes.
//
//	for {
//		n, err := upstream.Read(buf)
//		client.Write(stream.Feed(buf[:n]))
//		…
//	}
//	client.Write(stream.Flush())
type Stream struct {
	opts StreamOptions
	cuts bool // events may have to be cut
	hold bool // an unfinished event is not forwarded
	lead bool // nothing was given out, and an error is not to be

	pending []byte    // the unfinished event, or the end of one that is big
	big     bool      // the event is longer than MaxHeldBytes
	bigKind eventKind // of such an event
	inLine  bool      // the last byte of the event did not end a line
	prevCR  bool      // the last byte of the event was a CR
	comment bool      // inside a comment line before an event
	begun   bool      // a byte of the event was seen
	nextLF  rule      // what to do with a LF that completes a CRLF
	flushed bool      // Flush gave out an unfinished event

	out []byte // output, when it is not a piece of the input
	run Span   // of the input, to be forwarded after out

	content, done, failed bool
	withheld              bool
	events                int64
	choices               choices
	form                  chunkForm
	used                  counters
	responseID            string
	errorData             []byte
	joined                []byte // several data lines as one
	spans                 []Span // to be cut out of the event looked at
}

// rule is the fate of a single byte.
type rule uint8

const (
	ruleNone rule = iota
	ruleKeep
	ruleDrop
)

// Reset makes s ready for another answer. Buffers are kept unless they grew
// large.
func (s *Stream) Reset(o StreamOptions) {
	cuts := o.Dialect <= DialectChat && (o.StripUsage || o.StripContinuous)
	*s = Stream{
		opts: o, cuts: cuts, hold: cuts || o.WithholdError, lead: o.WithholdError,
		pending: small(s.pending), out: small(s.out), joined: small(s.joined), spans: s.spans[:0],
		form: chunkForm{event: s.form.event[:0], credit: formCredit},
	}
}

func small(b []byte) []byte {
	if cap(b) > keptBuffer {
		return nil
	}
	return b[:0]
}

// SawContent is whether an event with content has passed: text, reasoning,
// a refusal, audio, a tool call. A chunk with only a role, with empty content
// or with usage, and a comment, are none.
func (s *Stream) SawContent() bool { return s.content }

// Usage is what the engine said so far, each field as last said; false if it
// said nothing.
func (s *Stream) Usage() (Usage, bool) { return s.used.usage(s.opts.Dialect) }

// Done is whether the event that ends a complete answer has passed.
func (s *Stream) Done() bool { return s.done }

// Ended is whether an answer of which no more comes says itself that it is
// complete: it is Done or, for engines that send no [DONE], each choice that was
// seen has a reason why it finished.
func (s *Stream) Ended() bool { return s.done || s.choices.finished() }

// ResponseID is the ID of the response that a stream of DialectResponses brings,
// empty until an event has told it.
func (s *Stream) ResponseID() string { return s.responseID }

// Failed is whether an error event has passed. An answer that failed need not
// be Done, and needs no error event of ours.
func (s *Stream) Failed() bool { return s.failed }

// ErrorData is the data of the error event that Failed is about, for ErrorStatus
// and NormalizeError; nil if there was none, or only one longer than
// MaxHeldBytes. It is the caller's to keep.
func (s *Stream) ErrorData() []byte { return s.errorData }

// Withheld is whether the answer began with an error event, which
// StreamOptions.WithholdError kept from the output together with all that
// followed it.
func (s *Stream) Withheld() bool { return s.withheld }

// Events is the number of finished events with data, cut ones included.
// Comments are none, so that a keep-alive is not taken for progress.
func (s *Stream) Events() int64 { return s.events }

// MidEvent is whether the bytes given out so far end inside an unfinished
// event. An error event must then follow EventSeparator, or a client would join
// the two.
func (s *Stream) MidEvent() bool {
	return s.flushed || s.comment || s.begun && (!s.hold || s.big)
}

// Feed takes the next bytes of the answer and returns those to forward, which
// may be none. The result aliases p or memory of s, and is valid until the
// next call; p is not changed and not kept.
func (s *Stream) Feed(p []byte) []byte {
	s.out, s.run = s.out[:0], Span{}
	for i := 0; i < len(p) && !s.withheld; {
		switch {
		case s.nextLF != ruleNone:
			if p[i] == '\n' {
				if s.nextLF == ruleKeep {
					s.keep(p, i, i+1)
				}
				i++
			}
			s.nextLF = ruleNone
		case s.comment:
			i = s.passComment(p, i)
		case s.begun:
			i = s.goOn(p, i)
		case p[i] == ':':
			s.comment = true
		default:
			if end := s.plainEvents(p, i); end > i {
				s.keep(p, i, end)
				i = end
				continue
			}
			if end := s.countedEvents(p, i); end > i {
				i = end
				continue
			}
			i = s.begin(p, i)
		}
	}
	if len(s.out) == 0 {
		return p[s.run.Start:s.run.End]
	}
	s.out = append(s.out, p[s.run.Start:s.run.End]...)
	return s.out
}

// Flush ends the answer, whole or not: it returns the event that was held back
// if nothing but its blank line is missing, as some engines leave it out after
// [DONE]. One that broke off within its data is dropped, since clients fail on
// half a document.
func (s *Stream) Flush() []byte {
	s.out, s.run = s.out[:0], Span{}
	if !s.begun {
		return nil
	}
	held := s.hold && !s.big
	whole := !held || s.wholeData(s.pending)
	if cut := s.finish(s.pending); whole && !cut {
		s.flushed = true
		if held {
			s.emitPending()
		}
	}
	s.reset()
	return s.out
}

// passComment forwards a comment line that stands before an event.
func (s *Stream) passComment(p []byte, i int) int {
	end := lineEnd(p, i)
	if end < 0 {
		s.keep(p, i, len(p))
		return len(p)
	}
	s.comment = false
	if p[end-1] == '\r' {
		s.nextLF = ruleKeep
	}
	s.keep(p, i, end)
	return end
}

// begin takes the event that starts at p[i], as far as p has it.
func (s *Stream) begin(p []byte, i int) int {
	end := s.eventEnd(p, i)
	if end < 0 {
		s.begun = true
		s.store(p[i:], false)
		if !s.hold || s.big {
			s.keep(p, i, len(p))
		}
		return len(p)
	}
	ev := p[i:end]
	if len(ev) > MaxHeldBytes {
		s.big, s.bigKind = true, s.headKind(ev)
		s.lead = false
	}
	cut := s.finish(ev)
	if !cut {
		at := i
		for _, c := range s.spans {
			s.keep(p, at, i+c.Start)
			at = i + c.End
		}
		s.keep(p, at, end)
		if len(s.spans) == 1 {
			s.learnCounted(ev, s.spans[0])
		}
	}
	s.endEvent(p[end-1], cut)
	return end
}

// goOn takes more of an event of which a part came before.
func (s *Stream) goOn(p []byte, i int) int {
	end := s.eventEnd(p, i)
	stop := end
	if end < 0 {
		stop = len(p)
	}
	wasHeld := s.hold && !s.big
	s.store(p[i:stop], wasHeld)
	if !wasHeld {
		s.keep(p, i, stop)
	}
	if end < 0 {
		return stop
	}
	cut := false
	if s.big || s.plainEvents(s.pending, 0) < len(s.pending) {
		cut = s.finish(s.pending)
	}
	if s.hold && !s.big && !cut {
		s.emitPending()
	}
	s.endEvent(p[end-1], cut)
	return stop
}

// store adds to the unfinished event. When that outgrows its bound, only its
// end is kept; what was held is then put out.
func (s *Stream) store(piece []byte, held bool) {
	s.pending = append(s.pending, piece...)
	if len(s.pending) <= MaxHeldBytes {
		return
	}
	if !s.big {
		s.big, s.bigKind = true, s.headKind(s.pending)
		if held {
			s.out = append(s.out, s.pending...)
		}
		s.lead = false
	}
	tail := s.pending[len(s.pending)-bigTail:]
	s.pending = s.pending[:copy(s.pending, tail)]
}

// emitPending moves the held event to the output, without its cuts.
func (s *Stream) emitPending() {
	s.lead = false
	at := 0
	for _, c := range s.spans {
		s.out = append(s.out, s.pending[at:c.Start]...)
		at = c.End
	}
	s.out = append(s.out, s.pending[at:]...)
}

// endEvent makes s ready for the next event.
func (s *Stream) endEvent(last byte, cut bool) {
	if last == '\r' {
		s.nextLF = ruleKeep
		if cut {
			s.nextLF = ruleDrop
		}
	}
	s.reset()
	s.hold = s.cuts || s.lead
}

func (s *Stream) reset() {
	s.pending, s.spans = s.pending[:0], s.spans[:0]
	s.begun, s.big, s.inLine, s.prevCR = false, false, false, false
}

// keep forwards p[a:b]. Ranges come in order; as long as they touch, nothing
// is copied.
func (s *Stream) keep(p []byte, a, b int) {
	if a == b {
		return
	}
	s.lead = false
	switch {
	case s.run.Start == s.run.End:
		s.run = Span{a, b}
	case s.run.End == a:
		s.run.End = b
	default:
		s.out = append(s.out, p[s.run.Start:s.run.End]...)
		s.run = Span{a, b}
	}
}

// eventEnd returns the index after the blank line that ends the event of which
// p[i] is the next byte, or -1 if p has no such line. Of a CRLF that ends the
// event the LF is left to the next call, since it may not have come yet.
func (s *Stream) eventEnd(p []byte, i int) int {
	for {
		if s.prevCR && i < len(p) {
			s.prevCR = false
			if p[i] == '\n' {
				i++
			}
		}
		if i >= len(p) {
			return -1
		}
		if !s.inLine && (p[i] == '\n' || p[i] == '\r') {
			return i + 1
		}
		end := lineEnd(p, i)
		if s.inLine = end < 0; s.inLine {
			return -1
		}
		s.prevCR = p[end-1] == '\r'
		i = end
	}
}

// lineEnd returns the index after the first LF or CR at or after i, or -1. It
// looks in windows that double, so that the cost goes by the line's length and
// not by how much follows it.
func lineEnd(p []byte, i int) int {
	for window := 512; i < len(p); window *= 2 {
		line := p[i:min(i+window, len(p))]
		lf := bytes.IndexByte(line, '\n')
		if lf >= 0 {
			line = line[:lf]
		}
		if cr := bytes.IndexByte(line, '\r'); cr >= 0 {
			return i + cr + 1
		}
		if lf >= 0 {
			return i + lf + 1
		}
		i += len(line)
	}
	return -1
}
