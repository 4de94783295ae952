package controlplane

import "testing"

func TestAppendLabel(t *testing.T) {
	for text, want := range map[string]string{
		"":              `x="`,
		"NVIDIA H100":   `x="NVIDIA H100`,
		"a\\b\"c\nd":    `x="a\\b\"c\nd`,
		"größe ähnlich": `x="größe ähnlich`,
	} {
		if got := string(appendLabel(nil, `x="`, text)); got != want {
			t.Errorf("%q: %s; want %s", text, got, want)
		}
	}
}
