package agent

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgw/llmgw/engines"
)

// Who holds memory of a card is said; what is not known to be held is not, and what
// could not be looked at is no memory that is free.
func TestMemoryOfCards(t *testing.T) {
	const gib = 1 << 30
	before := cardBefore{ID: "GPU-a", UsedBytes: engines.Known[uint64](gib)}
	card := func(change func(*engines.GPUState)) engines.NodeState {
		s := engines.GPUState{GPU: "GPU-a", MemoryUsedBytes: engines.Known[uint64](gib)}
		change(&s)
		return engines.NodeState{GPUs: []engines.GPUState{s}}
	}
	stranger := engines.GPUProcess{PID: 4711, Name: "python", MemoryBytes: engines.Known[uint64](20 * gib)}
	since := time.Unix(1e9, 0)
	tests := []struct {
		name   string
		node   facts
		shared bool
		want   string // in what is said; empty: it is free
	}{
		{"as before", facts{state: card(func(*engines.GPUState) {})}, false, ""},
		{"a stranger", facts{state: card(func(s *engines.GPUState) {
			s.MemoryUsedBytes, s.Foreign = engines.Known[uint64](21*gib), []engines.GPUProcess{stranger}
		})}, false, "process 4711 (python) with 20.0 GiB"},
		{"nobody that can be seen", facts{state: card(func(s *engines.GPUState) { s.MemoryUsedBytes = engines.Known[uint64](21 * gib) })}, false, "21.0 GiB of card GPU-a are in use by nobody"},
		{"another shard's too", facts{state: card(func(s *engines.GPUState) { s.MemoryUsedBytes = engines.Known[uint64](21 * gib) })}, true, ""},
		{"not told, and nobody there", facts{state: card(func(s *engines.GPUState) { s.MemoryUsedBytes = engines.Opt[uint64]{} })}, false, ""},
		{"not told, and a stranger there", facts{state: card(func(s *engines.GPUState) {
			s.MemoryUsedBytes, s.Foreign = engines.Opt[uint64]{}, []engines.GPUProcess{stranger}
		})}, false, "4711"},
		{"the driver hangs", facts{problem: "it hangs"}, false, "it hangs"},
		{"an old reading", facts{state: engines.NodeState{GPUsAge: time.Minute}}, false, "could not be looked at"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.node.readAt = since.Add(time.Second)
			got := heldOn(&tt.node, []cardBefore{before}, since, func(string) bool { return tt.shared })
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("%q; want %q", got, tt.want)
			}
		})
	}
}

// A card that comes free is waited for, and one that does not is given up in time.
func TestFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		fresh := func(context.Context) *facts {
			used := uint64(20 << 30)
			if time.Since(began) >= 3*time.Second {
				used = 0
			}
			return &facts{readAt: time.Now(), state: engines.NodeState{GPUs: []engines.GPUState{{GPU: "GPU-a", MemoryUsedBytes: engines.Known(used)}}}}
		}
		w := wish{Cards: []cardBefore{{ID: "GPU-a"}}}
		alone := func(string) bool { return false }
		if held := freed(t.Context(), w, 30*time.Second, fresh, alone); held != "" || time.Since(began) > 4*time.Second {
			t.Errorf("after %v: %q", time.Since(began), held)
		}
		began = time.Now().Add(time.Hour)
		asked := time.Now()
		if held := freed(t.Context(), w, 30*time.Second, fresh, alone); !strings.Contains(held, "20.0 GiB") || time.Since(asked) != 30*time.Second {
			t.Errorf("after %v: %q", time.Since(asked), held)
		}
	})
}

// An engine that sleeps keeps up to a tenth of its card; more is said, and what cannot
// be looked at is not sure.
func TestRested(t *testing.T) {
	const gib = 1 << 30
	since := time.Unix(1e9, 0)
	card := func(used, free engines.Opt[uint64], foreign ...engines.GPUProcess) engines.NodeState {
		return engines.NodeState{GPUs: []engines.GPUState{{GPU: "GPU-a", MemoryUsedBytes: used, MemoryFreeBytes: free, Foreign: foreign}}}
	}
	of := func(n uint64) engines.Opt[uint64] { return engines.Known(n * gib) }
	var unknown engines.Opt[uint64]
	for _, tt := range []struct {
		name   string
		node   facts
		shared bool
		want   string // in what is said; empty: nothing
		sure   bool
	}{
		{"a tenth above what was there", facts{state: card(of(9), of(71))}, false, "", true},
		{"more", facts{state: card(of(10), of(70))}, false, "10.0 GiB of card GPU-a", true},
		{"with another shard", facts{state: card(of(70), of(10))}, true, "", true},
		{"with a stranger", facts{state: card(of(70), of(10), engines.GPUProcess{PID: 7})}, false, "", true},
		{"not told", facts{state: card(unknown, unknown)}, false, "", true},
		{"the driver hangs", facts{problem: "it hangs"}, false, "it hangs", false},
	} {
		tt.node.readAt = since.Add(time.Second)
		got, sure := restedOn(&tt.node, []cardBefore{{ID: "GPU-a", UsedBytes: of(1)}}, since, func(string) bool { return tt.shared })
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) || sure != tt.sure {
			t.Errorf("%s: %q, sure %t; want %q", tt.name, got, sure, tt.want)
		}
	}
}

// Pauses grow up to their bounds, which a refusal has higher, and begin anew.
func TestBackoff(t *testing.T) {
	cfg := DefaultConfig().Reconnect
	b := backoff{cfg: cfg}
	for i := range 100 {
		bound := min(cfg.MaxDelay, cfg.Delay<<min(i, 20))
		if d := b.next(false); d < 0 || d > bound {
			t.Errorf("try %d: %v; want at most %v", i, d, bound)
		}
	}
	b.reset()
	for i := range 100 {
		bound := min(cfg.RefusedMaxDelay, cfg.Delay<<min(i, 20))
		if d := b.next(true); d < bound/2 || d > bound {
			t.Errorf("refusal %d: %v; want %v to %v", i, d, bound/2, bound)
		}
	}
	if b.reset(); b.next(false) > cfg.Delay {
		t.Error("it does not begin anew")
	}
}

// A shard's status says which cards it has, whoever ordered it: a control plane that
// knows it no more must not give them to another.
func TestStatusNamesTheCards(t *testing.T) {
	l := &life{wish: wish{Cards: []cardBefore{{ID: "GPU-a"}, {ID: "GPU-b"}}}}
	if got := l.status(engines.ShardID{Replica: "m-1"}).Cards; !slices.Equal(got, []string{"GPU-a", "GPU-b"}) {
		t.Errorf("the cards are %q", got)
	}
}
