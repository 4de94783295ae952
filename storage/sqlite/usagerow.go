package sqlite

import (
	"encoding/json"
	"strconv"

	"github.com/llmgw/llmgw/storage"
)

// usageCaller is what rows of one caller have in common, and usageKind what those
// of one fate have: each stands once a day in the table usage_common, as JSON. Apart
// they are few, however many keys use however many endpoints.
type usageCaller struct {
	day          int64
	key, owner   string
	charged      bool
	chargedKey   string
	chargedTo    storage.Period
	chargedStart int64
}

type usageKind struct {
	day                                           int64
	asked, model, endpoint, provider, path, route string
	stream                                        bool
	status, retries                               int
	result, code                                  string
	source                                        storage.Source
}

const microsPerDay = 86_400_000_000

func callerOf(u *storage.Usage, day int64) usageCaller {
	c := usageCaller{day: day, key: u.KeyID, owner: u.Owner}
	if b := u.Charged; b != nil {
		c.charged, c.chargedKey, c.chargedTo, c.chargedStart = true, b.KeyID, b.Period, b.Start.UnixMicro()
	}
	return c
}

func kindOf(u *storage.Usage, day int64) usageKind {
	return usageKind{
		day: day, asked: u.Asked, model: u.Model, endpoint: u.Endpoint, provider: u.Provider, path: u.Path, route: u.Router, stream: u.Stream,
		status: u.Status, retries: u.Retries, result: u.Result, code: u.Code, source: u.Source,
	}
}

// parseCaller is the reverse of text, but for the day.
func parseCaller(text []byte) (c usageCaller, err error) {
	var key, period *string
	var start *int64
	if err := json.Unmarshal(text, &[]any{&c.key, &c.owner, &key, &period, &start}); err != nil {
		return c, err
	}
	if period == nil {
		return c, nil
	}
	c.charged, c.chargedKey = true, c.key
	if key != nil {
		c.chargedKey = *key
	}
	if start != nil {
		c.chargedStart = *start
	}
	return c, c.chargedTo.UnmarshalText([]byte(*period))
}

// parseKind is the reverse of text, but for the day.
func parseKind(text []byte) (k usageKind, err error) {
	var asked *string
	var stream int64
	var source string
	err = json.Unmarshal(text, &[]any{
		&asked, &k.model, &k.endpoint, &k.provider, &k.path, &k.route, &stream, &k.status, &k.result, &k.code, &k.retries, &source,
	})
	if err != nil {
		return k, err
	}
	if k.asked, k.stream = k.model, stream != 0; asked != nil {
		k.asked = *asked
	}
	return k, k.source.UnmarshalText([]byte(source))
}

// array is a JSON array that grows.
type array []byte

// text is the form in which a caller is kept.
func (c *usageCaller) text(b array) array {
	b = append(b, '[').string(c.key).string(c.owner)
	if !c.charged {
		return append(b, "null,null,null]"...)
	}
	return b.unless(c.chargedKey == c.key, c.chargedKey).string(c.chargedTo.String()).int(c.chargedStart).end()
}

func (k *usageKind) text(b array) array {
	stream := int64(0)
	if k.stream {
		stream = 1
	}
	return append(b, '[').unless(k.asked == k.model, k.asked).string(k.model).string(k.endpoint).string(k.provider).string(k.path).string(k.route).
		int(stream).int(int64(k.status)).string(k.result).string(k.code).int(int64(k.retries)).string(k.source.String()).end()
}

// end closes the array in place of the last comma.
func (b array) end() array {
	b[len(b)-1] = ']'
	return b
}

func (b array) int(n int64) array { return append(strconv.AppendInt(b, n, 10), ',') }

func (b array) unless(without bool, s string) array {
	if without {
		return append(b, "null,"...)
	}
	return b.string(s)
}

// string appends a text, which is UTF-8 without NUL, as JSON has it.
func (b array) string(s string) array {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	from := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[from:i]...)
		if from = i + 1; c < ' ' {
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		} else {
			b = append(b, '\\', c)
		}
	}
	return append(append(b, s[from:]...), '"', ',')
}
