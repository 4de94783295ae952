package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An engine that nothing can launch is said before anybody orders it.
func TestAgentCheckNamesUnknownEngines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "agent.yaml")
	for _, c := range []struct {
		name, more string
		warns      bool
	}{
		{"a name that there is not", "", true},
		{"it may be among the adapters of a directory", "plugins: {dir: /opt/adapters}\n", false},
	} {
		text := "servers: [https://control.example:7443]\nengines: {llama-cpp: llama-server, vllm: /opt/vllm/bin/vllm}\n" + c.more
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, errs := run(t, "config", "check", "--for", "agent", "-c", file)
		if said := strings.Contains(errs, `engines.llama-cpp: no adapter is called "llama-cpp"; there are`); code != 0 || said != c.warns || strings.Contains(errs, "engines.vllm") {
			t.Errorf("%s: exit code %d, warned %t\n%s%s", c.name, code, said, out, errs)
		}
	}
}
