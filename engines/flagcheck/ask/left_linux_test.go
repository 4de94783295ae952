package ask_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/flagcheck/ask"
)

// One that makes a daemon of itself, in a session of its own and with other
// output, is ended too.
func TestCheckEndsDaemons(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	a, err := ask.Check(t.Context(), engines.Check{HelpArgs: []string{"-h"}, Timeout: time.Minute},
		script(t, "setsid sh -c 'echo $$ > "+pids+"; exec sleep 600' >/dev/null 2>&1 </dev/null &\n"+
			"while ! test -s "+pids+"; do :; done\necho '  --port N'"), ask.Config{Environ: os.Environ()})
	if err != nil || !a.Help.Has("--port") {
		t.Fatalf("flags %q, error %v", a.Help.Flags(), err)
	}
	assertGone(t, pids)
}
