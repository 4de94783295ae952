package calibrate_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/engines/sim/calibrate"
)

// truth makes samples as an engine with this timing gives them, each off by a
// factor that noise draws. One of its tokens is half a simulated one.
func truth(t sim.Timing, chunk float64, noise func() float64) calibrate.Samples {
	var s calibrate.Samples
	s.Told.Model = "m"
	for range 5 {
		for n := 32.0; n <= 8192; n *= 2 {
			at := t.Request.Seconds() + math.Ceil(n/chunk)*t.Step.Seconds() +
				n/t.PrefillTokensPerSecond + n*n/2/t.AttentionPairsPerSecond
			s.Prefills = append(s.Prefills, calibrate.Prefill{
				PromptTokens: int(n), EnginePromptTokens: 7 + 2*int(n), TTFTSeconds: at * noise(),
			})
		}
		for _, b := range []float64{1, 2, 4, 8, 16} {
			for _, c := range []float64{32, 4096, 8192} {
				at := t.Step.Seconds() + b*t.PerSequence.Seconds() + b*c/t.KVReadTokensPerSecond
				s.Decodes = append(s.Decodes, calibrate.Decode{Sequences: int(b), ContextTokens: c, IntervalSeconds: at * noise()})
			}
		}
	}
	return s
}

// The fit stands 5 % of scatter and every tenth sample being absurd.
func TestFitIsRobust(t *testing.T) {
	want := sim.DefaultConfig().Timing
	slow := func(rng *rand.Rand) float64 { return 1 + 4*rng.Float64() }
	short := func(rng *rand.Rand) float64 { return 1e-3 * rng.Float64() }
	for _, absurd := range []struct {
		name   string
		factor func(*rand.Rand) float64
	}{
		{"too slow", slow},
		{"nearly nothing", short},
		{"either", func(rng *rand.Rand) float64 {
			if rng.IntN(2) == 0 {
				return slow(rng)
			}
			return short(rng)
		}},
	} {
		t.Run(absurd.name, func(t *testing.T) {
			seeds := uint64(6)
			if raced {
				seeds = 1
			}
			for seed := range seeds {
				rng := rand.New(rand.NewPCG(seed, 1))
				s := truth(want, 8192, func() float64 {
					if rng.IntN(10) == 0 {
						return absurd.factor(rng)
					}
					return math.Exp(0.05 * rng.NormFloat64())
				})
				m, err := calibrate.Fit(s)
				if err != nil {
					t.Fatal(err)
				}
				if math.Abs(m.TokenRatio-2) > 1e-9 {
					t.Errorf("token ratio %v, want 2", m.TokenRatio)
				}
				got := m.Timing()
				for _, v := range []struct {
					name      string
					got, want float64
				}{
					{"step", got.Step.Seconds(), want.Step.Seconds()},
					{"prefill", got.PrefillTokensPerSecond, want.PrefillTokensPerSecond},
					{"kv_read", got.KVReadTokensPerSecond, want.KVReadTokensPerSecond},
				} {
					if math.Abs(v.got/v.want-1) > 0.15 {
						t.Errorf("seed %d: %s is %v, want %v ± 15 %%", seed, v.name, v.got, v.want)
					}
				}
			}
		})
	}
}

// What a real run measured of a simulated engine with the default costs while
// the machine was busy with something else: times up to 7 times too long, and
// one point of which nearly all tokens were read at once.
func TestFitOfBusyMachine(t *testing.T) {
	data, err := os.ReadFile("testdata/busy-machine.json")
	if err != nil {
		t.Fatal(err)
	}
	var s calibrate.Samples
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	m, err := calibrate.Fit(s)
	if err != nil {
		t.Fatal(err)
	}
	got, want := m.Timing(), sim.DefaultConfig().Timing
	for name, off := range map[string]float64{
		"step":         got.Step.Seconds()/want.Step.Seconds() - 1,
		"per_sequence": got.PerSequence.Seconds()/want.PerSequence.Seconds() - 1,
		"prefill":      got.PrefillTokensPerSecond/want.PrefillTokensPerSecond - 1,
	} {
		if math.Abs(off) > 0.15 {
			t.Errorf("%s is off by %.2f", name, off)
		}
	}
	if m.Interval.MedianRatio > 0.1 {
		t.Errorf("the time between tokens is off by %v", m.Interval)
	}
}

