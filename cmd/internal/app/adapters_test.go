package app_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/cmd/internal/app"
	"github.com/llmgw/llmgw/engines"
)

// Adapters can be told apart, and each is found by its name.
func TestAdapters(t *testing.T) {
	var names []engines.Name
	for _, a := range app.Adapters() {
		d, err := a.Describe(t.Context())
		if err != nil || !d.Engine.Usable() || slices.Contains(names, d.Engine) {
			t.Errorf("adapter %q, error %v, after %q", d.Engine, err, names)
		}
		names = append(names, d.Engine)
		if _, found, err := app.Adapter(t.Context(), app.Adapters(), d.Engine); err != nil || found.Engine != d.Engine {
			t.Errorf("%q: %v", d.Engine, err)
		}
	}
	if len(names) == 0 || !slices.IsSorted(names) {
		t.Errorf("%q; want some, by name", names)
	}
	if _, _, err := app.Adapter(t.Context(), app.Adapters(), "vlm"); err == nil || !strings.Contains(err.Error(), `no adapter is called "vlm"; there are [`) {
		t.Errorf("%v", err)
	}
}
