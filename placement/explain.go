package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// String says what the fabric lacks, or that it lacks nothing.
func (s Standing) String() string {
	text := fmt.Sprintf("fabric %s: ", s.Fabric)
	if s.Short > 0 {
		text += count(uint64(s.Short), "node") + " short: "
	}
	needs := s.needs()
	text += fmt.Sprintf("needs %s%s, has %d", count(uint64(s.Needs), "node"), needs, s.Fits)
	if s.Class != "" {
		text += fmt.Sprintf(" (%s)", s.Class)
	}
	if !s.empty {
		text += fmt.Sprintf("; %d of %d wholly free", s.WholeFree, s.Members)
	}
	if s.Contradicted > 0 {
		text += fmt.Sprintf("; %d contradicted by their ports", s.Contradicted)
	}
	if s.weights {
		text += "; " + count(uint64(s.WeightSources), "source") + " of the weights"
	}
	return text
}

// needs says what a node must have, where all ranks take the same cards.
func (s Standing) needs() string {
	ranks := s.need.Ranks
	for i := range ranks {
		if ranks[i].Cards != ranks[0].Cards {
			return " for ranks of different sizes"
		}
	}
	if ranks[0].Cards == 0 {
		return ""
	}
	return " with " + cardsText(uint64(ranks[0].Cards), s.need, s.Class)
}

// String names the node and says every reason.
func (r Rejection) String() string {
	parts := make([]string, len(r.Reasons))
	for i := range r.Reasons {
		parts[i] = r.Reasons[i].String()
	}
	return r.Node + ": " + strings.Join(parts, "; ")
}

// Explain writes the whole decision for people, in lines.
func (d Decision) Explain() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	name := fmt.Sprintf("replica %s of model %s", d.Replica, d.Model)
	switch {
	case !d.Placed && d.CouldEver:
		line("%s: no place: %s", name, d.Why)
	case !d.Placed:
		line("%s: no place, not even on empty nodes: %s", name, d.Why)
	default:
		line("%s: %s", name, d.Why)
	}
	for rank, s := range d.Shards {
		line("  rank %d: %s", rank, strings.Join(append([]string{s.Node}, s.Cards...), " "))
	}
	for i := range d.Runners {
		r := &d.Runners[i]
		where := strings.Join(r.Nodes, ", ")
		if r.Fabric != "" {
			where = fmt.Sprintf("fabric %s: %s", r.Fabric, where)
		}
		line("  then %s: %s", where, difference(&d.Score, &r.Score))
	}
	if len(d.Others) > 0 {
		line("  others that fit: %s", someText(d.Others, 20))
	}
	for i := range d.Rejected {
		line("  not %s", d.Rejected[i].String())
	}
	for i := range d.Fabrics {
		line("  %s", d.Fabrics[i].String())
	}
	return b.String()
}

// whyNot says in a sentence what is missing.
func (s *search) whyNot(d *Decision) {
	if len(s.cluster.entries) == 0 {
		d.Why = "no node is known"
		return
	}
	var first [kinds]int
	for i := range d.Rejected {
		first[d.Rejected[i].Reasons[0].Kind]++
	}
	var parts []string
	for _, k := range Kinds() {
		if first[k] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", first[k], k))
		}
	}
	what := fmt.Sprintf("0 of %d nodes fit: ", len(s.cluster.entries))
	if s.ganged {
		what = fmt.Sprintf("no fabric holds all %d ranks; ", len(s.wish.Need.Ranks))
		var nearest *Standing
		for i := range d.Fabrics {
			if f := &d.Fabrics[i]; nearest == nil || f.Short < nearest.Short {
				nearest = f
			}
		}
		if nearest != nil {
			what += nearest.String() + "; "
		}
		d.Why = what + "nodes: " + strings.Join(parts, ", ")
		return
	}
	nearest := slices.MinFunc(d.Rejected, func(a, b Rejection) int {
		return cmp.Or(a.distance()-b.distance(), int(b.Reasons[0].Kind)-int(a.Reasons[0].Kind), cmp.Compare(b.Reasons[0].Have, a.Reasons[0].Have))
	})
	d.Why = what + strings.Join(parts, ", ") + "; nearest " + nearest.String()
}

// distance says how far a node is from being used: first by how many reasons
// only another wish or node would change, then by how many there are.
func (r *Rejection) distance() int {
	const lasts = 1000
	sum := len(r.Reasons)
	for i := range r.Reasons {
		switch r.Reasons[i].Kind {
		case NotPinned, LabelMissing, EngineNotOffered, CPUFeatureMissing:
			sum += lasts
		default:
		}
	}
	return sum
}

// difference names the criterion by which a place is before another.
func difference(better, worse *Score) string {
	c, differ := better.Differs(worse)
	if !differ {
		return "name"
	}
	return fmt.Sprintf("%s (%d, not %d)", c, better[c], worse[c])
}
