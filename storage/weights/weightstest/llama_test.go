package weightstest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/storage/weights"
	"github.com/llmgw/llmgw/storage/weights/weightstest"
)

// What is written is read as the model that it was written of, with the cache that
// such a model has, and takes no room.
func TestLlama(t *testing.T) {
	dir := t.TempDir()
	if err := weightstest.Llama8B().Write(filepath.Join(dir, "8b", "model.gguf")); err != nil {
		t.Fatal(err)
	}
	f, err := weights.Read(os.DirFS(dir), "8b")
	if err != nil {
		t.Fatal(err)
	}
	if f.Architecture != "llama" || len(f.Layers) != 32 || !f.ContextTokens.Is(8192) || f.TensorBytes < 14<<30 || f.TensorBytes > 15<<30 {
		t.Errorf("%+v", f)
	}
	m := weights.Estimate(f, engines.Profile{Engine: engines.LlamaCPP, ContextTokens: 8192, MaxRunning: 1}, engines.Opt[uint64]{})
	if !m.TokenBytes.Is(131072) || !m.KV.Bytes.Is(131072*8192) {
		t.Errorf("a token takes %v, all of them %v; want 131072 bytes each", m.TokenBytes, m.KV.Bytes)
	}
}
