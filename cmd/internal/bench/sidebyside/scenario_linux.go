package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/bench/load"
	"github.com/llmgw/llmgw/cmd/internal/bench/wire"
)

// Names of the peers that goals compare llmgw with.
const (
	direct       = "direct"
	reverseProxy = "reverseproxy"
	nginx        = "nginx"
	haproxy      = "haproxy"
)

// figure is what a goal bounds.
type figure uint8

const (
	cpuRatio figure = iota + 1 // CPU per answer ÷ the peer's
	p50Added                   // p50 latency − the peer's, ms
	p99Added                   // p99 latency − the peer's, ms
)

// goal is a bound that llmgw is to keep.
type goal struct {
	figure figure
	peer   string
	atMost float64
}

func (g goal) String() string {
	switch g.figure {
	case cpuRatio:
		return "CPU per answer ÷ " + g.peer
	case p50Added:
		return "p50 − " + g.peer + ", ms"
	case p99Added:
		return "p99 − " + g.peer + ", ms"
	}
	return "unknown"
}

// scenario is one kind of load, with what is asked of llmgw under it.
type scenario struct {
	key   string
	what  string
	load  load.Config // without addresses and times
	goals []goal      // none where llmgw is compared with itself
}

// open reports whether the scenario is an open loop, whose latencies mean
// something, and which therefore gets more and longer rounds.
func (s scenario) open() bool { return s.load.Rate > 0 }

// scenarios lists all loads, in the order in which they run.
func scenarios() []scenario {
	const kib = 1 << 10
	whole := func(callers, promptBytes, prompts int) load.Config {
		return load.Config{Callers: callers, Mix: []load.Shape{{
			Params: wire.Params{AnswerBytes: kib}, PromptBytes: promptBytes, Prompts: prompts,
		}}}
	}
	stream := func(callers, events int, gap time.Duration) load.Config {
		return load.Config{Callers: callers, Mix: []load.Shape{{
			Params: wire.Params{Events: events, Gap: gap}, Stream: true, PromptBytes: kib, Prompts: 64,
		}}}
	}
	// The mean request of examples/traces/azure2023_conv.csv.gz has 1,242 tokens of
	// prompt, some 4 bytes each, and 218 of answer.
	typical := stream(1000, 218, 20*time.Millisecond)
	typical.Mix[0].PromptBytes = 4 * 1242
	open := whole(256, kib, 64)
	open.Rate = 500
	return []scenario{
		{"a", "1 KiB prompt and answer, unstreamed, 64 callers", whole(64, kib, 64),
			[]goal{{cpuRatio, reverseProxy, .65}, {cpuRatio, nginx, 2.2}}},
		{"b", "streams of 100 events without delay, 64 callers", stream(64, 100, 0),
			[]goal{{cpuRatio, reverseProxy, 1.05}}},
		{"c", "streams of 64 events 5 ms apart, 1,000 callers", stream(1000, 64, 5*time.Millisecond),
			[]goal{{cpuRatio, nginx, 1.25}}},
		{"h", "streams of 8 events 5 ms apart, 1,000 callers", stream(1000, 8, 5*time.Millisecond),
			[]goal{{cpuRatio, reverseProxy, .5}, {cpuRatio, nginx, 1.35}}},
		{"g", "a typical conversation: 5 KB prompt, streams of 218 events 20 ms apart, 1,000 callers", typical, nil},
		{"d", "32 KiB prompt, 1 KiB answer, unstreamed, 64 callers", whole(64, 32*kib, 64),
			[]goal{{cpuRatio, reverseProxy, .75}}},
		{"e", "1 MiB prompt, 1 KiB answer, unstreamed, 16 callers", whole(16, 1<<20, 8),
			[]goal{{cpuRatio, reverseProxy, .95}}},
		{"f", "open loop of 500 calls a second, 1 KiB prompt and answer, unstreamed", open,
			[]goal{{p50Added, direct, .40}, {p99Added, nginx, .6}}},
	}
}

// choose returns the scenarios with the given comma-separated keys.
func choose(keys string) ([]scenario, error) {
	all := scenarios()
	var out []scenario
	for key := range strings.SplitSeq(keys, ",") {
		i := slices.IndexFunc(all, func(s scenario) bool { return s.key == strings.TrimSpace(key) })
		if i < 0 {
			return nil, fmt.Errorf("no scenario %q; there are a, b, c, h, g, d, e, f", key)
		}
		out = append(out, all[i])
	}
	return out, nil
}

// order returns the sequence of n peers in a round: each round begins with
// another, and every second one runs backwards, so that none always follows the
// same neighbour.
func order(n, round int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = (i + round) % n
	}
	if round%2 == 1 {
		slices.Reverse(out)
	}
	return out
}
