package webui

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// Bar shows how much of something is used.
type Bar struct {
	// Label says what is used, for those who do not see the picture.
	Label string
	// Used and Of are in the same unit. Of that is not positive shows an empty bar.
	Used, Of float64
	// Text says it in words and stands beside the bar: "12.50 of 20.00".
	Text string
}

// HTML returns the bar for a template. From nine tenths on it is hatched, and past
// the end it is full.
func (b Bar) HTML() template.HTML {
	share := 0.0
	if b.Of > 0 && b.Used > 0 { // a NaN is neither
		share = min(b.Used/b.Of, 1)
	}
	class := "bar"
	if share >= 0.9 {
		class += " full"
	}
	var out strings.Builder
	fmt.Fprintf(&out, `<span class=%q><svg viewBox="0 0 200 8" preserveAspectRatio="none" role="img" aria-label="%s: %s" focusable="false"><rect class="track" width="200" height="8" rx="4"/>`,
		class, template.HTMLEscapeString(b.Label), template.HTMLEscapeString(b.Text))
	if share > 0 {
		fmt.Fprintf(&out, `<rect class="fill" width="%s" height="8" rx="4"/>`, coordinate(max(share*200, 4)))
	}
	fmt.Fprintf(&out, `</svg><span class="bar-text" aria-hidden="true">%s</span></span>`, template.HTMLEscapeString(b.Text))
	return template.HTML(out.String()) // escaped above
}

// Columns is a small chart of values that follow each other.
type Columns struct {
	// ID is unique on its page: a letter, then letters, digits and dashes. It is the
	// program's, never a person's.
	ID string
	// Title and Summary say what is shown and what comes of it, in plain text.
	Title, Summary string
	// Head names the two columns of the table that stands for the chart.
	Head   [2]string
	Points []Point
}

// Point is one value. One that is negative or no number is drawn as none.
type Point struct {
	Label string // "12-01"
	Value float64
	Text  string // the value as people read it
}

// HTML returns the chart for a template, with a table of the same values.
func (c Columns) HTML() template.HTML {
	const width, height, gap = 600.0, 120.0, 2.0
	most := 0.0
	for _, p := range c.Points {
		if !math.IsInf(p.Value, 0) {
			most = max(most, drawn(p.Value))
		}
	}
	esc := template.HTMLEscapeString
	id := esc(c.ID)
	var out strings.Builder
	fmt.Fprintf(&out, `<figure class="chart"><figcaption>%s</figcaption>`, esc(c.Title))
	fmt.Fprintf(&out, `<svg viewBox="0 0 600 120" preserveAspectRatio="none" role="img" aria-labelledby="%s-t %s-d" focusable="false"><title id="%s-t">%s</title><desc id="%s-d">%s</desc><path class="axis" d="M0 119.5h600"/>`,
		id, id, id, esc(c.Title), id, esc(c.Summary))
	step := width / float64(max(len(c.Points), 1))
	for i, p := range c.Points {
		v := drawn(p.Value)
		if v == 0 || most == 0 {
			continue
		}
		h := max(v/most*(height-8), 2)
		fmt.Fprintf(&out, `<rect x="%s" y="%s" width="%s" height="%s"><title>%s: %s</title></rect>`,
			coordinate(float64(i)*step+gap/2), coordinate(height-1-h), coordinate(max(step-gap, 1)), coordinate(h), esc(p.Label), esc(p.Text))
	}
	out.WriteString(`</svg>`)
	if n := len(c.Points); n > 0 {
		fmt.Fprintf(&out, `<p class="ends" aria-hidden="true"><span>%s</span><span>%s</span></p>`, esc(c.Points[0].Label), esc(c.Points[n-1].Label))
	}
	fmt.Fprintf(&out, `<p class="note">%s</p>`, esc(c.Summary))
	fmt.Fprintf(&out, `<details><summary>As a table<span class="unseen">: %s</span></summary><table><thead><tr><th scope="col">%s</th><th scope="col" class="num">%s</th></tr></thead><tbody>`,
		esc(c.Title), esc(c.Head[0]), esc(c.Head[1]))
	for _, p := range c.Points {
		fmt.Fprintf(&out, `<tr><th scope="row">%s</th><td class="num">%s</td></tr>`, esc(p.Label), esc(p.Text))
	}
	out.WriteString(`</tbody></table></details></figure>`)
	return template.HTML(out.String()) // escaped above
}

// drawn is what can be drawn of a value.
func drawn(v float64) float64 {
	if v > 0 && !math.IsInf(v, 0) {
		return v
	}
	return 0
}

func coordinate(v float64) string { return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64) }
