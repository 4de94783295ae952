package sim

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// prompts is a string, a list of strings, a list of token ids, or a list of
// such lists.
type prompts struct {
	tokens [][]uint32
	texts  []string // as given; "" for token ids
}

func (p *prompts) UnmarshalJSON(data []byte) error {
	*p = prompts{}
	data = bytes.TrimSpace(data)
	if len(data) > 0 && data[0] == '"' {
		var s string
		if err := json.Unmarshal(data, &s); err != nil {
			return err
		}
		p.addText(s)
		return nil
	}
	var ids []int64
	if json.Unmarshal(data, &ids) == nil && len(ids) > 0 {
		return p.addIDs(ids)
	}
	var list []json.RawMessage
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	for _, raw := range list {
		var s string
		if json.Unmarshal(raw, &s) == nil {
			p.addText(s)
			continue
		}
		ids = nil
		if err := json.Unmarshal(raw, &ids); err != nil {
			return err
		}
		if err := p.addIDs(ids); err != nil {
			return err
		}
	}
	return nil
}

func (p *prompts) addText(s string) {
	p.tokens = append(p.tokens, Tokenize(nil, s))
	p.texts = append(p.texts, s)
}

func (p *prompts) addIDs(ids []int64) error {
	tokens := make([]uint32, len(ids))
	for i, id := range ids {
		if id < 0 || id >= vocabularySize {
			return badRequest("prompt", "Token id %d is out of vocabulary", id)
		}
		tokens[i] = uint32(id)
	}
	p.tokens = append(p.tokens, tokens)
	p.texts = append(p.texts, "")
	return nil
}

// completions serves POST /v1/completions.
func (e *Engine) completions(a *answer, body []byte) error {
	var req struct {
		common
		Prompt prompts `json:"prompt"`
		Echo   bool    `json:"echo"`
	}
	if err := e.decode(a, body, &req); err != nil {
		return err
	}
	if err := req.check(); err != nil {
		return err
	}
	if len(req.Prompt.tokens) == 0 {
		return badRequest("prompt", "Either prompt or prompt_embeds must be provided and non-empty.")
	}
	g, err := e.newGeneration(req.Prompt.tokens, req.sampling, 16, nil) // 16 is OpenAI's default
	if err != nil {
		return err
	}
	d := &completionDialect{g: g, id: e.id(a, "cmpl-"), model: e.cfg.Model, created: unixNow()}
	if req.Echo {
		d.echo = req.Prompt.texts
	}
	d.include, d.continuous = req.usageWanted()
	return e.serve(a, g, req.Stream, d)
}

type completionDialect struct {
	g                   *generation
	id, model           string
	created             int64
	include, continuous bool
	echo                []string // prompts to repeat

	head, buf, word []byte
}

func (d *completionDialect) begin(*answer) error { return nil }

// open appends the beginning that all chunks share.
func (d *completionDialect) open(b []byte) []byte {
	if d.head == nil {
		d.head = append(d.head, `{"id":`...)
		d.head = append(d.head, quoted(d.id)...)
		d.head = append(d.head, `,"object":"text_completion","created":`...)
		d.head = strconv.AppendInt(d.head, d.created, 10)
		d.head = append(d.head, `,"model":`...)
		d.head = append(d.head, quoted(d.model)...)
		d.head = append(d.head, `,"choices":[`...)
	}
	return append(b, d.head...)
}

// echoed is what precedes the answer of c.
func (d *completionDialect) echoed(c *choice) string {
	if d.echo == nil {
		return ""
	}
	return d.echo[c.index/d.g.perPrompt]
}

func (d *completionDialect) token(a *answer, c *choice, i int) error {
	d.word = d.word[:0]
	if i == 0 {
		d.word = append(d.word, d.echoed(c)...)
	}
	d.word = c.appendToken(d.word, i)
	b := d.open(d.buf[:0])
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(c.index), 10)
	b = append(b, `,"text":`...)
	b = append(b, quoted(string(d.word))...)
	b = append(b, `,"logprobs":null,"finish_reason":`...)
	if i < c.n-1 {
		b = append(b, `null,"stop_reason":null}]`...)
	} else {
		b = append(b, '"')
		b = append(b, c.finish...)
		b = append(b, `","stop_reason":`...)
		b = append(b, stopReason(c)...)
		b = append(b, `}]`...)
	}
	if d.continuous {
		b = append(b, `,"usage":`...)
		b = d.g.usage(i + 1).append(b)
	}
	d.buf = append(b, '}')
	return a.event("", d.buf)
}

func (d *completionDialect) end(a *answer) error {
	if d.include {
		b := append(d.open(d.buf[:0]), `],"usage":`...)
		d.buf = append(d.g.usage(d.g.completed()).append(b), '}')
		if err := a.event("", d.buf); err != nil {
			return err
		}
	}
	return a.event("", []byte("[DONE]"))
}

func (d *completionDialect) full() []byte {
	b := d.open(d.buf[:0])
	for i, c := range d.g.choices {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"index":`...)
		b = strconv.AppendInt(b, int64(c.index), 10)
		b = append(b, `,"text":`...)
		b = append(b, quoted(d.echoed(c)+c.text())...)
		b = append(b, `,"logprobs":null,"finish_reason":"`...)
		b = append(b, c.finish...)
		b = append(b, `","stop_reason":`...)
		b = append(b, stopReason(c)...)
		b = append(b, `,"token_ids":null,"prompt_logprobs":null,"prompt_token_ids":null}`...)
	}
	b = append(b, `],"service_tier":null,"system_fingerprint":null,"usage":`...)
	b = d.g.usage(d.g.completed()).append(b)
	return append(b, `,"kv_transfer_params":null}`...)
}
