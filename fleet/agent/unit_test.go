package agent_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/fleet/agent"
)

// The unit that is shipped lets engines run on when the agent ends, gives it the
// state directory that is its default, and longer to end than it takes.
func TestUnit(t *testing.T) {
	text, err := os.ReadFile("../../examples/deploy/llmgw-agent.service")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for _, want := range []string{
		"KillMode=process", "StateDirectory=" + strings.TrimPrefix(agent.DefaultConfig().StateDir, "/var/lib/"),
		"StateDirectoryMode=0700", "Restart=always", "TimeoutStopSec=10s", "OOMPolicy=continue",
	} {
		key, _, _ := strings.Cut(want, "=")
		if n := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, key+"=") }); n < 0 || lines[n] != want {
			t.Errorf("the unit lacks %s", want)
		}
	}
}
