package sim

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
)

// What sound is taken for, whatever it is: 16 bit, 16 kHz, one channel. The
// encoder makes a token of 40 ms, and people say three words a second.
const (
	soundPerSecond = 32_000
	soundPerToken  = soundPerSecond / 25
	soundPerWord   = soundPerSecond / 3
)

// transcription is the form of a request.
type transcription struct {
	model, format string
	stream, usage bool
	hasFile       bool
	size          int    // of the file
	key           uint64 // of its bytes
}

// readTranscription reads the form.
func (e *Engine) readTranscription(a *answer, body []byte) (*transcription, error) {
	media, params, err := mime.ParseMediaType(a.r.Header.Get("Content-Type"))
	if err != nil || media != "multipart/form-data" || params["boundary"] == "" {
		return nil, badRequest("", "Unsupported Media Type: Only 'multipart/form-data' is allowed")
	}
	t := &transcription{format: "json"}
	form := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		var b []byte
		if err == nil {
			b, err = io.ReadAll(part)
		}
		if err != nil {
			return nil, invalidBody(err)
		}
		switch value := string(b); part.FormName() {
		case "file":
			t.hasFile, t.size, t.key = true, len(b), fnv(value)
		case "model":
			t.model = value
		case "response_format":
			t.format = value
		case "stream":
			t.stream, _ = strconv.ParseBool(value)
		case "stream_include_usage":
			t.usage, _ = strconv.ParseBool(value)
		}
	}
	switch {
	case !t.hasFile:
		return nil, badRequest("file", "1 validation error: file: Field required")
	case t.model != "" && t.model != e.cfg.Model && !slices.Contains(e.cfg.Aliases, t.model):
		return nil, unknownModel(t.model)
	case t.format != "json" && t.format != "text":
		return nil, badRequest("response_format", "Currently only support response_format `text` or `json`")
	}
	return t, nil
}

// transcribe serves POST /v1/audio/transcriptions and translations. What it hears
// depends on the file's bytes alone, and how much on their number.
func (e *Engine) transcribe(a *answer, body []byte) error {
	t, err := e.readTranscription(a, body)
	if err != nil {
		return err
	}
	prompt := make([]uint32, min(1+t.size/soundPerToken, e.cfg.MaxModelLen/2))
	for i := range prompt {
		prompt[i] = reservedIDs + uint32(mix(t.key, uint64(i))%(vocabularySize-reservedIDs))
	}
	words := min(1+t.size/soundPerWord, e.cfg.MaxModelLen-len(prompt))
	g, err := e.newGeneration([][]uint32{prompt}, sampling{MaxTokens: &words, IgnoreEOS: true}, 0, nil)
	if err != nil {
		return err
	}
	d := &transcriptDialect{g: g, t: t, id: e.id(a, "trsc-"), model: e.cfg.Model, created: unixNow(), header: a.w.Header()}
	return e.serve(a, g, t.stream, d)
}

// transcriptDialect is vLLM's: its chunks are those of a chat by another name.
type transcriptDialect struct {
	g         *generation
	t         *transcription
	id, model string
	created   int64
	header    http.Header
	word      []byte
}

func (d *transcriptDialect) chunk(choices []any) object {
	return object{"id": d.id, "object": "transcription.chunk", "created": d.created, "model": d.model, "choices": choices}
}

func (d *transcriptDialect) begin(*answer) error { return nil }

func (d *transcriptDialect) token(a *answer, c *choice, i int) error {
	d.word = c.appendToken(d.word[:0], i)
	o := object{"delta": object{"content": string(d.word)}}
	if i == c.n-1 {
		o["finish_reason"] = "stop"
	}
	return a.event("", encode(d.chunk([]any{o})))
}

func (d *transcriptDialect) end(a *answer) error {
	if d.t.usage {
		o := d.chunk([]any{})
		u := d.g.usage(d.g.completed())
		o["usage"] = object{"prompt_tokens": u.prompt, "completion_tokens": u.completion, "total_tokens": u.prompt + u.completion}
		if err := a.event("", encode(o)); err != nil {
			return err
		}
	}
	return a.event("", []byte("[DONE]"))
}

func (d *transcriptDialect) full() []byte {
	text := d.g.choices[0].text()
	if d.t.format == "text" {
		d.header.Set("Content-Type", "text/plain; charset=utf-8")
		return []byte(text)
	}
	seconds := (d.t.size + soundPerSecond - 1) / soundPerSecond
	return encode(object{"text": text, "usage": object{"type": "duration", "seconds": seconds}})
}
