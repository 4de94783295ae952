package adapters_test

import (
	"strings"
	"testing"

	"github.com/llmgw/llmgw/cmd/internal/app/adapters"
)

// Every adapter is found under the name that it describes, and can be started.
func TestBuiltin(t *testing.T) {
	programs, err := adapters.Programs()
	if err != nil || len(programs) != len(adapters.Builtin()) {
		t.Fatalf("%d programs for %d adapters: %v", len(programs), len(adapters.Builtin()), err)
	}
	for name, adapter := range adapters.Builtin() {
		d, err := adapter.Describe(t.Context())
		if err != nil || d.Engine != name {
			t.Errorf("%s describes %q: %v", name, d.Engine, err)
		}
	}
	if err := adapters.Serve("no-such-engine"); err == nil || !strings.Contains(err.Error(), "no-such-engine") {
		t.Errorf("an engine that is not built in: %v", err)
	}
}