// A sample that cannot be is refused, not fitted.
func TestFitRefuses(t *testing.T) {
	for name, change := range map[string]func(*calibrate.Samples){
		"prefill 39: ": func(s *calibrate.Samples) { s.Prefills[39].TTFTSeconds = 0 },
		"prefill 0: ":  func(s *calibrate.Samples) { s.Prefills[0].EnginePromptTokens = 0 },
		"prefill 1: ":  func(s *calibrate.Samples) { s.Prefills[1].CachedTokens = s.Prefills[1].PromptTokens },
		"decode 3: ":   func(s *calibrate.Samples) { s.Decodes[3].IntervalSeconds = math.NaN() },
		"decode 4: ":   func(s *calibrate.Samples) { s.Decodes[4].Sequences = 0 },
		"repeat 0: ":   func(s *calibrate.Samples) { s.Repeats = []calibrate.Repeat{{PromptTokens: 1, FirstSeconds: 1}} },
	} {
		s := truth(sim.DefaultConfig().Timing, 8192, func() float64 { return 1 })
		change(&s)
		if _, err := calibrate.Fit(s); !errors.Is(err, calibrate.ErrSample) || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want %v and %q", err, calibrate.ErrSample, name)
		}
	}
}

// What was not varied is not told, and costs nothing of its own.
func TestFitSaysWhatIsUnknown(t *testing.T) {
	s := calibrate.Samples{
		Prefills: []calibrate.Prefill{{PromptTokens: 100, EnginePromptTokens: 150, TTFTSeconds: 0.2}},
		Decodes:  []calibrate.Decode{{Sequences: 1, ContextTokens: 100, IntervalSeconds: 0.01}},
	}
	m, err := calibrate.Fit(s)
	if err != nil {
		t.Fatal(err)
	}
	unknown := strings.Join(m.Unknown, "\n")
	for _, want := range []string{"max_num_seqs", "max_num_batched_tokens", "max_model_len", "num_gpu_blocks", "enable_prefix_caching", "timing."} {
		if !strings.Contains(unknown, want) {
			t.Errorf("%q lacks %s", unknown, want)
		}
	}
	if m.MaxNumSeqs != nil || m.MaxNumBatchedTokens != nil || m.MaxModelLen != nil || m.PrefixCaching != nil || m.BlockSize != nil {
		t.Errorf("something was told by nothing: %+v", m)
	}
	if m.TTFT.WorstRatio > 1e-6 || m.Interval.WorstRatio > 1e-6 {
		t.Errorf("two points are off: %v, %v", m.TTFT, m.Interval)
	}
	if _, err := calibrate.Fit(calibrate.Samples{}); !errors.Is(err, calibrate.ErrTooFew) {
		t.Errorf("error %v, want %v", err, calibrate.ErrTooFew)
	}
}

// Whatever is found, the engine accepts.
func TestFitIsValid(t *testing.T) {
	cached := func(n int) *int { return &n }
	for _, tt := range []struct {
		name   string
		change func(*calibrate.Samples)
	}{
		{"nothing told", func(*calibrate.Samples) {}},
		{"context of a million", func(s *calibrate.Samples) { s.Told.MaxModelLen = 2_000_000 }},
		{"context of one", func(s *calibrate.Samples) { s.Told.MaxModelLen = 1 }},
		{"more slots than a chunk", func(s *calibrate.Samples) {
			s.Told.Slots = 900
			s.Mixed = []calibrate.Mixed{{PromptTokens: 100, EnginePromptTokens: 200, IntervalSeconds: 0.01, GapsSeconds: []float64{1, 1, 1}}}
		}},
		{"more slots than the default chunk", func(s *calibrate.Samples) { s.Told.Slots = 100_000 }},
		{"a chunk smaller than the default sequences", func(s *calibrate.Samples) {
			s.Mixed = []calibrate.Mixed{{PromptTokens: 100, EnginePromptTokens: 200, IntervalSeconds: 0.01, GapsSeconds: []float64{1, 1, 1}}}
		}},
		{"cached by token", func(s *calibrate.Samples) {
			s.Repeats = []calibrate.Repeat{
				{PromptTokens: 100, FirstSeconds: 1, AgainSeconds: 0.1, CachedTokens: cached(199)},
				{PromptTokens: 90, FirstSeconds: 1, AgainSeconds: 0.1, CachedTokens: cached(180)},
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := truth(sim.DefaultConfig().Timing, 8192, func() float64 { return 1 })
			tt.change(&s)
			m, err := calibrate.Fit(s)
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Apply(sim.DefaultConfig()).Validate(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The printed file means what the model says, names of any kind included.
func TestYAML(t *testing.T) {
	s := truth(sim.DefaultConfig().Timing, 8192, func() float64 { return 1 })
	s.Told.Model = "a: \"b\"\n# \u2028é"
	m, err := calibrate.Fit(s)
	if err != nil {
		t.Fatal(err)
	}
	r := calibrate.Report{Model: m, URL: "http://x\nevil: 1", API: calibrate.Chat, Notes: []string{"a\nb: c"}}
	var b bytes.Buffer
	if err := r.WriteYAML(&b); err != nil {
		t.Fatal(err)
	}
	got := sim.DefaultConfig()
	d := yaml.NewDecoder(&b)
	d.KnownFields(true)
	if err := d.Decode(&got); err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	want := m.Apply(sim.DefaultConfig())
	if got.Model != want.Model || got.Timing != want.Timing {
		t.Errorf("read %+v, want %+v", got, want)
	}
}
