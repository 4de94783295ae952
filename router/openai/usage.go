package openai

import (
	"math"
	"strconv"
)

// Count is a number of tokens that an engine may not have said. The zero Count
// is unknown; a known zero is a count.
type Count struct {
	n     int64
	known bool
}

// CountOf is a known count.
func CountOf(n int64) Count { return Count{n, true} }

// Get returns the count and whether it is known.
func (c Count) Get() (n int64, known bool) { return c.n, c.known }

func (c Count) or(d Count) Count {
	if c.known {
		return c
	}
	return d
}

func (c Count) plus(d Count) Count {
	if !c.known {
		return d
	}
	return Count{c.n + d.n, true}
}

// Usage is what an engine says that one answer cost. It means the same in each
// dialect: PromptTokens includes the cached ones.
type Usage struct {
	PromptTokens     Count // input, cached tokens included
	CompletionTokens Count // output, reasoning tokens included
	TotalTokens      Count // as said, or the sum if both parts are known
	CachedTokens     Count // of the prompt, read from a cache
	CacheWriteTokens Count // of the prompt, written to a cache (Anthropic)
	ReasoningTokens  Count // of the completion
}

// counters are the fields of usage objects under their own names, before the
// formulas of the dialects apply: Anthropic's input_tokens leaves out what was
// read from or written to a cache, OpenAI's prompt_tokens does not.
type counters struct {
	prompt, completion, total Count
	input, output             Count
	cached, reasoning         Count
	cacheRead, cacheWrite     Count
}

// usage applies the dialect's formula; false if nothing is known.
func (c *counters) usage(d Dialect) (Usage, bool) {
	if *c == (counters{}) {
		return Usage{}, false
	}
	u := Usage{
		PromptTokens:     c.prompt.or(c.input),
		CompletionTokens: c.completion.or(c.output),
		TotalTokens:      c.total,
		CachedTokens:     c.cached.or(c.cacheRead),
		CacheWriteTokens: c.cacheWrite,
		ReasoningTokens:  c.reasoning,
	}
	if d == DialectMessages && c.input.known {
		u.PromptTokens = c.input.plus(c.cacheWrite).plus(c.cacheRead)
	}
	if !u.TotalTokens.known && u.PromptTokens.known && u.CompletionTokens.known {
		u.TotalTokens = u.PromptTokens.plus(u.CompletionTokens)
	}
	return u, true
}

// merge reads the usage object that starts at b[at] field by field; what it
// does not say keeps its value, nonsense is left out. It returns the index
// after the object, or -1 if there is no whole one.
func (c *counters) merge(b []byte, at int) (end int) {
	if counts, end := plainCounts(b, at); end >= 0 {
		c.setPlain(counts)
		return end
	}
	return c.fields(b, at, 0)
}

func (c *counters) setPlain(counts [3]int64) {
	c.prompt, c.total, c.completion = CountOf(counts[0]), CountOf(counts[1]), CountOf(counts[2])
}

// plainCounts reads the usage object that engines write with each event of a stream:
// three counts in this order and nothing else. end is the index after it, or -1 for
// any other object.
func plainCounts(b []byte, at int) (counts [3]int64, end int) {
	for i, key := range [...]string{`{"prompt_tokens":`, `,"total_tokens":`, `,"completion_tokens":`} {
		if len(b)-at < len(key) || string(b[at:at+len(key)]) != key {
			return counts, -1
		}
		at += len(key)
		begin, n := at, int64(0)
		for ; at < len(b) && b[at]-'0' <= 9; at++ {
			n = n*10 + int64(b[at]-'0')
			if n > maxCount {
				return counts, -1
			}
		}
		if at == begin || b[begin] == '0' && at > begin+1 {
			return counts, -1
		}
		counts[i] = n
	}
	if at == len(b) || b[at] != '}' {
		return counts, -1
	}
	return counts, at + 1
}

func (c *counters) fields(b []byte, at, depth int) (end int) {
	if at >= len(b) || b[at] != '{' || depth > 1 {
		return -1
	}
	var key [32]byte
	m := members{s: scanner{b: b}, at: at}
	for m.next() {
		var to *Count
		switch string(m.name(key[:])) {
		case "prompt_tokens":
			to = &c.prompt
		case "completion_tokens":
			to = &c.completion
		case "total_tokens":
			to = &c.total
		case "input_tokens":
			to = &c.input
		case "output_tokens":
			to = &c.output
		case "cached_tokens":
			to = &c.cached
		case "reasoning_tokens":
			to = &c.reasoning
		case "cache_read_input_tokens":
			to = &c.cacheRead
		case "cache_creation_input_tokens":
			to = &c.cacheWrite
		case "prompt_tokens_details", "input_tokens_details",
			"completion_tokens_details", "output_tokens_details":
			c.fields(b, m.value.Start, depth+1)
			continue
		default:
			continue
		}
		if n, ok := count(b[m.value.Start:m.value.End]); ok {
			*to = CountOf(n)
		}
	}
	if m.s.err != nil {
		return -1
	}
	return m.at + 1
}

// maxCount bounds a believable count; beyond it float64 is not exact either.
const maxCount = 1 << 53

// count reads a number of tokens: an integer, a float without fraction, or
// either as a string.
func count(raw []byte) (int64, bool) {
	if len(raw) >= 2 && raw[0] == '"' {
		raw = raw[1 : len(raw)-1]
	}
	if len(raw) == 0 || len(raw) > 32 || raw[0]-'0' > 9 {
		return 0, false
	}
	var n int64
	for i, c := range raw {
		if c-'0' > 9 || i > 15 {
			f, err := strconv.ParseFloat(string(raw), 64)
			if err != nil || f != math.Trunc(f) || f < 0 || f > maxCount {
				return 0, false
			}
			return int64(f), true
		}
		n = n*10 + int64(c-'0')
	}
	return n, n <= maxCount
}
