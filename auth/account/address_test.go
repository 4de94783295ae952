package account

import (
	"errors"
	"strings"
	"testing"
)

func TestParseAddress(t *testing.T) {
	label := strings.Repeat("d", 63)
	for text, want := range map[string]string{
		"ada@example.org":                      ada,
		"  Ada@Example.ORG \r\n":               ada,
		"a@b":                                  "a@b",
		"first.last+tag@x.y-z.example":         "first.last+tag@x.y-z.example",
		"_x-1@10.example":                      "_x-1@10.example",
		"ada@xn--bcher-kva.example":            "ada@xn--bcher-kva.example",
		strings.Repeat("a", 64) + "@b.org":     strings.Repeat("a", 64) + "@b.org",
		"a@" + label + "." + label + ".org":    "a@" + label + "." + label + ".org",
		"":                                     "",
		" ":                                    "",
		"ada":                                  "",
		"@example.org":                         "",
		"ada@":                                 "",
		"ada@@example.org":                     "",
		"ada@a@example.org":                    "",
		".ada@example.org":                     "",
		"ada.@example.org":                     "",
		"a..b@example.org":                     "",
		"ada@.org":                             "",
		"ada@example.org.":                     "",
		"ada@-example.org":                     "",
		"ada@example-.org":                     "",
		"ada@exa_mple.org":                     "",
		"ada@[192.0.2.1]":                      "",
		"ada lovelace@example.org":             "",
		"\"ada\"@example.org":                  "",
		"ada@example.org\x00":                  "",
		"ada@example.org\nbcc:x@y":             "",
		"$(reboot)@example.org":                "",
		"`reboot`@example.org":                 "",
		"-rf@example.org":                      "",
		"=1+1@example.org":                     "",
		"+1@example.org":                       "",
		"ада@example.org":                      "", // Cyrillic
		"ada@exаmple.org":                      "", // one Cyrillic letter
		"<script>@example.org":                 "",
		strings.Repeat("a", 65) + "@b.org":     "",
		"a@" + strings.Repeat("d", 64):         "",
		"a@" + strings.Repeat("b.", 130) + "c": "",
		strings.Repeat("x", 10<<20):            "",
	} {
		got, err := ParseAddress(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%.80q: %q, %v; want %q", text, got, err, want)
		}
		if err == nil {
			continue
		}
		bad, ok := errors.AsType[*InvalidError](err)
		if !ok || !errors.Is(err, ErrInvalid) || bad.Field != "address" || len(err.Error()) > 300 {
			t.Errorf("%.80q: %v", text, err)
		}
	}
}

// What is an address is one in one spelling, of which nothing means anything to a shell,
// a page or a spreadsheet.
func FuzzParseAddress(f *testing.F) {
	f.Add("ada@example.org")
	f.Add(" A.b+c@D-e.f ")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseAddress(text)
		if err != nil {
			if !errors.Is(err, ErrInvalid) || got != "" {
				t.Errorf("%q: %q, %v", text, got, err)
			}
			return
		}
		if again, err := ParseAddress(got); err != nil || again != got {
			t.Errorf("%q became %q and then %q, %v", text, got, again, err)
		}
		if len(got) < 3 || len(got) > 254 || strings.Trim(got, "abcdefghijklmnopqrstuvwxyz0123456789._+-@") != "" || strings.ContainsAny(got[:1], "-+=@.") ||
			strings.Count(got, "@") != 1 {
			t.Errorf("%q became %q", text, got)
		}
	})
}
