package console

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"

	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/apipb/telling"
)

// card is what is known of a card, in the order in which it counts: one that may not
// be used is unusable, whatever else it is.
type card uint8

const (
	cardUnknown  card = iota // its node has not said
	cardUnusable             // it may not be used
	cardTaken                // a replica has it
	cardAway                 // free, on a node that takes nothing now
	cardOccupied             // free of replicas, and others use it
	cardFree

	cardStates
)

// String returns the word that stands for it in texts.
func (c card) String() string {
	return [cardStates]string{"not known", "unusable", "taken", "away", "occupied", "free"}[c]
}

// class is the class of its shape.
func (c card) class() string {
	return [cardStates]string{"unknown", "unusable", "taken", "away", "occupied", "free"}[c]
}

// shape is a path from the upper left corner of a square of ten. Each state has its
// own, so that nobody needs to tell colours apart.
func (c card) shape(x, y int) string {
	at := fmt.Sprintf("M%d.5 %d.5", x, y)
	const square = "h7v7h-7z"
	switch c {
	case cardUnusable:
		return at + square + "l7 7m0-7-7 7"
	case cardAway:
		return at + square + "m2 3.5h3"
	case cardOccupied:
		return at + square + "m0 7 7-7v7z"
	case cardUnknown:
		return at + "h2m3 0h2v2m0 3v2h-2m-3 0h-2v-2m0-3v-2"
	case cardTaken, cardFree, cardStates:
	}
	return at + square
}

// cells draws squares in rows; label says what for those who do not see them. Cells of a state are one path, which is what keeps a
// table of many nodes small.
func cells(states []card, row int, label string) template.HTML {
	if len(states) == 0 {
		return ""
	}
	var paths [cardStates]strings.Builder
	for i, c := range states {
		paths[c].WriteString(c.shape(i%row*10, i/row*10))
	}
	width, height := min(len(states), row)*10, (len(states)+row-1)/row*10
	says := `aria-hidden="true"` // a word stands beside it
	if label != "" {
		says = `role="img" aria-label="` + template.HTMLEscapeString(label) + `"`
	}
	var out strings.Builder
	fmt.Fprintf(&out, `<svg class="cells" viewBox="0 0 %d %d" width="%d" height="%d" %s focusable="false">`, width, height, width*3/2, height*3/2, says)
	for c := range cardStates {
		if paths[c].Len() > 0 {
			fmt.Fprintf(&out, `<path class=%q d=%q/>`, c.class(), paths[c].String())
		}
	}
	out.WriteString(`</svg>`)
	return template.HTML(out.String()) // escaped above
}

// countStates writes "5 taken, 2 free, 1 unusable".
func countStates(states []card) string {
	var n [cardStates]int
	for _, c := range states {
		n[c]++
	}
	var parts []string
	for _, c := range []card{cardTaken, cardFree, cardOccupied, cardAway, cardUnusable, cardUnknown} {
		if n[c] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[c], c))
		}
	}
	return strings.Join(parts, ", ")
}

// legendEntry is a state with its sign.
type legendEntry struct {
	Sign template.HTML
	Text string
}

// legend says what the signs mean.
func legend() []legendEntry {
	out := make([]legendEntry, 0, cardStates)
	for _, e := range []struct {
		state card
		text  string
	}{
		{cardTaken, "taken by a replica"},
		{cardFree, "free"},
		{cardOccupied, "free of replicas, and others use its memory"},
		{cardAway, "free, on a node that takes nothing now"},
		{cardUnusable, "may not be used"},
		{cardUnknown, "not known"},
	} {
		out = append(out, legendEntry{cells([]card{e.state}, 1, ""), e.text})
	}
	return out
}

// mostSquares is how many squares stand for the cards of a class.
const mostSquares = 64

// squareOf says how many cards a square of classBar is; empty where it is one.
func squareOf(k *apipb.CardClass) string {
	if k.GetTotal() <= mostSquares {
		return ""
	}
	return fmt.Sprintf("a square is about %s cards", strconv.FormatFloat(float64(k.GetTotal())/mostSquares, 'f', 1, 64))
}

// classBar draws what the cards of a class are: a square each, and where there are too
// many a share of them, of which whatever there is has at least one.
func classBar(k *apipb.CardClass) template.HTML {
	width := int(min(k.GetTotal(), mostSquares))
	states := make([]card, 0, width)
	for i, n := range telling.Shares(k, width) {
		state := [...]card{telling.ShareTaken: cardTaken, telling.ShareOccupied: cardOccupied, telling.ShareUnusable: cardUnusable, telling.ShareAway: cardAway, telling.ShareFree: cardFree}[i]
		for range n {
			states = append(states, state)
		}
	}
	if k.GetTotal() == 0 {
		return ""
	}
	label := fmt.Sprintf("of %d cards %d are taken, %d free, %d occupied, %d away, %d unusable",
		k.GetTotal(), k.GetTaken(), k.GetFree(), k.GetOccupied(), k.GetAway(), k.GetUnusable())
	return cells(states, 16, label)
}

// spark draws how a rate went, the newest at the right. What is not known is a gap.
func spark(course []point, value func(rate) float64, label string) template.HTML {
	const width, height = 120, 24
	most, known := 0.0, 0
	for _, p := range course {
		if p.Known {
			known++
			most = max(most, value(p.rate))
		}
	}
	if known == 0 {
		return ""
	}
	var d strings.Builder
	open := false
	for i, p := range course {
		if !p.Known {
			open = false
			continue
		}
		y := float64(height - 1)
		if most > 0 {
			y -= value(p.rate) / most * (height - 3)
		}
		x := float64(width)
		if len(course) > 1 {
			x = float64(i) * width / float64(len(course)-1)
		}
		if open {
			d.WriteByte(' ')
		} else {
			d.WriteByte('M')
		}
		d.WriteString(short1(x) + " " + short1(y))
		open = true
	}
	return template.HTML(fmt.Sprintf(`<svg class="spark" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s" focusable="false"><path d="%s"/></svg>`,
		width, height, width, height, template.HTMLEscapeString(label), d.String())) // escaped, or digits
}

// short1 writes a coordinate to a tenth.
func short1(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }
