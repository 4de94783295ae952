package twin

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"math"
	"time"
)

// colours are those of the policies, in the order of the reports (Okabe and
// Ito's, which most people can tell apart).
func colours() []string {
	return []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"}
}

// Of the picture, in pixels.
const (
	svgWidth, svgHeight = 960, 460
	plotTop, plotBottom = 60, 400
	cdfLeft, cdfRight   = 60, 540
	barLeft, barRight   = 620, 940
)

// WriteSVG draws the reports of one trace as an SVG picture: how many requests
// had their first token within which time, and beside it hit share and share of
// good requests. Errors are those of w.
func WriteSVG(w io.Writer, reports []*Report) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="12">`+"\n", svgWidth, svgHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", svgWidth, svgHeight)
	if len(reports) > 0 {
		r := reports[0]
		text(&b, cdfLeft, 24, "start", "#000000", fmt.Sprintf("%s: %s on %s", r.Trace, count(r.Requests, "request"), count(r.Engines, "engine")))
	}
	drawCDF(&b, reports)
	drawBars(&b, reports)
	for i, r := range reports {
		x := cdfLeft + i%4*230
		y := 440 + i/4*16
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="10" height="10" fill="%s"/>`+"\n", x, y-9, colour(i))
		text(&b, x+15, y, "start", "#000000", string(r.Policy))
	}
	b.WriteString("</svg>\n")
	_, err := w.Write(b.Bytes())
	return err
}

func colour(i int) string { return colours()[i%len(colours())] }

// drawCDF draws the shares over the time to the first token, on a logarithmic
// axis of whole powers of ten.
func drawCDF(b *bytes.Buffer, reports []*Report) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, r := range reports {
		for _, q := range []float64{0, 1} {
			if v, ok := r.TTFT(q); ok {
				e := math.Log10(max(v.Seconds(), 1e-3))
				low, high = min(low, math.Floor(e)), max(high, math.Ceil(e))
			}
		}
	}
	text(b, cdfLeft, plotTop-12, "start", "#444444", "share of requests with their first token within …")
	axes(b, cdfLeft, cdfRight)
	if low > high {
		return // nobody had one
	}
	if low == high {
		high++
	}
	at := func(v time.Duration) float64 {
		e := math.Log10(max(v.Seconds(), 1e-3))
		return cdfLeft + (e-low)/(high-low)*(cdfRight-cdfLeft)
	}
	for e := low; e <= high; e++ {
		v := time.Duration(math.Pow(10, e) * float64(time.Second))
		x := at(v)
		fmt.Fprintf(b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#dddddd"/>`+"\n", x, plotTop, x, plotBottom)
		text(b, int(x), plotBottom+16, "middle", "#444444", v.String())
	}
	const points = 200
	for i, r := range reports {
		fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="1.5" points="`, colour(i))
		for k := range points + 1 {
			q := float64(k) / points
			if v, ok := r.TTFT(q); ok {
				fmt.Fprintf(b, "%.1f,%.1f ", at(v), plotBottom-q*(plotBottom-plotTop))
			}
		}
		b.WriteString(`"/>` + "\n")
	}
}

// drawBars draws two shares of each report.
func drawBars(b *bytes.Buffer, reports []*Report) {
	axes(b, barLeft, barRight)
	groups := []struct {
		name string
		of   func(*Report) *float64
	}{
		{"hit share", func(r *Report) *float64 { return r.HitShare }},
		{"good requests", func(r *Report) *float64 { return r.GoodShare }},
	}
	width := float64(barRight-barLeft) / float64(len(groups))
	for g, group := range groups {
		left := barLeft + float64(g)*width
		text(b, int(left+width/2), plotBottom+16, "middle", "#444444", group.name)
		each := width * 0.8 / float64(max(len(reports), 1))
		for i, r := range reports {
			v := group.of(r)
			if v == nil {
				continue // not known, which is no bar of height 0
			}
			h := *v * (plotBottom - plotTop)
			x := left + width*0.1 + float64(i)*each
			fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", x, plotBottom-h, each*0.9, h, colour(i))
			text(b, int(x+each*0.45), int(plotBottom-h)-4, "middle", "#444444", fmt.Sprintf("%.2f", *v))
		}
	}
}

// axes draws a frame with shares from 0 to 1 at its left.
func axes(b *bytes.Buffer, left, right int) {
	for k := range 5 {
		share := float64(k) / 4
		y := plotBottom - share*(plotBottom-plotTop)
		fmt.Fprintf(b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#dddddd"/>`+"\n", left, y, right, y)
		text(b, left-6, int(y)+4, "end", "#444444", fmt.Sprintf("%.2g", share))
	}
	fmt.Fprintf(b, `<line x1="%d" y1="%d" x2="%d" y2="%[2]d" stroke="#000000"/>`+"\n", left, plotBottom, right)
}

func text(b *bytes.Buffer, x, y int, anchor, fill, s string) {
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="%s" fill="%s">%s</text>`+"\n", x, y, anchor, fill, html.EscapeString(s))
}
