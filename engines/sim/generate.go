package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// sampling is what a request asks of its answers, in any dialect.
type sampling struct {
	MaxTokens           *int     `json:"max_tokens"`
	MaxCompletionTokens *int     `json:"max_completion_tokens"`
	MinTokens           int      `json:"min_tokens"`
	IgnoreEOS           bool     `json:"ignore_eos"`
	N                   *int     `json:"n"`
	Stop                stopList `json:"stop"`
	CacheSalt           string   `json:"cache_salt"`
	Priority            int      `json:"priority"`
}

// stopList is a string or a list of strings.
type stopList []string

func (s *stopList) UnmarshalJSON(data []byte) error {
	*s = nil
	if len(data) > 0 && data[0] == '"' {
		*s = stopList{""}
		return json.Unmarshal(data, &(*s)[0])
	}
	return json.Unmarshal(data, (*[]string)(s))
}

// maxChoices bounds the sequences of one request.
const maxChoices = 1024

// choice is one answer of a request: a sequence and the text it stands for.
type choice struct {
	gen       *generation
	index     int
	request   Request
	seq       *Sequence // set by submit
	produced  atomic.Int64
	key       uint64
	n         int // output tokens
	maxTokens int
	finish    string // finish_reason at its end
	stop      string // the stop string that ended it
	lastToken string // text of token n-1 if cutLast
	cutLast   bool
	call      *toolCall
}

// toolCall makes a choice a call of a tool: its text is the arguments.
type toolCall struct{ id, name string }

// appendToken appends the text of token i.
func (c *choice) appendToken(dst []byte, i int) []byte {
	if c.call != nil {
		if i == 0 {
			dst = append(dst, `{"text":"`...)
		}
		dst = appendWord(dst, c.key, i)
		if i == c.n-1 {
			dst = append(dst, `"}`...)
		}
		return dst
	}
	if c.cutLast && i == c.n-1 {
		return append(dst, c.lastToken...)
	}
	return appendWord(dst, c.key, i)
}

// text is the whole answer.
func (c *choice) text() string {
	var b []byte
	for i := range c.n {
		b = c.appendToken(b, i)
	}
	return string(b)
}

// newGeneration plans n answers to each prompt. call is what to do if the
// answers are calls of a tool.
func (e *Engine) newGeneration(prompts [][]uint32, s sampling, defaultMax int, call *toolCall) (*generation, error) {
	n := 1
	if s.N != nil {
		n = *s.N
	}
	if n < 1 || n*len(prompts) > maxChoices {
		return nil, badRequest("n", "n must be at least 1 and at most %d, got %d.", maxChoices/max(1, len(prompts)), n)
	}
	g := &generation{engine: e, perPrompt: n, wake: make(chan struct{}, 1)}
	for _, prompt := range prompts {
		limit, err := e.outputLimit(len(prompt), s, defaultMax)
		if err != nil {
			return nil, err
		}
		h := newChain(fnv(s.CacheSalt), e.cfg.BlockSize, len(prompt)+min(limit, 2048))
		for _, t := range prompt {
			h.add(t)
		}
		for i := range n {
			c := &choice{gen: g, index: len(g.choices), key: mix(h.state, uint64(i)), maxTokens: limit, call: call}
			c.plan(e.cfg, s, limit)
			c.request = Request{
				PromptTokens: len(prompt), OutputTokens: c.n, Owner: c,
				Blocks: c.outputHashes(*h, i == 0), CacheSalt: s.CacheSalt, Priority: s.Priority,
			}
			if e.cfg.KVEvents.Enabled {
				c.request.Tokens = c.outputTokens(prompt, len(c.request.Blocks)*e.cfg.BlockSize)
			}
			g.choices = append(g.choices, c)
		}
	}
	g.unfinished.Store(int64(len(g.choices)))
	return g, nil
}

// outputLimit is how many tokens may be generated after a prompt.
func (e *Engine) outputLimit(prompt int, s sampling, defaultMax int) (int, error) {
	room := e.cfg.MaxModelLen - prompt
	asked := s.MaxTokens
	if s.MaxCompletionTokens != nil {
		asked = s.MaxCompletionTokens
	}
	switch {
	case prompt == 0:
		return 0, badRequest("prompt", "The decoder prompt cannot be empty")
	case asked != nil && *asked < 1:
		return 0, badRequest("max_tokens", "max_tokens must be at least 1, got %d.", *asked)
	case asked != nil && (*asked > room):
		return 0, tooLong(e.cfg.MaxModelLen, prompt, *asked)
	case room < 1:
		return 0, tooLong(e.cfg.MaxModelLen, prompt, 1)
	case asked != nil:
		return *asked, nil
	case defaultMax > 0:
		return min(defaultMax, room), nil
	default:
		return room, nil
	}
}

// toolCallTokens bounds the arguments of a call.
const toolCallTokens = 24

