package reference_test

import (
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/config/reference"
	"github.com/llmgw/llmgw/engines/sim"
)

const repository = "../../../.."

// A field's comment becomes its key's, in words that do not need the code.
func TestKeys(t *testing.T) {
	keys, err := reference.Keys(repository, sim.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	byPath := map[string]reference.Key{}
	for _, k := range keys {
		byPath[k.Path] = k
	}
	for path, want := range map[string]string{
		"timing":                 "`timing` is what ",              // a section
		"timing.step":            "`step` is the fixed part",       // within it
		"api_key":                "`api_key`, if not empty, ",      // a comma after the name
		"keep_alive":             "how long `Engine.Serve` leaves", // what go doc links
		"faults.script[].status": "`status` is the HTTP status",    // an entry of a list
	} {
		if !strings.Contains(byPath[path].Comment, want) {
			t.Errorf("%s: %q, want %q in it", path, byPath[path].Comment, want)
		}
	}
	if got := byPath["timing.step"].Value.Interface(); got != 6450*time.Microsecond {
		t.Errorf("the default of timing.step is %v", got)
	}
	if byPath["faults.script[].status"].Value.IsValid() {
		t.Error("an entry of a list has a default")
	}
	if path, ok := new(byPath["faults.script"]).Section(); !ok || path != "faults.script[]" {
		t.Errorf("the list's section is %q, %t", path, ok)
	}
}

func TestNoSource(t *testing.T) {
	if keys, err := reference.Keys(t.TempDir(), sim.DefaultConfig()); err == nil {
		t.Errorf("%d keys without their comments, and no error", len(keys))
	}
}
