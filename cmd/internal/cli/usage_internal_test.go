package cli

import (
	"testing"
	"time"
)

func TestParseWhen(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 34, 56, 0, time.FixedZone("", 3600)) // 11:34:56 UTC
	for text, want := range map[string]string{
		"2026-11-01":                "2026-11-01T00:00:00Z",
		"2026-11-01T12:00:00+01:00": "2026-11-01T11:00:00Z",
		"1d":                        "2026-11-30T00:00:00Z", // today
		"7d":                        "2026-11-24T00:00:00Z",
		"0d":                        "2026-11-30T00:00:00Z",
		"12h":                       "2026-11-29T23:34:56Z",
		"":                          "", "d": "", "-7d": "", "-1h": "", "99999999d": "", "2026-13-01": "", "now": "", "7 d": "",
	} {
		got, err := parseWhen(text, now)
		if want == "" != (err != nil) || err == nil && got.Format(time.RFC3339) != want {
			t.Errorf("%q: %v, %v; want %s", text, got, err, want)
		}
	}
}

func FuzzParseWhen(f *testing.F) {
	for _, s := range []string{"7d", "12h", "2026-11-30", "2026-11-30T12:00:00Z", "0", "65535d", "9999999h"} {
		f.Add(s)
	}
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		at, err := parseWhen(text, now)
		if err == nil && at.Location() != time.UTC {
			t.Errorf("%q is in %v", text, at.Location())
		}
	})
}