// plan fixes the length and the end of the answer.
func (c *choice) plan(cfg Config, s sampling, limit int) {
	natural := max(cfg.Output.sample(cfg.Seed, c.key), s.MinTokens)
	if c.call != nil {
		natural = 1 + natural%toolCallTokens
	}
	c.n, c.finish = natural, "stop"
	if natural >= limit || s.IgnoreEOS {
		c.n, c.finish = limit, "length"
	}
	if c.call != nil {
		if c.finish == "stop" {
			c.finish = "tool_calls"
		}
		return
	}
	if len(s.Stop) == 0 {
		return
	}
	text := c.text()
	cut := -1
	for _, stop := range s.Stop {
		if i := strings.Index(text, stop); stop != "" && i >= 0 && (cut < 0 || i < cut) {
			cut, c.stop = i, stop
		}
	}
	if cut < 0 {
		return
	}
	// It ends with the token in which the stop string begins, and without it.
	n, before := 0, 0
	for w := appendWord(nil, c.key, 0); before+len(w) <= cut; w = appendWord(w[:0], c.key, n) {
		before += len(w)
		n++
	}
	n++
	c.n, c.finish = n, "stop"
	c.lastToken, c.cutLast = text[before:cut], true
}

// outputHashes continues the prompt's hashes h over the answer, so that a
// next turn which repeats it finds it cached. own says that the slice of h
// may be appended to.
func (c *choice) outputHashes(h chain, own bool) []uint64 {
	if c.call != nil || c.cutLast {
		return h.hashes[:len(h.hashes):len(h.hashes)]
	}
	if !own {
		h.hashes = append([]uint64(nil), h.hashes...)
	}
	var word []byte
	for i := range c.n {
		word = appendWord(word[:0], c.key, i)
		h.add(tokenID(string(word)))
	}
	return h.hashes
}

// outputTokens continues the prompt's tokens over the answer, up to n in all.
func (c *choice) outputTokens(prompt []uint32, n int) []uint32 {
	if n <= len(prompt) {
		return prompt[:n:n]
	}
	tokens := append(make([]uint32, 0, n), prompt...)
	var word []byte
	for i := 0; len(tokens) < n; i++ {
		word = appendWord(word[:0], c.key, i)
		tokens = append(tokens, tokenID(string(word)))
	}
	return tokens
}

// dialect shapes the answers of one API.
type dialect interface {
	begin(a *answer) error                   // before the first token
	token(a *answer, c *choice, i int) error // token i of c, the last one too
	end(a *answer) error                     // after all
	full() []byte                            // the whole answer, not streamed
}

// serve runs g and writes its answer.
func (e *Engine) serve(a *answer, g *generation, stream bool, d dialect) error {
	ctx := a.r.Context()
	g.streaming = stream
	if err := e.submit(g); err != nil {
		return err
	}
	defer e.abort(g) // gives back what an answer that ends early still holds
	if !stream {
		for g.unfinished.Load() > 0 {
			if err := g.wait(ctx); err != nil {
				return err
			}
		}
		return a.json(200, d.full())
	}
	if err := a.header(); err != nil {
		return err
	}
	if err := d.begin(a); err != nil {
		return err
	}
	sent := make([]int, len(g.choices))
	for left := len(g.choices); left > 0; {
		if err := a.flush(); err != nil {
			return err
		}
		if err := g.wait(ctx); err != nil {
			return err
		}
		for i, c := range g.choices {
			for produced := int(c.produced.Load()); sent[i] < produced; sent[i]++ {
				if err := d.token(a, c, sent[i]); err != nil {
					return err
				}
				if sent[i] == c.n-1 {
					left--
				}
			}
		}
	}
	if err := d.end(a); err != nil {
		return err
	}
	return a.end()
}

// usage is the token counts of a generation.
type usage struct {
	prompt, completion, cached int
	details                    bool
}

// usage sums over the answers; each prompt counts once.
func (g *generation) usage(completion int) usage {
	u := usage{completion: completion, details: g.engine.cfg.PromptTokensDetails}
	for i := 0; i < len(g.choices); i += g.perPrompt {
		u.prompt += g.choices[i].request.PromptTokens
		u.cached += g.choices[i].seq.CachedTokens()
	}
	return u
}

// completed is how many tokens all answers have.
func (g *generation) completed() int {
	n := 0
	for _, c := range g.choices {
		n += int(c.produced.Load())
	}
	return n
}

// append appends the usage object.
func (u usage) append(dst []byte) []byte {
	dst = append(dst, `{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.prompt), 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.prompt+u.completion), 10)
	dst = append(dst, `,"completion_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.completion), 10)
	if u.details {
		dst = append(dst, `,"prompt_tokens_details":{"cached_tokens":`...)
		dst = strconv.AppendInt(dst, int64(u.cached), 10)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// id makes a request id with this prefix: the client's own if it sent one.
func (e *Engine) id(a *answer, prefix string) string {
	if own := a.r.Header.Get("X-Request-Id"); own != "" && len(own) <= 128 {
		return prefix + strings.ToValidUTF8(own, "")
	}
	n := e.serial.Add(1)
	return fmt.Sprintf("%s%016x%016x", prefix, mix(e.cfg.Seed, n), mix(n, e.cfg.Seed^0x5bd1e995))
}

func unixNow() int64 { return time.Now().Unix() }

// quoted is s as JSON.
func quoted(s string) string { return string(bytes.TrimSpace(encode(s))) }
