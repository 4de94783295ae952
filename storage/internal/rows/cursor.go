package rows

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/llmgw/llmgw/storage"
)

// List says which list a cursor belongs to. A value is never given to another.
type List byte

// The lists.
const (
	Keys     List = 1
	Usages   List = 2
	Sums     List = 3
	AuditAt  List = 4
	Nodes    List = 5
	Replicas List = 6
	Accounts List = 7

	// Providers are sorted by name.
	Providers List = 8
)

// Cursor is the place in a list after a row: what the list is sorted by. It is
// opaque to those who carry it, and has a checksum against typing mistakes.
func Cursor(list List, at time.Time, texts ...string) string {
	b := []byte{byte(list), byte(len(texts))}
	b = binary.AppendVarint(b, at.UnixMicro())
	for _, s := range texts {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseCursor is the reverse of Cursor, with as many texts as it was made with.
func ParseCursor(list List, cursor string, texts int) (time.Time, []string, error) {
	bad := fmt.Errorf("%w: page: After: no cursor of this list; begin without one", storage.ErrInvalid)
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(b) < 7 {
		return time.Time{}, nil, bad
	}
	body, sum := b[:len(b)-4], b[len(b)-4:]
	if crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(sum) || body[0] != byte(list) || int(body[1]) != texts {
		return time.Time{}, nil, bad
	}
	us, n := binary.Varint(body[2:])
	if n <= 0 {
		return time.Time{}, nil, bad
	}
	body = body[2+n:]
	out := make([]string, texts)
	for i := range out {
		size, n := binary.Uvarint(body)
		if n <= 0 || size > uint64(len(body)-n) {
			return time.Time{}, nil, bad
		}
		out[i], body = string(body[n:n+int(size)]), body[n+int(size):]
		if !Keepable(out[i]) {
			return time.Time{}, nil, bad
		}
	}
	if len(body) > 0 {
		return time.Time{}, nil, bad
	}
	return FromMicros(us), out, nil
}
