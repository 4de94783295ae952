package weights

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// eachJSONField calls field with the name of each field of an object; field reads
// the value. Memory follows the largest item, which is bounded.
func eachJSONField(r io.Reader, field func(name string, dec *json.Decoder) error) error {
	b := &boundedItems{src: r}
	dec := json.NewDecoder(b)
	b.dec = dec
	if err := openJSON(dec, '{'); err != nil {
		return err
	}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		name, ok := token.(string)
		if !ok {
			return errors.New("a field without a name")
		}
		if err := field(name, dec); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

func openJSON(dec *json.Decoder, open json.Delim) error {
	token, err := dec.Token()
	if err != nil {
		return err
	}
	if token != open {
		return fmt.Errorf("%v where %v is due", token, open)
	}
	return nil
}

// skipJSON passes over one value, token by token.
func skipJSON(dec *json.Decoder) error {
	for depth := 0; ; {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// boundedItems ends when the decoder has taken in far more than it could use:
// then a single text is longer than maxJSONItem.
type boundedItems struct {
	src  io.Reader
	dec  *json.Decoder
	read int64
}

func (b *boundedItems) Read(p []byte) (int, error) {
	if b.read-b.dec.InputOffset() > maxJSONItem {
		return 0, fmt.Errorf("an item of more than %d bytes", maxJSONItem)
	}
	n, err := b.src.Read(p[:min(len(p), 1<<16)]) // so that it is noticed soon
	b.read += int64(n)
	return n, err
}
