package secret_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/router/internal/secret"
)

func TestWithout(t *testing.T) {
	key := "llmgw_" + strings.Repeat("aZ9", 16) + "x"
	for text, want := range map[string]string{
		"":                                    "",
		"job-17":                              "job-17",
		"llmgw_job-17":                        "llmgw_job-17",
		"llmgw_":                              "llmgw_",
		"llmgw_llmgw_" + key:                  "llmgw_llmgw_llmgw_…",
		key:                                   "llmgw_…",
		key[:40]:                              "llmgw_…", // cut short
		key[:30]:                              key[:30],
		"a " + key + "-b." + key:              "a llmgw_…-b.llmgw_…",
		"LLMGW_" + key[6:]:                    "LLMGW_" + key[6:],
		key + key:                             "llmgw_…llmgw_…",
		"llmgw_" + key[6:20] + "é" + key[20:]: "llmgw_" + key[6:20] + "é" + key[20:],
	} {
		if got := secret.Without(text); got != want {
			t.Errorf("%q: %q; want %q", text, got, want)
		}
		if secret.Holds(text) != (secret.Without(text) != text) {
			t.Errorf("%q: Holds and Without disagree", text)
		}
	}
}

// Wherever a key stands, it does not stay, and nothing that follows is one.
func TestNothingIsLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.StringMatching(`[a-z0-9 _.:-]{0,20}`)
		key := rapid.StringMatching(`llmgw_[0-9A-Za-z]{49}`).Draw(t, "key")
		text := part.Draw(t, "before") + key + part.Draw(t, "between") + key + part.Draw(t, "after")
		got := secret.Without(text)
		if strings.Contains(got, key[6:]) || secret.Holds(got) || !secret.Holds(text) {
			t.Errorf("%q becomes %q", text, got)
		}
	})
}
