package kvevents

import "testing"

// typical is a batch as a busy engine sends it: one prompt's blocks in, the
// blocks of an older one out.
func typical(enc Encoding) []byte {
	stored := Event{
		Kind: KindStored, Hashes: make([]uint64, 64), Parent: 1 << 63, HasParent: true, Tokens: make([]uint32, 64*16), BlockSize: 16,
		LoRA: "adapter", Extra: make([]ExtraKeys, 64), Medium: GPU, HasGroup: true, Spec: "full_attention",
	}
	for i := range stored.Tokens {
		stored.Tokens[i] = uint32(100_000 + i)
	}
	for i := range stored.Hashes {
		stored.Hashes[i] = 1<<63 + uint64(i)
	}
	removed := Event{Kind: KindRemoved, Hashes: stored.Hashes, Medium: "CPU"}
	return Append(nil, &Batch{Time: 1, Events: []Event{removed, stored}}, enc)
}

// A subscriber that has seen a batch of the size before takes no memory for it.
func TestDecodeAllocs(t *testing.T) {
	for _, enc := range []Encoding{Array, Map} {
		payload := typical(enc)
		var d decoder
		var b Batch
		if n := testing.AllocsPerRun(100, func() {
			if err := d.decode(&b, payload); err != nil {
				t.Fatal(err)
			}
		}); n > 0 {
			t.Errorf("%v: %v allocations a batch", enc, n)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, enc := range []Encoding{Array, Map} {
		b.Run(enc.String(), func(b *testing.B) {
			payload := typical(enc)
			var d decoder
			var batch Batch
			b.SetBytes(int64(len(payload)))
			b.ReportAllocs()
			for b.Loop() {
				if err := d.decode(&batch, payload); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
