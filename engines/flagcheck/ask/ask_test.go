//go:build unix

package ask_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/flagcheck/ask"
)

// script writes an executable that does what the lines say.
func script(t *testing.T, lines string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "engine")
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+lines), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

func check() engines.Check {
	return engines.Check{
		Name: "serve", Command: engines.Command{Executable: "engine", Unset: []string{"ENGINE_PORT"}},
		HelpArgs: []string{"serve", "--help"}, VersionArgs: []string{"--version"}, Timeout: time.Minute,
	}
}

func TestCheckAsks(t *testing.T) {
	engine := script(t, `
case "$*" in
"serve --help") echo "loading a library" >&2; printf '  --port N   port\n  --width-%s\n  --dir-%s\n' "$COLUMNS" "$(pwd | tr / -)"; test -n "$ENGINE_PORT" && echo "  --env-kept"; test -n "$HOME_OF" && echo "  --home" ;;
--version) echo "engine 1.2.3" >&2 ;;
esac; exit 0`)
	a, err := ask.Check(t.Context(), check(), engine, ask.Config{Environ: []string{"PATH=" + os.Getenv("PATH"), "ENGINE_PORT=tcp://1", "HOME_OF=x"}})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"--dir--", "--home", "--port", "--width-200"}; a.Version != "1.2.3" || a.Executable != engine || !slices.Equal(a.Help.Flags(), want) {
		t.Errorf("%s, version %q, flags %q; want %q", a.Executable, a.Version, a.Help.Flags(), want)
	}
}

func TestHelpOnTheOtherStream(t *testing.T) {
	a, err := ask.Check(t.Context(), check(), script(t, `echo hello; echo "  -port int" >&2`), ask.Config{})
	if err != nil || !a.Help.Has("-port") || a.Version != "" {
		t.Errorf("flags %q, version %q, error %v", a.Help.Flags(), a.Version, err)
	}
}

func TestCheckSaysWhyNot(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "engine")
	if err := os.WriteFile(plain, []byte("no program"), 0o644); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(t.TempDir(), "engine")
	if err := os.WriteFile(foreign, []byte("\x7fELF of no machine"), 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, executable string
		class            error
		want             []string
	}{
		{"no file", "/nowhere/engine", ask.ErrMissing, []string{"/nowhere/engine: no such file or directory; give the path of the installed engine"}},
		{"no name in PATH", "no-such-engine-here", ask.ErrMissing, []string{"no-such-engine-here: executable file not found in $PATH"}},
		{"no program", plain, ask.ErrMissing, []string{"permission denied", "make the file executable"}},
		{"another machine's program", foreign, ask.ErrMissing, []string{"make sure that it is a program for this machine"}},
		{"it fails", script(t, "echo Traceback >&2; for i in 1 2 3 4 5 6 7 8 9 10 11; do echo line $i >&2; done; exit 1"), ask.ErrNoHelp,
			[]string{"engine serve --help: it failed: exit status 1; run it by hand", "\n    | line 2\n", "\n    | line 11"}},
		{"it would have a terminal obey", script(t, `printf '\033]0;title\007\033[2J\ttext\r'; printf '%01000d\n' 0; exit 1`), ask.ErrNoHelp,
			[]string{"\n    | ]0;title[2J text0000"}},
		{"it has no help", script(t, "echo hello"), ask.ErrNoHelp, []string{"it printed no flag", "| hello"}},
		{"it says nothing", script(t, ""), ask.ErrNoHelp, []string{"it printed no flag; make sure that this is the engine's executable"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ask.Check(t.Context(), check(), tt.executable, ask.Config{})
			if e, ok := errors.AsType[*ask.Error](err); !ok || !errors.Is(err, tt.class) || len(e.Output) > 10 {
				t.Fatalf("%v is not %v", err, tt.class)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if strings.ContainsAny(err.Error(), "\x1b\x07\r") || len(err.Error()) > 4000 {
				t.Errorf("%q is not for a terminal", err)
			}
		})
	}
}

// An executable that hangs is killed with all that it started.
func TestCheckEndsWhatHangs(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	engine := script(t, "sleep 600 &\necho $! > "+pids+"\ntrap '' TERM INT\nwait")
	_, err := ask.Check(t.Context(), check(), engine, ask.Config{Timeout: 300 * time.Millisecond, Environ: os.Environ()})
	if !errors.Is(err, ask.ErrTimeout) || !strings.Contains(err.Error(), "it did not end within 300ms; give it more time") {
		t.Fatalf("%v", err)
	}
	assertGone(t, pids)
}

// What an executable leaves behind is ended too, if it holds on to the output.
func TestCheckEndsWhatIsLeftBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for two seconds")
	}
	t.Parallel()
	pids := filepath.Join(t.TempDir(), "pids")
	a, err := ask.Check(t.Context(), engines.Check{HelpArgs: []string{"-h"}, Timeout: time.Minute},
		script(t, "sleep 600 &\necho $! > "+pids+"\necho '  --port N'"), ask.Config{Environ: os.Environ()})
	if err != nil || !a.Help.Has("--port") {
		t.Fatalf("flags %q, error %v", a.Help.Flags(), err)
	}
	assertGone(t, pids)
}

// assertGone waits until the process whose number a file has is gone: its end is
// on its way, and only how soon it is seen depends on the machine.
func assertGone(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	for t.Context().Err() == nil {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || err == nil && strings.Contains(string(stat), ") Z ") {
			return
		}
	}
}

func TestCheckObeysItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if _, err := ask.Check(ctx, check(), script(t, "echo '  --port N'"), ask.Config{}); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("%v", err)
	}
}
