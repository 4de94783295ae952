package schedule_test

import (
	"fmt"
	"strings"
	"sync"

	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/schedule"
)

// fakeIndex is a PrefixIndex that was told what it knows. Prompts are *string.
type fakeIndex struct {
	mu      sync.Mutex
	holders map[string][]schedule.Holder // guarded by mu
	bytes   map[string]int               // guarded by mu
	picked  []pick                       // guarded by mu
	learns  bool                         // what is picked holds all from then on
}

// pick is one call of Picked.
type pick struct {
	prompt string
	to     *endpoint.Endpoint
}

func newFakeIndex() *fakeIndex {
	return &fakeIndex{holders: make(map[string][]schedule.Holder), bytes: make(map[string]int)}
}

func (x *fakeIndex) set(prompt string, holders []schedule.Holder, bytes int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.holders[prompt], x.bytes[prompt] = holders, bytes
}

func (x *fakeIndex) Holders(req *schedule.Request, out []schedule.Holder) (n, promptBytes int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	prompt := *req.Prompt.(*string)
	return copy(out, x.holders[prompt]), x.bytes[prompt]
}

func (x *fakeIndex) Picked(req *schedule.Request, e *endpoint.Endpoint) {
	x.mu.Lock()
	defer x.mu.Unlock()
	prompt := *req.Prompt.(*string)
	x.picked = append(x.picked, pick{prompt, e})
	if x.learns {
		x.holders[prompt] = []schedule.Holder{{Endpoint: e, Bytes: x.bytes[prompt]}}
	}
}

// take returns what was picked since the last time, one a line.
func (x *fakeIndex) take() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	var out strings.Builder
	for _, p := range x.picked {
		fmt.Fprintf(&out, "%s to %s\n", p.prompt, p.to.ID())
	}
	x.picked = nil
	return out.String()
}
