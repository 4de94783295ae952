package generate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"time"

	"github.com/llmgw/llmgw/router/openai"
)

// sample is what came of one request.
type sample struct {
	sent      time.Time
	end       time.Time // of the answer, or of the failure
	first     time.Time // the first content; zero: none
	last      time.Time // the last content
	gaps      gaps      // between contents
	events    int       // of a stream
	contents  int       // events that brought output
	planned   int       // prompt tokens of the workload
	seen      int       // of these, how many the prompt shares with one before it
	asked     int       // output tokens asked for
	streamed  bool      // the answer was a stream
	answered  bool      // status 200
	finish    bool      // a finish_reason was seen
	done      bool      // [DONE] was seen
	usage     openai.Usage
	badUsage  string        // what is wrong with the counts; "": nothing
	cancelled bool          // left on purpose
	failure   *RequestError // nil: complete
}

// errLeft ends a stream that is left on purpose.
var errLeft = errors.New("left on purpose")

// exchange does requests one after another; it keeps its buffers.
type exchange struct {
	g      *Generator
	buf    []byte // what was read
	events events
	s      sample
}

func (g *Generator) newExchange() *exchange {
	return &exchange{g: g, buf: make([]byte, 32<<10), events: events{kept: kept{of: g.kept}}}
}

// traced lets at follow how far a request came.
func traced(ctx context.Context, at *progressed) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { at.to(phaseHead) },
	})
}

// idempotencyKey without a value is not sent. It lets the transport send a
// request again on a new connection if a kept one, on which no byte of an
// answer came, turns out to be closed. llama.cpp closes one after each stream
// although its header says otherwise; the failure would be of the connection,
// not of the request.
const idempotencyKey = "Idempotency-Key"

// do sends the request i of the workload and returns what came of it, valid
// until the next call. leaveAfter is after how many contents to leave; 0: never.
func (x *exchange) do(ctx context.Context, i, leaveAfter int) *sample {
	r := &x.g.trace.Requests[i]
	// A new one each time: the transport may read it after the answer came.
	body := x.g.bodies.build(make([]byte, 0, x.g.bodies.maxBytes(r)), r)
	defer x.events.reset() // what was read is of no use to the sample
	x.s = sample{gaps: x.s.gaps.emptied(), planned: r.PromptTokens, seen: x.g.seen[i], asked: x.g.bodies.tokens(r)}
	ctx, cancel := context.WithTimeout(ctx, x.g.cfg.Timeout)
	defer cancel() // also ends a stream that is left
	x.s.sent = time.Now()
	x.s.failure = x.exchange(ctx, body, leaveAfter)
	if x.s.end.IsZero() {
		x.s.end = time.Now()
	}
	return &x.s
}

func (x *exchange) exchange(ctx context.Context, body []byte, leaveAfter int) *RequestError {
	// Callbacks of the transport may outlive the request, so this is its own.
	at := new(progressed)
	req, err := http.NewRequestWithContext(traced(ctx, at), http.MethodPost, x.g.base+x.g.cfg.API.path(), bytes.NewReader(body))
	if err != nil {
		return failure(err, phaseDial)
	}
	req.Header = x.g.header.Clone()
	if req.Header.Get(idempotencyKey) == "" {
		req.Header[idempotencyKey] = nil
	}
	resp, err := x.g.client.Do(req)
	if err != nil {
		return failure(err, at.now())
	}
	defer func() { _ = resp.Body.Close() }() // read to its end below, or given up
	contentType := resp.Header.Get("Content-Type")
	if resp.StatusCode != http.StatusOK {
		said, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBodyBytes))
		f := refused(resp.StatusCode, contentType, said)
		f.Err = err
		return f
	}
	x.s.answered = true
	if !x.g.cfg.Stream {
		return x.document(resp.Body, contentType)
	}
	if !strings.HasPrefix(contentType, contentTypeStream) {
		return notStream(resp.Body, contentType)
	}
	x.s.streamed = true
	return x.stream(resp.Body, leaveAfter)
}

// notStream says what came instead of a stream.
func notStream(body io.Reader, contentType string) *RequestError {
	start, _ := io.ReadAll(io.LimitReader(body, maxErrorBodyBytes)) // as far as it goes
	if isHTML(contentType, start) {
		return &RequestError{Kind: KindHTML, Message: excerpt(start)}
	}
	if code, message := apiError(start); code != "" || message != "" {
		return &RequestError{Kind: KindErrorEvent, Code: code, Message: message}
	}
	return &RequestError{Kind: KindNotStream, Message: fmt.Sprintf("content type %q: %s", oneLine(contentType, 64), excerpt(start))}
}

