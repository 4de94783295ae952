package wire

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// Model is the model that every engine of the bench serves.
const Model = "bench-model"

// ErrPromptAltered says that a request's messages are not the ones that the
// generator sent.
var ErrPromptAltered = errors.New("wire: messages were altered on the way")

// ErrNotBench says that a request does not come from the generator.
var ErrNotBench = errors.New("wire: no parameters in the field user")

const (
	messagesKey = `"messages":`
	userKey     = `"user":"`
)

// RequestBody returns the JSON body of a chat completion request whose prompt
// has promptBytes bytes as it stands in JSON. Bodies of different seq have
// different prompts. The fields stand in the order in which the Python SDK
// sends them: the messages come first, so a gateway finds the model behind them.
func RequestBody(model string, stream bool, promptBytes, seq int, p Params) []byte {
	messages := `[{"role":"user","content":"` + prompt(promptBytes, seq) + `"}]`
	var b bytes.Buffer
	b.Grow(len(messages) + 256)
	b.WriteString(`{` + messagesKey)
	b.WriteString(messages)
	fmt.Fprintf(&b, `,"model":%q,"max_tokens":%d`, model, max(p.Events, 1))
	if stream {
		b.WriteString(`,"stream":true`)
	}
	b.WriteString(`,` + userKey + p.user(len(messages), checksum([]byte(messages))) + `"}`)
	return b.Bytes()
}

// prompt returns JSON string content of size bytes: prose with a line break
// every few hundred bytes, begun by seq so that prompts differ from the start.
func prompt(size, seq int) string {
	const paragraph = `A router reads the request, finds the model it names and hands it to a replica that has room. ` +
		`What the replica writes goes back to the caller while it is being written, one event for each token. ` +
		`Nobody along the way should change a byte of it, and nobody should make the caller wait.\n`
	s := strconv.Itoa(seq) + " " + strings.Repeat(paragraph, size/len(paragraph)+1)
	s = s[:max(size, 8)]
	// The cut must not leave half an escape behind.
	return strings.TrimRight(s, `\`)
}

// Ask is what the engine reads from a request's body.
type Ask struct {
	Params
	Stream bool
	// Usage and Continuous report stream_options.include_usage and
	// continuous_usage_stats, by whomever they were set.
	Usage, Continuous bool
}

// ReadRequest reads the body of a request that [RequestBody] made and a proxy
// may have edited outside the messages. It returns [ErrPromptAltered] when the
// messages differ, [ErrNotBench] when body carries no parameters. It looks only
// at the messages' checksum and the bytes around them, so it is cheap for
// prompts of any size.
func ReadRequest(body []byte) (Ask, error) {
	at := bytes.LastIndex(body, []byte(userKey+userPrefix))
	if at < 0 {
		return Ask{}, ErrNotBench
	}
	value, _, ok := bytes.Cut(body[at+len(userKey):], []byte{'"'})
	if !ok {
		return Ask{}, ErrNotBench
	}
	p, length, sum, err := parseUser(string(value))
	if err != nil {
		return Ask{}, fmt.Errorf("%w: %w", ErrNotBench, err)
	}
	from := bytes.Index(body, []byte(messagesKey)) + len(messagesKey)
	if from < len(messagesKey) || from+length > len(body) || checksum(body[from:from+length]) != sum {
		return Ask{}, ErrPromptAltered
	}
	ask := Ask{Params: p}
	for _, part := range [][]byte{body[:from], body[from+length:]} {
		ask.Stream = ask.Stream || setTrue(part, `"stream"`)
		ask.Usage = ask.Usage || setTrue(part, `"include_usage"`)
		ask.Continuous = ask.Continuous || setTrue(part, `"continuous_usage_stats"`)
	}
	return ask, nil
}

// setTrue reports whether key (with its quotes) stands in part with the value
// true, spaces around the colon or not.
func setTrue(part []byte, key string) bool {
	_, after, ok := bytes.Cut(part, []byte(key))
	if !ok {
		return false
	}
	after, ok = bytes.CutPrefix(bytes.TrimLeft(after, " "), []byte(":"))
	return ok && bytes.HasPrefix(bytes.TrimLeft(after, " "), []byte("true"))
}

// checksum is CRC-32C, which processors compute at several GB/s.
func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }
