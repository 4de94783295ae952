package record_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/llmgw/llmgw/storage/record"
)

// FuzzRead reads any bytes as a segment. With fix, the checksums of header and
// entries are made right first, so that what stands behind them is reached.
func FuzzRead(f *testing.F) {
	data, _, ends := sample(f)
	f.Add(data, false)
	f.Add(data[:ends[3]], true)
	f.Add(data[:ends[3]+5], false)
	f.Add(append(append([]byte(nil), data...), data[112:]...), true)
	f.Add([]byte("LLMGWREC"), true)
	f.Add([]byte{}, false)
	dir := f.TempDir()
	path := filepath.Join(dir, firstSegment)
	r, err := record.Open(dir)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { r.Close() })
	f.Fuzz(func(t *testing.T, b []byte, fix bool) {
		if fix {
			b = fixChecksums(append([]byte(nil), b...))
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		at, entries := int64(112), 0
		var failed error
		for e, err := range r.Entries(time.Time{}, time.Time{}) {
			if failed != nil {
				t.Fatalf("after %v there is more: %+v, %v", failed, e, err)
			}
			if err != nil {
				failed = err
				continue
			}
			entries++
			if e.Offset != at {
				t.Fatalf("an entry at %d, want it at %d", e.Offset, at)
			}
			// What is shown is what stands in the file.
			head := b[at:]
			if e.Type == 0 || uint16(e.Type) != binary.LittleEndian.Uint16(head[16:]) || e.Time.UnixNano() != int64(binary.LittleEndian.Uint64(head[8:])) ||
				string(e.Payload) != string(head[20:20+len(e.Payload)]) || crc(head[4:20+len(e.Payload)]) != binary.LittleEndian.Uint32(head) {
				t.Fatalf("entry %+v is not what stands at %d", e, at)
			}
			if g, ok := record.ParseGap(e); ok != (e.Type == record.TypeGap) || (e.Type > record.MaxType && !ok) {
				t.Fatalf("gap %+v, %v of %+v", g, ok, e)
			}
			at += 20 + int64(len(e.Payload))
		}
		switch damage, ok := errors.AsType[*record.DamageError](failed); {
		case failed == nil:
			// The end, or a seal and the end.
			if at != int64(len(b)) && at+44 != int64(len(b)) {
				t.Fatalf("%d of %d bytes are silently not read", int64(len(b))-at, len(b))
			}
		case errors.Is(failed, record.ErrVersion):
			if entries > 0 {
				t.Fatal("entries of another version")
			}
		case !ok:
			t.Fatalf("error %v, want a DamageError", failed)
		case damage.Offset+damage.Bytes != int64(len(b)) || (entries > 0 && damage.Offset != at):
			t.Fatalf("%+v after %d of %d bytes", damage, at, len(b))
		}
	})
}

func crc(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

func fixChecksums(b []byte) []byte {
	if len(b) < 112 {
		return b
	}
	copy(b, "LLMGWREC\x01\x00\x70\x00")
	binary.LittleEndian.PutUint32(b[12:], crc(append(append([]byte(nil), b[:12]...), b[16:112]...)))
	for rest := b[112:]; len(rest) >= 20; {
		n := min(20+int(binary.LittleEndian.Uint32(rest[4:])%256), len(rest))
		binary.LittleEndian.PutUint32(rest[4:], uint32(n-20))
		rest[18], rest[19] = 0, 0
		binary.LittleEndian.PutUint32(rest, crc(rest[4:n]))
		rest = rest[n:]
	}
	return b
}
