package webui

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"
)

// funcs are what all templates may call.
func (s *Site) funcs() template.FuncMap {
	return template.FuncMap{
		"asset":   s.Asset,
		"when":    When,
		"day":     Day,
		"number":  Number,
		"bytes":   Bytes,
		"amount":  Amount,
		"cost":    Cost,
		"bar":     func(b Bar) template.HTML { return b.HTML() },
		"columns": func(c Columns) template.HTML { return c.HTML() },
		"status":  func(st Status) template.HTML { return st.HTML() },
		"good":    func(text string) Status { return Status{Good, text} },
		"idle":    func(text string) Status { return Status{Idle, text} },
		"warn":    func(text string) Status { return Status{Warn, text} },
		"bad":     func(text string) Status { return Status{Bad, text} },
		"busy":    func(text string) Status { return Status{Busy, text} },
	}
}

// When shows a time in UTC to the minute; the zero time is "never".
func When(t time.Time) template.HTML {
	if t.IsZero() {
		return "never"
	}
	t = t.UTC()
	return template.HTML(`<time datetime="` + t.Format(time.RFC3339) + `">` + t.Format("2006-01-02 15:04") + " UTC</time>") // digits only
}

// Day shows the date of a time in UTC; the zero time is "never".
func Day(t time.Time) template.HTML {
	if t.IsZero() {
		return "never"
	}
	t = t.UTC()
	return template.HTML(`<time datetime="` + t.Format(time.RFC3339) + `">` + t.Format("2006-01-02") + "</time>") // digits only
}

// Number writes a count with thin spaces between thousands: 12 345.
func Number(n int64) string {
	text := strconv.FormatInt(n, 10)
	sign := ""
	if text[0] == '-' {
		sign, text = "-", text[1:]
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return sign + text
}

// Bytes writes a size in binary units: 64 KiB.
func Bytes(n int64) string {
	const units = "KMGTPE"
	if n < 1<<10 && n > -1<<10 {
		return strconv.FormatInt(n, 10) + " B"
	}
	f := float64(n)
	unit := -1
	for (f >= 1024 || f <= -1024) && unit < len(units)-1 {
		f, unit = f/1024, unit+1
	}
	text := strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0")
	return text + " " + units[unit:unit+1] + "iB"
}

// Amount writes money, given in 10^-9 of its unit, to four digits after the point
// and at least two: 12.50, 0.0034. What is less than that and not nothing is
// "<0.0001".
func Amount(nanos int64) string {
	if nanos > 0 && nanos < 100_000 {
		return "<0.0001"
	}
	sign := ""
	n := uint64(nanos)
	if nanos < 0 {
		sign, n = "-", -n
	}
	text := fmt.Sprintf("%d.%04d", n/1e9, n%1e9/1e5)
	for range 2 {
		text = strings.TrimSuffix(text, "0")
	}
	return sign + text
}

// Cost writes what was spent, as Amount does, and "-" for nothing: sums of usage add
// nothing for what has no price, so that a sum of 0 does not say that something was
// free.
func Cost(nanos int64) string {
	if nanos == 0 {
		return "-"
	}
	return Amount(nanos)
}
