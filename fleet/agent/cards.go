package agent

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/llmgw/llmgw/engines"
)

const (
	// memorySlack is how much more than before a shard may be in use on a card that
	// counts as free: a driver keeps some for itself.
	memorySlack = 512 << 20
	// memoryInterval is the time between two looks.
	memoryInterval = 500 * time.Millisecond
)

// freed waits until the memory of a stopped shard's cards is seen free, and
// returns in words who holds it if that takes too long; empty: it is free. Fresh
// reads the node anew.
func freed(ctx context.Context, w wish, limit time.Duration, fresh func(context.Context) *facts, others func(card string) bool) string {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		node := fresh(ctx)
		held := heldOn(node, w.Cards, began, others)
		if held == "" {
			return ""
		}
		timer := time.NewTimer(memoryInterval)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return held
		}
	}
}

// rested is freed for an engine that sleeps, which keeps its context of each card:
// up to a tenth of the card's memory, so that another engine with its usual nine
// tenths fits beside it. Sure is false where that could not be looked at.
func rested(ctx context.Context, w wish, limit time.Duration, fresh func(context.Context) *facts, others func(card string) bool) (held string, sure bool) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		node := fresh(ctx)
		held, sure = restedOn(node, w.Cards, began, others)
		if held == "" {
			return "", true
		}
		timer := time.NewTimer(memoryInterval)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return held, sure
		}
	}
}

// restedOn says on which cards too much is in use. Of a card that others use, too,
// nothing can be said, nor of one that does not tell how much is in use.
func restedOn(node *facts, cards []cardBefore, since time.Time, others func(card string) bool) (held string, sure bool) {
	if node.problem != "" || node.readAt.Add(-node.state.GPUsAge).Before(since) {
		return "the memory of its cards could not be looked at: " + node.problem, false
	}
	var lines []string
	for _, c := range cards {
		state, ok := node.state.GPU(c.ID)
		used, known := state.MemoryUsedBytes.Get()
		free, whole := state.MemoryFreeBytes.Get()
		if !ok || !known || !whole || len(state.Foreign) > 0 || others(c.ID) {
			continue
		}
		if most := c.UsedBytes.Or(0) + max(memorySlack, (used+free)/10); used > most {
			lines = append(lines, fmt.Sprintf("%s of card %s are still in use, and %s would be little enough", inGiB(used), c.ID, inGiB(most)))
		}
	}
	return strings.Join(lines, "; "), true
}

// heldOn says who holds memory of the cards. Of a card that other shards use, too,
// nothing can be said, and nothing of one that does not tell how much is in use,
// but for the processes on it.
func heldOn(node *facts, cards []cardBefore, since time.Time, others func(card string) bool) string {
	if node.problem != "" || node.readAt.Add(-node.state.GPUsAge).Before(since) {
		return "the memory of its cards could not be looked at: " + node.problem
	}
	var held []string
	for _, c := range cards {
		state, ok := node.state.GPU(c.ID)
		if !ok || others(c.ID) {
			continue
		}
		if line := heldOnOne(c, state); line != "" {
			held = append(held, line)
		}
	}
	return strings.Join(held, "; ")
}

func heldOnOne(c cardBefore, state engines.GPUState) string {
	used, known := state.MemoryUsedBytes.Get()
	if known && used <= c.UsedBytes.Or(0)+memorySlack {
		return ""
	}
	var names []string
	for _, p := range state.Foreign {
		name := fmt.Sprintf("process %d", p.PID)
		if p.Name != "" {
			name += " (" + p.Name + ")"
		}
		if bytes, ok := p.MemoryBytes.Get(); ok {
			name += " with " + inGiB(bytes)
		}
		names = append(names, name)
	}
	switch {
	case !known && len(names) == 0:
		return ""
	case len(names) == 0:
		return fmt.Sprintf("%s of card %s are in use by nobody that can be seen", inGiB(used), c.ID)
	}
	return fmt.Sprintf("memory of card %s is held by %s", c.ID, strings.Join(names, ", "))
}

func inGiB(bytes uint64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }
