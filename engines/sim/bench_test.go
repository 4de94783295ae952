package sim_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines/sim"
)

// BenchmarkCoreStep is one iteration of a steady batch in which every finished
// sequence is followed by a new one.
func BenchmarkCoreStep(b *testing.B) {
	for _, size := range []struct {
		name  string
		batch int
	}{{"batch=1", 1}, {"batch=32", 32}, {"batch=256", 256}} {
		b.Run(size.name, func(b *testing.B) {
			c := newCore(b, nil)
			now := epoch
			for range size.batch {
				c.Submit(now, sim.Request{PromptTokens: 512, OutputTokens: 256})
			}
			tokens := 0
			b.ReportAllocs()
			for b.Loop() {
				batch, next := c.Step(now)
				tokens += len(batch.Advanced)
				for range batch.Finished {
					c.Submit(now, sim.Request{PromptTokens: 512, OutputTokens: 256})
				}
				if next.IsZero() {
					next = now
				}
				now = next
			}
			b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
			b.ReportMetric(now.Sub(epoch).Seconds()/b.Elapsed().Seconds(), "simulated-s/s")
		})
	}
}

// BenchmarkLongPrompt is a request of 100,000 tokens, nine tenths of which are
// cached: what a trace of long conversations costs.
func BenchmarkLongPrompt(b *testing.B) {
	c := newCore(b, nil)
	now := epoch
	hashes := promptHashes(1, 0, 100_000)
	own := uint64(1)
	b.ReportAllocs()
	for b.Loop() {
		own++
		h := append(append([]uint64(nil), hashes[:5600]...), hashes[5600:]...)
		for i := 5600; i < len(h); i++ {
			h[i] ^= own * 0x9e3779b97f4a7c15
		}
		c.Submit(now, sim.Request{PromptTokens: 100_000, OutputTokens: 16, Blocks: h})
		now = run(b, c, now, nil)
	}
}

// BenchmarkManyEngines advances 64 engines for one minute of moderate load.
func BenchmarkManyEngines(b *testing.B) {
	for b.Loop() {
		steps := 0
		for engine := range 64 {
			c := newCore(b, nil)
			now, next := epoch, time.Time{}
			arrival := epoch.Add(time.Duration(engine) * time.Millisecond)
			for end := epoch.Add(time.Minute); now.Before(end); {
				for !arrival.After(now) {
					c.Submit(arrival, sim.Request{PromptTokens: 1024, OutputTokens: 200})
					arrival = arrival.Add(250 * time.Millisecond)
				}
				_, next = c.Step(now)
				steps++
				if next.IsZero() || next.After(arrival) && c.Idle() {
					next = arrival
				}
				now = next
			}
		}
		b.ReportMetric(float64(steps), "steps")
	}
}

func BenchmarkTokenize(b *testing.B) {
	text := strings.Repeat("The quick brown fox jumps over the lazy dog, 1234 times; naïveté! ", 1000)
	dst := make([]uint32, 0, len(text))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		dst = sim.Tokenize(dst[:0], text)
	}
}

// BenchmarkChatStream is a whole answer of 100 events, without delay and in
// process: what the shell costs.
func BenchmarkChatStream(b *testing.B) {
	e, err := sim.New(sim.InstantConfig(), sim.Deps{})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	body := strings.Replace(stream, "30", "100", 1)
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(body))
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
	}
	b.ReportMetric(100*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
}