// stream reads server-sent events to their end.
func (x *exchange) stream(body io.Reader, leaveAfter int) *RequestError {
	for {
		n, err := body.Read(x.buf)
		now := time.Now()
		if n > 0 {
			bad := x.events.feed(x.buf[:n], func(f facts) error { return x.event(f, now, leaveAfter) })
			switch f, isFailure := errors.AsType[*RequestError](bad); {
			case errors.Is(bad, errLeft):
				x.s.cancelled = true
				return nil
			case isFailure:
				return f
			case errors.Is(bad, errTooLong):
				return tooLong(bad)
			case bad != nil:
				return &RequestError{Kind: KindBadEvent, Message: bad.Error(), Err: bad}
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			if x.s.end.IsZero() {
				x.s.end = now
			}
			return x.verdict()
		case err != nil && x.s.first.IsZero():
			return failure(err, phaseContent)
		case err != nil:
			return failure(err, phaseAnswer)
		}
	}
}

// event takes the next event, which was there at now.
func (x *exchange) event(f facts, now time.Time, leaveAfter int) error {
	s := &x.s
	if s.events++; s.events > eventsPerToken*s.asked+moreEvents {
		return fmt.Errorf("%w: more than %d events for %d tokens asked for", errTooLong, s.events-1, s.asked)
	}
	if f.failed {
		code, message := apiError(f.data)
		if message == "" {
			message = excerpt(f.data)
		}
		return &RequestError{Kind: KindErrorEvent, Code: code, Message: message}
	}
	if f.content {
		if s.first.IsZero() {
			s.first = now
		} else {
			s.gaps.add(now.Sub(s.last))
		}
		s.last = now
		s.contents++
		if leaveAfter > 0 && s.contents >= leaveAfter {
			return errLeft
		}
	}
	s.finish = s.finish || f.finish
	if f.hasUsage {
		s.usage = f.usage
	}
	if s.badUsage == "" {
		s.badUsage = f.badUsage
	}
	if f.done && !s.done {
		s.done, s.end = true, now
	}
	return nil
}

// document reads an unstreamed answer.
func (x *exchange) document(body io.Reader, contentType string) *RequestError {
	doc, err := x.readDocument(body)
	x.s.end = time.Now()
	switch {
	case errors.Is(err, errTooLong):
		return tooLong(err)
	case err != nil:
		return failure(err, phaseAnswer)
	}
	if isHTML(contentType, doc) {
		return &RequestError{Kind: KindHTML, Message: excerpt(doc)}
	}
	if !json.Valid(doc) || bytes.TrimSpace(doc)[0] != '{' {
		return &RequestError{Kind: KindNotJSON, Message: excerpt(doc)}
	}
	var answer openai.Body
	answer.Feed(doc)
	x.s.usage, _ = answer.Usage()
	x.s.badUsage = badUsage(doc)
	var top struct {
		Error   json.RawMessage `json:"error"`
		Choices []struct {
			FinishReason string          `json:"finish_reason"`
			Text         string          `json:"text"`
			Message      json.RawMessage `json:"message"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(doc, &top); err != nil {
		return &RequestError{Kind: KindNotJSON, Message: err.Error(), Err: err}
	}
	if len(top.Error) > 0 && string(top.Error) != "null" {
		code, message := apiError(doc)
		return &RequestError{Kind: KindErrorEvent, Code: code, Message: message}
	}
	for _, c := range top.Choices {
		x.s.finish = x.s.finish || c.FinishReason != ""
		if c.Text != "" || messageSaysSomething(c.Message) {
			x.s.contents++
		}
	}
	return x.verdict()
}

// readDocument reads to the end, or to the bound of what is kept: then the
// error wraps errTooLong.
func (x *exchange) readDocument(body io.Reader) ([]byte, error) {
	most := maxDocumentBytes + documentBytesPerToken*x.s.asked
	var doc []byte
	for {
		n, err := body.Read(x.buf)
		doc = append(doc, x.buf[:n]...)
		if len(doc) > most {
			return nil, fmt.Errorf("%w: more than %d bytes for %d tokens asked for", errTooLong, most, x.s.asked)
		}
		if err := x.events.kept.hold(cap(doc)); err != nil {
			return nil, err
		}
		switch {
		case errors.Is(err, io.EOF):
			return doc, nil
		case err != nil:
			return nil, err
		}
	}
}

// tooLong is the failure of an answer that was not read to its end.
func tooLong(err error) *RequestError {
	return &RequestError{Kind: KindTooLong, Message: strings.TrimPrefix(err.Error(), errTooLong.Error()+": "), Err: err}
}

// messageSaysSomething is whether a chat answer's message has any output.
func messageSaysSomething(message json.RawMessage) bool {
	if len(message) == 0 {
		return false
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(message, &members) != nil {
		return false
	}
	for _, name := range []string{"content", "reasoning", "reasoning_content", "refusal", "tool_calls", "function_call", "audio"} {
		switch string(members[name]) {
		case "", "null", `""`, "[]", "{}":
		default:
			return true
		}
	}
	return false
}

// verdict says what is missing in an answer that ended properly.
func (x *exchange) verdict() *RequestError {
	s := &x.s
	completion, known := s.usage.CompletionTokens.Get()
	switch {
	case s.streamed && x.events.unfinished():
		return &RequestError{Kind: KindBadEvent, Message: "the stream ends inside an event: " + excerpt(x.events.pending)}
	case s.contents == 0:
		return &RequestError{Kind: KindEmpty, Message: "the answer has no content"}
	case s.streamed && !s.done:
		return &RequestError{Kind: KindNoDone, Message: fmt.Sprintf("the stream ended after %d contents without [DONE]", s.contents)}
	case !s.finish:
		return &RequestError{Kind: KindNoFinish, Message: "no finish_reason came"}
	case s.badUsage != "":
		return &RequestError{Kind: KindBadUsage, Message: cut(s.badUsage)}
	case known && x.g.cfg.ExactLength && completion != int64(s.asked):
		return &RequestError{Kind: KindWrongLength, Message: fmt.Sprintf("%d tokens, %d asked for with ignore_eos", completion, s.asked)}
	case known && completion > int64(s.asked):
		return &RequestError{Kind: KindWrongLength, Message: fmt.Sprintf("%d tokens, at most %d asked for", completion, s.asked)}
	}
	return nil
}
