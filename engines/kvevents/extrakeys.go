package kvevents

import "github.com/tinylib/msgp/msgp"

// ExtraKeys are what a block's hash covers besides its tokens, in msgpack as
// the engine sent them: LoRA name, multimodal ids, cache salt, hash of prompt
// embeddings. Equal bytes mean equal keys.
type ExtraKeys []byte

// NewExtraKeys are extra keys of these strings, nil if there are none.
func NewExtraKeys(keys ...string) ExtraKeys {
	if len(keys) == 0 {
		return nil
	}
	b := msgp.AppendArrayHeader(nil, uint32(len(keys)))
	for _, k := range keys {
		b = msgp.AppendString(b, k)
	}
	return b
}

// Strings are the keys if all of them are strings, such as a LoRA name and a
// cache salt; ok is false if there are others. No keys are no strings, ok.
func (x ExtraKeys) Strings() (keys []string, ok bool) {
	if len(x) == 0 {
		return nil, true
	}
	n, rest, err := msgp.ReadArrayHeaderBytes(x)
	if err != nil || int(n) > len(rest) {
		return nil, false
	}
	for range n {
		var s string
		if s, rest, err = msgp.ReadStringBytes(rest); err != nil {
			return nil, false
		}
		keys = append(keys, s)
	}
	return keys, len(rest) == 0
}
