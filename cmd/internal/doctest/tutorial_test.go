package doctest_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/llmgw/llmgw/cmd/internal/cli"
)

// TestMain makes the binary a command that the tutorial starts as llmgw.
func TestMain(m *testing.M) {
	// Under the race detector a process waits a second before it ends.
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0")
	testscript.Main(m, map[string]func(){
		"llmgw": func() {
			os.Exit(cli.Main(context.Background(), os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
		},
	})
}

// The commands of the tutorial, and of how-tos that are like it, run in order in one shell, as a reader would type
// them. Its comments say what a reader sees:
//
//	<!-- expect: COMMAND -->   is true now
//	<!-- await: COMMAND -->    becomes true
//	<!-- fails -->             the next block ends with an error
//	<!-- untested: WHY -->     the next block is not run
//
// Only the ports are others, and the binary is this test's.
func TestTutorial(t *testing.T) {
	for _, page := range []string{"docs/tutorial/first-hour.md", "docs/how-to/certificates.md", "docs/how-to/control-plane.md", "docs/node-onboarding.md"} {
		t.Run(path.Base(page), func(t *testing.T) { runPage(t, page) })
	}
}

func runPage(t *testing.T, page string) {
	t.Helper()
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	home := t.TempDir()
	script := filepath.Join(home, "tutorial")
	if err := os.WriteFile(script, []byte(tutorial(t, page, pages(t)[page])), 0o600); err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Abs(filepath.Join(root, "examples"))
	if err == nil {
		err = os.Symlink(examples, filepath.Join(home, "examples"))
	}
	if err != nil {
		t.Fatal(err)
	}
	llmgw, err := exec.LookPath("llmgw")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", script)
	cmd.Dir = home
	cmd.Env = append(os.Environ(), "HOME="+home, "LLMGW="+llmgw)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
		for _, dir := range []string{".", "first-hour"} {
			logs, _ := filepath.Glob(filepath.Join(home, dir, "*.log"))
			for _, log := range logs {
				text, _ := os.ReadFile(log)
				t.Logf("%s:\n%s", filepath.Base(log), text)
			}
		}
	}
}

const prelude = `set -eu
go() { ln -s "$LLMGW" "$HOME/first-hour/llmgw"; }
await() { for _ in $(seq 600); do if eval "$1"; then return; fi; sleep 0.05; done; echo "not in 30 s: $1"; return 1; }
expect() { eval "$1" || { echo "not so: $1"; return 1; }; }
trap 'code=$?; for p in $(jobs -p); do kill "$p" 2>/dev/null || true; done; wait; exit $code' EXIT
`

// tutorial makes one script of a page.
func tutorial(t *testing.T, page, text string) string {
	t.Helper()
	var script strings.Builder
	script.WriteString(prelude)
	skip, fails, commands := false, false, 0
	for _, b := range blocks(page, text) {
		switch {
		case b.lang == "comment":
			verb, arg, _ := strings.Cut(b.text, ": ")
			switch verb {
			case "expect", "await":
				fmt.Fprintf(&script, "echo '%s:%d'\n%s %s\n", page, b.line, verb, quote(arg))
			case "fails":
				fails = true
			case "untested":
				skip = true
			default:
				t.Fatalf("%s:%d: %q says nothing to this test", page, b.line, b.text)
			}
			continue
		case skip:
		case b.lang == "sh" && fails:
			fmt.Fprintf(&script, "echo '%s:%d'\nif ( %s ); then echo 'this must fail'; exit 1; fi\n", page, b.line, strings.TrimSpace(b.text))
			commands++
		case b.lang == "sh":
			fmt.Fprintf(&script, "echo '%s:%d'\n%s", page, b.line, b.text)
			commands++
		case strings.HasPrefix(b.text, "# ") && strings.HasSuffix(b.first(), ".yaml"):
			fmt.Fprintf(&script, "cat >%s <<'END OF FILE'\n%sEND OF FILE\n", strings.TrimPrefix(b.first(), "# "), b.text)
		}
		skip, fails = false, false
	}
	if commands < 10 {
		t.Fatalf("%s has only %d blocks of commands", page, commands)
	}
	script.WriteString("echo done\n")
	return freePorts(t, script.String())
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// freePorts puts ports that nobody uses in the place of the tutorial's.
func freePorts(t *testing.T, script string) string {
	t.Helper()
	ports := map[string]string{}
	free := func(port string) string {
		if ports[port] == "" {
			l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() }) // if the test fails before the line below
			_, ports[port], _ = net.SplitHostPort(l.Addr().String())
			_ = l.Close()
		}
		return ports[port]
	}
	script = regexp.MustCompile(`127\.0\.0\.1:(\d+)`).ReplaceAllStringFunc(script, func(s string) string {
		return "127.0.0.1:" + free(strings.TrimPrefix(s, "127.0.0.1:"))
	})
	// What stands nowhere in the text because it is the default.
	script = strings.ReplaceAll(script, "./llmgw demo", fmt.Sprintf("./llmgw demo --listen 127.0.0.1:%s --admin-listen 127.0.0.1:%s", free("8080"), free("9090")))
	return fmt.Sprintf("export LLMGW_ADMIN_LISTEN=127.0.0.1:%s LLMGW_SHUTDOWN__GRACE=0s\n", free("9090")) + script
}
