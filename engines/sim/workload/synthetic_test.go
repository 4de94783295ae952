package workload_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines/sim/workload"
)

func synthesize(t *testing.T, edit func(*workload.Synthetic)) *workload.Trace {
	t.Helper()
	cfg := workload.DefaultSynthetic()
	if edit != nil {
		edit(&cfg)
	}
	trace, err := workload.Synthesize(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := trace.Validate(); err != nil {
		t.Fatal(err)
	}
	if trace.Format != workload.Synthesized || trace.Name == "" {
		t.Errorf("%q, %s", trace.Name, trace.Format)
	}
	return trace
}

func TestSynthesizeDefault(t *testing.T) {
	s := synthesize(t, nil).Stats()
	if s.Requests != 1000 || s.Duration != 0 || s.Prompt.Min != 512 || s.Prompt.Max != 512 || s.Sessions != 0 || s.Blocks != 0 {
		t.Errorf("%+v", s)
	}
	if s.Output.P50 < 100 || s.Output.P50 > 140 || s.Output.Max > 2048 {
		t.Errorf("%+v", s.Output)
	}
}

// TestSynthesizeGroups: 150 groups of 5 users with 8k tokens in common. Each
// round has every user once; all but the first of a group find its prefix.
func TestSynthesizeGroups(t *testing.T) {
	trace := synthesize(t, func(s *workload.Synthetic) {
		s.Requests, s.Groups, s.UsersPerGroup, s.PrefixTokens = 1500, 150, 5, 8192
	})
	s := trace.Stats()
	if s.Sessions != 750 || s.Prompt.Min != 8192+512 || s.Prompt.Max != 8192+512 || s.SeenBlocks != 1350 || s.SeenTokens != 1350*8192 {
		t.Errorf("%+v", s)
	}
	group := make(map[string]uint64)
	for half := range 2 {
		users := make(map[string]bool)
		for _, r := range trace.Requests[half*750 : (half+1)*750] {
			users[r.Session] = true
			name, _, _ := strings.Cut(r.Session, "-")
			if id, known := group[name]; known && id != r.Blocks[0] {
				t.Errorf("group %s has prefixes %d and %d", name, id, r.Blocks[0])
			}
			group[name] = r.Blocks[0]
		}
		if len(users) != 750 {
			t.Errorf("round %d has %d users", half, len(users))
		}
	}
	if len(group) != 150 {
		t.Errorf("%d groups", len(group))
	}
	p := workload.NewPrompter(trace)
	var x, y *workload.Request
	for i := range trace.Requests {
		switch r := &trace.Requests[i]; {
		case r.Blocks[0] != 0:
		case x == nil:
			x = r
		case y == nil:
			y = r
		}
	}
	if n := commonWords(string(p.Append(nil, x)), string(p.Append(nil, y))); n != 8192 {
		t.Errorf("two users of a group share %d tokens", n)
	}
}

func TestSynthesizeIsReproducible(t *testing.T) {
	edit := func(s *workload.Synthetic) {
		s.Groups, s.UsersPerGroup, s.PrefixTokens = 3, 2, 10
		s.Arrivals = workload.Arrivals{Process: workload.Poisson, Rate: 5}
	}
	a, b := synthesize(t, edit), synthesize(t, edit)
	if !cmp.Equal(a, b) {
		t.Error("two draws differ")
	}
	other := synthesize(t, func(s *workload.Synthetic) { edit(s); s.Seed = 2 })
	if cmp.Equal(a.Requests, other.Requests) {
		t.Error("another seed draws the same")
	}
	// The rate has no say in the lengths.
	fast := synthesize(t, func(s *workload.Synthetic) { edit(s); s.Arrivals.Rate = 50 })
	for i := range fast.Requests {
		fast.Requests[i].At = a.Requests[i].At
	}
	if diff := cmp.Diff(a.Requests, fast.Requests); diff != "" {
		t.Error(diff)
	}
}

func TestSynthesizeArrivals(t *testing.T) {
	even := synthesize(t, func(s *workload.Synthetic) { s.Arrivals = workload.Arrivals{Process: workload.Uniform, Rate: 3} })
	for i, r := range even.Requests {
		if want := time.Duration(float64(i) / 3 * 1e9); r.At != want {
			t.Fatalf("request %d at %v, want %v", i, r.At, want)
		}
	}
	const rate = 20.
	poisson := synthesize(t, func(s *workload.Synthetic) {
		s.Requests, s.Arrivals = 50_000, workload.Arrivals{Process: workload.Poisson, Rate: rate}
	})
	var sum, squares float64
	for i := range poisson.Requests[1:] {
		gap := (poisson.Requests[i+1].At - poisson.Requests[i].At).Seconds()
		sum += gap
		squares += gap * gap
	}
	n := float64(len(poisson.Requests) - 1)
	mean := sum / n
	deviation := math.Sqrt(squares/n - mean*mean)
	// An exponential gap's deviation is its mean.
	if math.Abs(mean*rate-1) > 0.02 || math.Abs(deviation/mean-1) > 0.03 {
		t.Errorf("gaps of %v ± %v s, want %v", mean, deviation, 1/rate)
	}
}

func TestSynthesizeLongest(t *testing.T) {
	trace := synthesize(t, func(s *workload.Synthetic) {
		s.Requests, s.PrefixTokens = 3, workload.MaxTokens/2
		if err := s.Prompt.UnmarshalText([]byte("16777216")); err != nil {
			t.Fatal(err)
		}
	})
	if got := trace.Requests[0].PromptTokens; got != workload.MaxTokens {
		t.Errorf("%d", got)
	}
}

func TestSyntheticValidate(t *testing.T) {
	if err := workload.DefaultSynthetic().Validate(); err != nil {
		t.Error(err)
	}
	bad := workload.Synthetic{
		PrefixTokens: -1, Groups: 1 << 11, UsersPerGroup: 1 << 10,
		Arrivals: workload.Arrivals{Process: "gamma", Rate: 1},
	}
	trace, err := workload.Synthesize(bad)
	if trace != nil || !errors.Is(err, workload.ErrInvalid) {
		t.Fatal(trace, err)
	}
	for _, want := range []string{
		"workload: invalid: requests: 0; want 1 to 5000000",
		"prompt: unset; want a distribution of lengths",
		"output: unset; want a distribution of lengths",
		"prefix_tokens: -1; want 0 to 8388608",
		"users_per_group: 1024; want 1 or more, and at most 1048576 in all groups",
		`arrivals: process "gamma"; want poisson or uniform`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %s", err, want)
		}
	}
	if err := (workload.Synthetic{}).Validate(); err == nil || !strings.Contains(err.Error(), "groups: 0; want 1 to 1048576") {
		t.Error(err)
	}
	slow := workload.DefaultSynthetic()
	slow.Arrivals = workload.Arrivals{Process: workload.Uniform, Rate: 1e-6}
	if trace, err := workload.Synthesize(slow); trace != nil || !errors.Is(err, workload.ErrInvalid) {
		t.Error(trace, err)
	}
}
