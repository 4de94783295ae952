package webui_test

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/llmgw/llmgw/auth/webui"
)

// luminance is that of WCAG 2.2, "relative luminance".
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(strings.TrimPrefix(colour, "#"), 16, 32)
	if err != nil || len(colour) != 7 {
		t.Fatalf("colour %q", colour)
	}
	part := func(v uint64) float64 {
		c := float64(v&255) / 255
		if c <= 0.04045 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*part(n>>16) + 0.7152*part(n>>8) + 0.0722*part(n)
}

// Every colour that text has stands out from every ground that it stands on, and every
// edge that matters does, too, in light and in dark: WCAG 2.2, 1.4.3 and 1.4.11, AA.
func TestContrast(t *testing.T) {
	css, err := os.ReadFile("assets/style.css")
	if err != nil {
		t.Fatal(err)
	}
	light, dark, ok := strings.Cut(string(css), "@media (prefers-color-scheme: dark)")
	if !ok {
		t.Fatal("there is no dark scheme")
	}
	dark, _, _ = strings.Cut(dark, "}\n}")
	colour := regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{6});`)
	read := func(text string) map[string]string {
		out := map[string]string{}
		for _, m := range colour.FindAllStringSubmatch(text, -1) {
			out[m[1]] = m[2]
		}
		return out
	}
	schemes := map[string]map[string]string{"light": read(light), "dark": read(dark)}
	for name, c := range schemes {
		if len(c) != len(schemes["light"]) {
			t.Errorf("%s has %d colours, light has %d", name, len(c), len(schemes["light"]))
		}
		for _, pair := range []struct {
			front, grounds string
			least          float64
		}{
			{"text", "ground surface sunken tint bad-tint", 4.5},
			{"muted", "ground surface sunken tint bad-tint", 4.5},
			{"accent", "ground surface tint", 4.5},
			{"accent-hover", "ground surface", 4.5},
			{"on-accent", "accent accent-hover", 4.5},
			{"bad", "ground surface bad-tint", 4.5},
			{"good", "ground surface", 4.5},
			{"warn", "ground surface", 4.5},
			{"edge", "ground surface", 3},
			{"fill", "ground surface sunken", 3},
			{"surface", "bad", 3}, // the cross in the mark of what is bad
		} {
			for ground := range strings.FieldsSeq(pair.grounds) {
				a, b := luminance(t, c[pair.front]), luminance(t, c[ground])
				if ratio := (max(a, b) + 0.05) / (min(a, b) + 0.05); ratio < pair.least {
					t.Errorf("%s: %s on %s: %.2f, want %.1f", name, pair.front, ground, ratio, pair.least)
				}
			}
		}
	}
	for _, text := range []string{"url(", "@import", "http:", "https:"} {
		if strings.Contains(string(css), text) {
			t.Errorf("the stylesheet leads elsewhere: %s", text)
		}
	}
	for _, text := range []string{":focus-visible", "prefers-reduced-motion", "forced-colors", ".skip:focus"} {
		if !strings.Contains(string(css), text) {
			t.Errorf("the stylesheet has no %s", text)
		}
	}
}

const payload = `"><script>alert(1)</script>'&`

// wellFormed checks that a picture is XML, and has no script.
func wellFormed(t *testing.T, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "script" {
			t.Errorf("a script in %s", text)
		}
	}
}

func TestBar(t *testing.T) {
	for _, tt := range []struct {
		used, of float64
		width    string // empty: nothing is filled
		full     bool
	}{
		{0, 10, "", false},
		{5, 10, "100", false},
		{9, 10, "180", true},
		{11, 10, "200", true},
		{1e-9, 10, "4", false},
		{5, 0, "", false},
		{-5, 10, "", false},
		{math.NaN(), 10, "", false},
		{5, math.NaN(), "", false},
		{math.Inf(1), 10, "200", true},
	} {
		text := string(webui.Bar{Label: payload, Used: tt.used, Of: tt.of, Text: payload}.HTML())
		wellFormed(t, text)
		if got := strings.Contains(text, `class="fill" width="`+tt.width+`"`); got != (tt.width != "") {
			t.Errorf("%v of %v: %s", tt.used, tt.of, text)
		}
		if got := strings.Contains(text, `class="bar full"`); got != tt.full {
			t.Errorf("%v of %v: full %v", tt.used, tt.of, got)
		}
	}
}

func TestColumns(t *testing.T) {
	c := webui.Columns{
		ID: "c", Title: payload, Summary: payload, Head: [2]string{payload, payload},
		Points: []webui.Point{{Label: payload, Value: 1, Text: payload}, {Value: math.NaN()}, {Value: math.Inf(1)}, {Value: -3}, {Value: 4, Text: "four"}},
	}
	text := string(c.HTML())
	wellFormed(t, text)
	if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") || strings.Count(text, "<rect") != 2 {
		t.Errorf("drawn: %s", text)
	}
	if strings.Count(text, "<tr>") != 6 || !strings.Contains(text, `aria-labelledby="c-t c-d"`) {
		t.Errorf("the table that stands for it: %s", text)
	}
	wellFormed(t, string(webui.Columns{ID: "none"}.HTML()))
}

func TestStatus(t *testing.T) {
	shapes := map[string]bool{}
	for _, kind := range []webui.Kind{webui.Good, webui.Busy, webui.Idle, webui.Warn, webui.Bad} {
		text := string(webui.Status{Kind: kind, Text: payload}.HTML())
		wellFormed(t, text)
		_, shape, _ := strings.Cut(text, "<svg")
		shapes[shape] = true
		if !strings.Contains(text, html.EscapeString(payload)) {
			t.Errorf("the word is missing: %s", text)
		}
	}
	if len(shapes) != 5 {
		t.Error("two states have the same shape")
	}
	if got := (webui.Status{Text: "<"}).HTML(); got != "&lt;" {
		t.Errorf("no kind: %s", got)
	}
}

func TestFormats(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{webui.Number(0), "0"},
		{webui.Number(999), "999"},
		{webui.Number(1000), "1\u202f000"},
		{webui.Number(-1234567), "-1\u202f234\u202f567"},
		{webui.Number(math.MinInt64), "-9\u202f223\u202f372\u202f036\u202f854\u202f775\u202f808"},
		{webui.Bytes(0), "0 B"},
		{webui.Bytes(1023), "1023 B"},
		{webui.Bytes(64 << 10), "64 KiB"},
		{webui.Bytes(1536), "1.5 KiB"},
		{webui.Bytes(80 << 30), "80 GiB"},
		{webui.Bytes(math.MaxInt64), "8 EiB"},
		{webui.Amount(0), "0.00"},
		{webui.Cost(0), "-"},
		{webui.Cost(1_500_000_000), "1.50"},
		{webui.Amount(12_500_000_000), "12.50"},
		{webui.Amount(3_400_000), "0.0034"},
		{webui.Amount(1), "<0.0001"},
		{webui.Amount(-2_000_000_000), "-2.00"},
		{webui.Amount(math.MinInt64), "-9223372036.8547"},
		{string(webui.When(time.Time{})), "never"},
		{string(webui.Day(time.Time{})), "never"},
		{string(webui.When(time.Date(2026, 2, 3, 4, 5, 6, 0, time.FixedZone("x", 3600)))), `<time datetime="2026-02-03T03:05:06Z">2026-02-03 03:05 UTC</time>`},
		{string(webui.Day(time.Date(2026, 2, 3, 0, 5, 6, 0, time.FixedZone("x", 3600)))), `<time datetime="2026-02-02T23:05:06Z">2026-02-02</time>`},
	} {
		if tt.got != tt.want {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
}
