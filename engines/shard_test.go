package engines_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/engines"
)

func TestValidID(t *testing.T) {
	for _, id := range []string{"a", "node-1", "gpu07.rack-3", "A_b", strings.Repeat("x", 63)} {
		if err := engines.ValidID(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, id := range []string{"", ".", "..", "-a", "a-", "a/b", "a b", "ä", "a\x00", strings.Repeat("x", 64)} {
		if err := engines.ValidID(id); !errors.Is(err, engines.ErrID) {
			t.Errorf("%q: %v; want ErrID", id, err)
		}
	}
}

func TestShardIDIsReadAsItIsWritten(t *testing.T) {
	want := engines.ShardID{Replica: "llama-1", Rank: 12}
	if got, err := engines.ParseShardID(want.String()); err != nil || got != want {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	for _, s := range []string{"", "llama", "llama/", "/0", "llama/-1", "llama/01", "llama/+1", "llama/1/2", "../0"} {
		if id, err := engines.ParseShardID(s); !errors.Is(err, engines.ErrID) {
			t.Errorf("%q: %v, %v; want ErrID", s, id, err)
		}
	}
}

func TestShardStateRuns(t *testing.T) {
	for state := engines.ShardUnset; state <= engines.ShardFailed; state++ {
		ends := state == engines.ShardUnset || state == engines.ShardStopped || state == engines.ShardFailed
		if state.Runs() == ends {
			t.Errorf("%s: Runs is %t", state, state.Runs())
		}
		if state != engines.ShardUnset && state.String() == "unset" {
			t.Errorf("%d has no name", state)
		}
	}
}
