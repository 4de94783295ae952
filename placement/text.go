package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/llmgw/llmgw/engines"
)

// cardsShort is why a node has too few cards for a rank. It is put into words
// only when somebody asks.
type cardsShort struct {
	entry *entry
	need  *Need
	empty bool
}

// ownerText says who has a card.
func ownerText(c *Claim) string {
	if c.Model == "" {
		return c.Replica
	}
	return fmt.Sprintf("replica %s of model %s", c.Replica, c.Model)
}

// text says how many cards are needed and what each of the node's cards is
// instead.
func (c *cardsShort) text(need, have uint64) string {
	n := &c.entry.node
	what := "needs " + cardsText(need, c.need, c.entry.soleClass())
	switch {
	case n.CardsUnknown:
		return what + "; what cards it has is not known"
	case len(n.Cards) == 0:
		return what + "; it has none"
	}
	accepts := func(class string) bool {
		return len(c.need.Classes) == 0 || slices.ContainsFunc(c.need.Classes, func(a string) bool { return ClassMatches(a, class) })
	}
	var other, excluded, taken, small, never, full []string
	fit := make(map[string]uint64)
	for i := range n.Cards {
		card, room := &n.Cards[i], c.entry.rooms[i]
		name, of := "card "+strconv.Itoa(card.Index), c.need.On(card.Class)
		switch {
		case !accepts(card.Class):
			other = append(other, card.Class)
		case of.Never != "":
			never = append(never, of.Never)
		case !room.everHolds(of.CardBytes):
			small = append(small, bytesText(room.total.Or(0)))
		case c.empty:
			fit[card.Class]++
		case card.Problem != "":
			excluded = append(excluded, name+": "+card.Problem)
		case c.entry.owners[i] != nil:
			taken = append(taken, ownerText(c.entry.owners[i]))
		case !room.holds(of.CardBytes):
			full = append(full, name+roomText(room, card.Foreign))
		default:
			fit[card.Class]++
		}
	}
	parts := []string{fmt.Sprintf("has %d", have)}
	if len(fit) > 1 {
		parts[0] += " of one class"
	}
	add := func(what string, which []string) {
		if len(which) > 0 {
			parts = append(parts, fmt.Sprintf("%d %s (%s)", len(which), what, strings.Join(slices.Compact(which), "; ")))
		}
	}
	add("of another class", other)
	add("too small", small)
	add("that can never hold it", never)
	add("excluded", excluded)
	add("taken", taken)
	add("with too little free", full)
	return what + "; of " + count(uint64(len(n.Cards)), "card") + " " + strings.Join(parts, ", ")
}

// cardsText says what cards are needed: "4 cards of one class, H100 or H200, each
// with 40.0 GiB free". What they must have free is told for cards of class; "": as
// far as it is the same for all.
func cardsText(n uint64, need *Need, class string) string {
	text, each := count(n, "card"), ""
	if n > 1 {
		text, each = text+" of one class", "each "
	}
	if len(need.Classes) > 0 {
		text += ", " + strings.Join(need.Classes, " or ")
	}
	of := need.On(class)
	if want, known := of.CardBytes.Get(); known {
		return text + ", " + each + "with " + bytesText(want) + " free"
	}
	if of.Never != "" || (class == "" && len(need.ByClass) > 0) {
		return text
	}
	return text + ", " + each + "wholly free"
}

// soleClass is the class of all cards of the node; "": they are not of one.
func (e *entry) soleClass() string {
	if len(e.classes) == 1 {
		return e.classes[0].name
	}
	return ""
}

// roomText says what is free on a card, and who has the rest.
func roomText(r room, foreign []engines.GPUProcess) string {
	text := " has "
	if free, known := r.free.Get(); known {
		text += bytesText(free) + " free"
		if total, known := r.total.Get(); known {
			text += " of " + bytesText(total)
		}
	} else {
		text += "an unknown amount free"
	}
	if len(foreign) > 0 {
		text += ", others use it: " + foreignText(foreign)
	}
	return text
}

// foreignText names processes and what they hold.
func foreignText(processes []engines.GPUProcess) string {
	parts := make([]string, len(processes))
	for i, p := range processes {
		parts[i] = cmp.Or(p.Name, "process "+strconv.Itoa(p.PID))
		if n, known := p.MemoryBytes.Get(); known {
			parts[i] += " with " + bytesText(n)
		}
	}
	return strings.Join(parts, " and ")
}

// bytesText writes a number of bytes for people.
func bytesText(n uint64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

// count writes "1 card" or "2 cards".
func count(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// someText joins names, and counts those beyond the most.
func someText(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
