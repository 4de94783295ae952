package workload_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/engines/sim/workload"
)

// TestPromptsShareWhatTheTraceSays: for any two requests of any trace the
// texts have the tokens that were asked for and begin with the same words as
// far as the blocks are the same, no further.
func TestPromptsShareWhatTheTraceSays(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		trace := &workload.Trace{BlockTokens: rapid.IntRange(1, 40).Draw(rt, "block")}
		for seq := range uint64(2) {
			trace.Requests = append(trace.Requests, drawRequest(rt, trace.BlockTokens, seq))
		}
		if err := trace.Validate(); err != nil {
			rt.Fatal(err)
		}
		p := workload.NewPrompter(trace)
		a, b := &trace.Requests[0], &trace.Requests[1]
		x, y := promptOf(rt, p, a), promptOf(rt, p, b)
		if got, want := commonWords(x, y), sharedTokens(a, b, trace.BlockTokens); got != want {
			rt.Fatalf("%d words in common, want %d:\n%s\n%s", got, want, x, y)
		}
	})
}

// drawRequest draws ids from few, so that some are the same.
func drawRequest(rt *rapid.T, size int, seq uint64) workload.Request {
	n := rapid.IntRange(1, 200).Draw(rt, "tokens")
	most := (n + size - 1) / size
	ids := rapid.SliceOfN(rapid.OneOf(
		rapid.Uint64Range(0, 2), rapid.Uint64Range(1<<27, 1<<27+1), rapid.Just(uint64(26*26*26*26*26*26-1)),
	), 0, most)
	return workload.Request{PromptTokens: n, OutputTokens: 1, Blocks: ids.Draw(rt, "ids"), Seq: seq}
}

func promptOf(rt *rapid.T, p *workload.Prompter, r *workload.Request) string {
	const before = "before "
	text := string(p.Append([]byte(before), r))
	if len(text)-len(before) > p.MaxBytes(r) {
		rt.Fatalf("%d bytes, at most %d were said", len(text)-len(before), p.MaxBytes(r))
	}
	text, kept := strings.CutPrefix(text, before)
	if !kept {
		rt.Fatalf("%q does not begin as it did", text)
	}
	if got := sim.CountTokens(text); got != r.PromptTokens {
		rt.Fatalf("%d tokens, want %d: %q", got, r.PromptTokens, text)
	}
	if words := strings.Fields(text); len(words) != r.PromptTokens || strings.Join(words, " ") != text {
		rt.Fatalf("not single words: %q", text)
	}
	if plain, err := json.Marshal(text); err != nil || string(plain) != `"`+text+`"` {
		rt.Fatalf("needs escapes: %s", plain)
	}
	return text
}

func commonWords(a, b string) int {
	x, y := strings.Fields(a), strings.Fields(b)
	n := 0
	for n < min(len(x), len(y)) && x[n] == y[n] {
		n++
	}
	return n
}

func sharedTokens(a, b *workload.Request, size int) int {
	n := 0
	for n < min(len(a.Blocks), len(b.Blocks)) && a.Blocks[n] == b.Blocks[n] {
		n++
	}
	return min(n*size, a.PromptTokens, b.PromptTokens)
}

// TestGreatIDs: ids that one word cannot spell are told apart by the next.
func TestGreatIDs(t *testing.T) {
	const word = 26 * 26 * 26 * 26 * 26 * 26
	trace := &workload.Trace{BlockTokens: 16}
	for seq, id := range []uint64{5, 5 + word, 5 + 2*word, 5 + word*word, 5 + word + word*word, 1<<64 - 1} {
		trace.Requests = append(trace.Requests, workload.Request{PromptTokens: 16, OutputTokens: 1, Blocks: []uint64{id}, Seq: uint64(seq)})
	}
	p := workload.NewPrompter(trace)
	for i := range trace.Requests {
		a := string(p.Append(nil, &trace.Requests[i]))
		if got := sim.CountTokens(a); got != 16 {
			t.Errorf("%d tokens: %s", got, a)
		}
		for j := range i {
			if b := string(p.Append(nil, &trace.Requests[j])); commonWords(a, b) > 2 {
				t.Errorf("%s\n%s", a, b)
			}
		}
	}
}

// TestPromptsHitTheSimulatedCache: what an engine's prefix cache without limit
// finds in the texts of a real trace is what the trace says, to the token
// blocks that are cut.
func TestPromptsHitTheSimulatedCache(t *testing.T) {
	trace, err := open(t, mooncakeFile).First(200)
	if err != nil {
		t.Fatal(err)
	}
	const engineBlock = 16 // divides 512
	seen := make(map[uint64]bool)
	p := workload.NewPrompter(trace)
	var text []byte
	var tokens []uint32
	hits := 0
	for i := range trace.Requests {
		text = p.Append(text[:0], &trace.Requests[i])
		tokens = sim.Tokenize(tokens[:0], string(text))
		if len(tokens) != trace.Requests[i].PromptTokens {
			t.Fatalf("request %d: %d tokens, want %d", i, len(tokens), trace.Requests[i].PromptTokens)
		}
		run := true
		for _, h := range sim.BlockHashes(0, tokens, engineBlock) {
			if run = run && seen[h]; run {
				hits++
			}
			seen[h] = true
		}
	}
	want := trace.Stats().SeenTokens / engineBlock
	if int64(hits) > want || int64(hits) < want-int64(len(trace.Requests)) {
		t.Errorf("%d blocks of %d tokens found, want %d", hits, engineBlock, want)
	}
}

// TestPromptsWithoutBlocks: nothing is shared, not even in the first block of
// tokens that an engine sees.
func TestPromptsWithoutBlocks(t *testing.T) {
	trace := open(t, azureFile)
	p := workload.NewPrompter(trace)
	first := make(map[string]int)
	for i := range trace.Requests {
		words := strings.SplitN(string(p.Append(nil, &trace.Requests[i])), " ", 2)
		if j, twice := first[words[0]]; twice {
			t.Fatalf("requests %d and %d both begin with %q", i, j, words[0])
		}
		first[words[0]] = i
	}
}

func TestPromptIsTheTracesText(t *testing.T) {
	trace := open(t, aibrixFile)
	p := workload.NewPrompter(trace)
	for i := range trace.Requests {
		if got := string(p.Append(nil, &trace.Requests[i])); got != trace.Requests[i].Text {
			t.Fatalf("request %d: %q", i, got)
		}
	}
}

// TestPrompterConcurrently: one Prompter serves many goroutines, and two
// Prompters make the same texts.
func TestPrompterConcurrently(t *testing.T) {
	trace, err := open(t, mooncakeFile).First(50)
	if err != nil {
		t.Fatal(err)
	}
	shared, own := workload.NewPrompter(trace), workload.NewPrompter(trace)
	var wg sync.WaitGroup
	for i := range trace.Requests {
		wg.Go(func() {
			if string(shared.Append(nil, &trace.Requests[i])) != string(own.Append(nil, &trace.Requests[i])) {
				t.Errorf("request %d: texts differ", i)
			}
		})
	}
	wg.Wait()
}

func TestAppendAllocs(t *testing.T) {
	trace := open(t, mooncakeFile)
	p := workload.NewPrompter(trace)
	buf := make([]byte, 0, p.MaxBytes(&trace.Requests[0]))
	if n := testing.AllocsPerRun(10, func() { buf = p.Append(buf[:0], &trace.Requests[0]) }); n != 0 {
		t.Errorf("%v allocations into a slice with room", n)
	}
}
