package calibrate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// reading is what one streamed answer showed.
type reading struct {
	sent       time.Time
	times      []time.Time // one for each event with content
	prompt     int         // engine's tokens; simulated ones are the caller's to know
	completion int
	cached     *int // engine's tokens; nil: not reported
}

func (r *reading) ttft() time.Duration { return r.times[0].Sub(r.sent) }
func (r *reading) last() time.Time     { return r.times[len(r.times)-1] }

const (
	// maxEventBytes bounds a line of a stream.
	maxEventBytes = 1 << 20
	// maxCount bounds what usage may say of one request, in tokens.
	maxCount = 1 << 30
)

// event is what is read of one event, of either API.
type event struct {
	Choices []struct {
		Text  string `json:"text"`
		Delta struct {
			Content   string `json:"content"`
			Reasoning string `json:"reasoning"`
			Thinking  string `json:"reasoning_content"` // its older name
		} `json:"delta"`
	} `json:"choices"`
	Usage *struct {
		Prompt     *int `json:"prompt_tokens"`
		Completion *int `json:"completion_tokens"`
		Details    *struct {
			Cached *int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Error   json.RawMessage `json:"error"`
	Object  string          `json:"object"`
	Message string          `json:"message"`
}

func (e *event) hasContent() bool {
	for _, c := range e.Choices {
		if c.Text != "" || c.Delta.Content != "" || c.Delta.Reasoning != "" || c.Delta.Thinking != "" {
			return true
		}
	}
	return false
}

// readStream reads server-sent events to their end into r, and calls seen (if
// not nil) after each with content. What was read before an error stays in r.
func (r *reading) readStream(body io.Reader, seen func(n int)) error {
	in := bufio.NewReaderSize(body, 64<<10)
	usage := false
	for {
		line, err := readLine(in)
		now := time.Now()
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: after %d events with content: %w", ErrStream, len(r.times), err)
		}
		data, ok := bytes.CutPrefix(line, []byte("data:"))
		switch data = bytes.TrimSpace(data); {
		case !ok || len(data) == 0: // a comment, another field, the end of an event
		case bytes.Equal(data, []byte("[DONE]")):
			return r.finish(usage)
		default:
			var e event
			if err := json.Unmarshal(data, &e); err != nil {
				return fmt.Errorf("%w: an event is no JSON: %s", ErrNotEngine, shorten(string(data)))
			}
			if len(e.Error) > 0 && !bytes.Equal(e.Error, []byte("null")) || e.Object == "error" {
				return fmt.Errorf("%w: the engine says %s", ErrStream, shorten(string(data)))
			}
			if e.hasContent() {
				r.times = append(r.times, now)
				if seen != nil {
					seen(len(r.times))
				}
			}
			if u := e.Usage; u != nil && u.Prompt != nil && u.Completion != nil {
				usage = true
				r.prompt, r.completion = *u.Prompt, *u.Completion
				if u.Details != nil {
					r.cached = u.Details.Cached
				}
			}
		}
		if err != nil {
			return r.finish(usage) // some engines end without [DONE]
		}
	}
}

// finish decides whether the whole stream can be used.
func (r *reading) finish(usage bool) error {
	switch {
	case len(r.times) == 0:
		return fmt.Errorf("%w: no content in the whole answer", ErrStream)
	case !usage || r.prompt < 1 || r.completion < 1:
		return fmt.Errorf("%w: want usage with prompt_tokens and completion_tokens in the last event, asked for by stream_options.include_usage", ErrNoUsage)
	case r.prompt > maxCount || r.completion > maxCount:
		return fmt.Errorf("%w: usage of %d prompt and %d completion tokens; no request has more than %d",
			ErrStream, r.prompt, r.completion, maxCount)
	}
	return nil
}

// readLine returns the next line without its end; io.EOF may come with the
// last one.
func readLine(in *bufio.Reader) ([]byte, error) {
	var long []byte
	for {
		part, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			if len(long)+len(part) > maxEventBytes {
				return nil, fmt.Errorf("a line of more than %d bytes", maxEventBytes)
			}
			long = append(long, part...)
			continue
		}
		if long != nil {
			part = append(long, part...)
		}
		return bytes.TrimRight(part, "\r\n"), err
	}
}
