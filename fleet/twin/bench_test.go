package twin_test

import (
	"testing"

	"github.com/llmgw/llmgw/fleet/twin"
)

// BenchmarkTwin replays 2,000 requests of the Mooncake trace at 16 times its pace
// on 64 engines.
func BenchmarkTwin(b *testing.B) {
	tr := recorded(b, "mooncake_conversation.jsonl.gz", 2000, 16)
	for _, p := range []twin.Policy{twin.Random, twin.Prefix, twin.PrefixExact} {
		b.Run("policy="+string(p)+"/engines=64", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				run(b, fleet(64), p, tr)
			}
		})
	}
}
