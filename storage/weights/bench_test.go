package weights_test

import (
	"fmt"
	"testing"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/storage/weights"
)

// A model of 1,000 tensors and 128,256 words.
func BenchmarkRead(b *testing.B) {
	large := llama8B
	large.layers = 111 // of nine tensors each
	for name, d := range map[string]disk{
		"model.gguf":        {"model.gguf": large.gguf(12).file()},
		"model.safetensors": {"model.safetensors": safetensors(b, large.tensors("BF16")...), "config.json": large.config("")},
	} {
		b.Run(fmt.Sprintf("%s/tensors=1000", name), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := weights.Read(d, name); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEstimate(b *testing.B) {
	f := read(b, llama70B.directory(b, "BF16"), "model")
	p := engines.Profile{Engine: engines.VLLM, TensorParallel: 4, PipelineParallel: 2}
	b.ReportAllocs()
	for b.Loop() {
		weights.Estimate(f, p, card(80))
	}
}
