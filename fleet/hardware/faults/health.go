package faults

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/llmgw/llmgw/engines"
)

// Health returns what a card may be used for, and why. The state of a card that
// never answered, and of one that is not known, is not known either.
func (b *Book) Health(now time.Time, key string) engines.Health {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.cards[key]
	if !ok {
		return engines.Health{}
	}
	var h engines.Health
	if worst := b.worst(c); c.read || worst == Exclude {
		h.State = worst.health()
	}
	for _, f := range slices.Concat(c.faults, c.noted) {
		h.Reasons = append(h.Reasons, engines.HealthReason{
			Kind:   f.Kind,
			Action: b.action(f.Kind).health(),
			Detail: f.text(),
			Ends:   b.ends(c, f, now),
		})
	}
	grave := func(r engines.HealthReason) int {
		return slices.Index([]engines.HealthState{engines.Excluded, engines.RestartEngine, engines.Healthy}, r.Action)
	}
	slices.SortFunc(h.Reasons, func(a, b engines.HealthReason) int {
		return cmp.Or(cmp.Compare(grave(a), grave(b)), strings.Compare(a.Kind, b.Kind))
	})
	return h
}

func (f fault) text() string {
	if f.Count < 2 || isRead(f.Kind) {
		return f.Detail
	}
	return fmt.Sprintf("%s (%d times)", f.Detail, f.Count)
}

// ends says what has to happen for a fault to be over.
func (b *Book) ends(c *card, f fault, now time.Time) string {
	switch b.action(f.Kind) {
	case Ignore:
		return ""
	case RestartEngine:
		return "the engines on the card are started anew"
	case Exclude:
	}
	if f.Over == "" {
		return remedy(f.Kind)
	}
	if b.spent(c, now) {
		return fmt.Sprintf("over (%s); it came back by itself %d times within %v, so an operator has to clear it", f.Over, b.policy.MaxReturns, b.policy.ReturnsWithin)
	}
	var clean time.Duration
	if !c.clean.IsZero() {
		clean = now.Sub(c.clean).Truncate(time.Minute)
	}
	return fmt.Sprintf("over (%s); the card has read clean for %v of %v", f.Over, clean, b.policy.CleanFor)
}

// remedy says what to do about a fault that lasts.
func remedy(kind string) string {
	switch kind {
	case notAnswering:
		return "the driver knows the card again: look at the kernel's log; reset the card or restart the machine"
	case eccUncorrected:
		return "the card is reset, the driver loaded anew or the machine restarted; or an operator clears it"
	case remapPending:
		return "the card is reset: nvidia-smi -r when nothing runs on it"
	case remapFailed:
		return "the card is replaced"
	case recoveryAsked:
		return "what the driver asks for is done"
	}
	return "the card is reset, the driver loaded anew or the machine restarted; or an operator clears it"
}
