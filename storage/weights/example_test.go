package weights_test

import (
	"errors"
	"fmt"
	"os"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/storage/weights"
)

// What a model takes of a card, before it was ever run.
func ExampleEstimate() {
	facts := weights.Facts{ // as Read returns them
		Format: weights.GGUF, Files: []weights.File{{Name: "model.gguf", Bytes: 4 << 30}},
		TensorBytes: 4 << 30, EmbeddingBytes: 256 << 20, OutputBytes: 256 << 20,
		Hidden: engines.Known(4096), Vocabulary: engines.Known(32000), FeedForward: engines.Known(14336),
	}
	for range 32 {
		facts.Layers = append(facts.Layers, weights.Layer{
			Bytes: 112 << 20,
			Cache: weights.Cache{Kind: weights.CacheHeads, Heads: 8, KeyLength: 128, ValueLength: 128},
		})
	}
	profile := engines.Profile{Engine: engines.LlamaCPP, ContextTokens: 8192, MaxRunning: 4}
	memory := weights.Estimate(facts, profile, engines.Known[uint64](24<<30))
	for _, part := range memory.Parts() {
		fmt.Printf("%-12s %6.0f MiB: %s\n", part.Name, float64(part.Bytes.Or(0))/(1<<20), part.How)
	}

	peak := engines.Known(weights.Peak{Bytes: 9 << 30, CardBytes: 24 << 30})
	planned := weights.Compare(memory, peak)
	fmt.Printf("estimated %.1f GiB, plan %.1f GiB; %s\n", float64(planned.EstimateBytes.Or(0))/(1<<30), float64(planned.Bytes.Or(0))/(1<<30), planned.Why)
	// Output:
	// weights        3840 MiB: 4.00 GiB of tensors; the table of tokens, 256.0 MiB, stays in the machine's memory
	// kv cache       4096 MiB: 32768 tokens for 4 requests together
	// activations      70 MiB: a batch of 512 tokens, at 32 bits, with a number for each token of the vocabulary
	// overhead        500 MiB: the context of CUDA, 0.3 to 0.6 GiB by card and driver
	// runtime           0 MiB: nothing that is known
	// estimated 8.3 GiB, plan 9.0 GiB; measured: the most that a card was seen to use
}

// What is not there, or not all there, is told apart.
func ExampleRead() {
	_, err := weights.Read(os.DirFS("testdata"), "no-model")
	switch e, _ := errors.AsType[*weights.ReadError](err); {
	case errors.Is(err, weights.ErrIncomplete):
		fmt.Println("wait for", e.Missing)
	case errors.Is(err, weights.ErrNotFound), errors.Is(err, weights.ErrEmpty):
		fmt.Println("fetch it")
	}
	// Output: fetch it
}
