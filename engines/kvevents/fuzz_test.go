package kvevents_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llmgw/llmgw/engines/kvevents"
)

// No payload breaks the decoder or makes it remember more than it holds, and
// what it understood means the same after being written in either form.
func FuzzDecode(f *testing.F) {
	for _, payload := range golden(f) {
		f.Add(payload)
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		b, err := kvevents.Decode(payload)
		if err != nil {
			if !errors.Is(err, kvevents.ErrMalformed) || b != nil {
				t.Fatalf("%+v, %v; want ErrMalformed", b, err)
			}
			return
		}
		size := len(b.Events) + b.Unknown
		for _, e := range b.Events {
			size += len(e.Hashes) + len(e.Tokens) + len(e.Extra) + len(e.LoRA)
			for _, x := range e.Extra {
				x.Strings()
			}
		}
		if size > 2*len(payload) {
			t.Errorf("%d things from %d bytes", size, len(payload))
		}
		b.Unknown = 0
		for _, enc := range []kvevents.Encoding{kvevents.Array, kvevents.Map} {
			want := *b
			if enc == kvevents.Array { // has no locality
				want.Events = append([]kvevents.Event(nil), b.Events...)
				for i := range want.Events {
					want.Events[i].Remote = false
				}
			}
			again, err := kvevents.Decode(kvevents.Append(nil, b, enc))
			if err != nil {
				t.Fatalf("%v: %v", enc, err)
			}
			if diff := cmp.Diff(want, *again, cmpopts.EquateEmpty(), cmpopts.EquateNaNs()); diff != "" {
				t.Errorf("%v (-want +got):\n%s", enc, diff)
			}
		}
	})
}
