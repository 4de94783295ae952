package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/cli/command"
	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/flagcheck"
)

// checkedToy is an adapter of which only the checks are asked.
type checkedToy struct{ engines.Adapter }

func (checkedToy) Describe(context.Context) (engines.Description, error) {
	return engines.Description{Engine: "toy", Title: "Toy", Tested: []string{"1.4"}}, nil
}

func (checkedToy) Checks(context.Context) ([]engines.Check, error) {
	return []engines.Check{
		{
			Name:     "play",
			Command:  engines.Command{Executable: "toy", Args: []string{"play", "--port", "1", "--name=a", "--crowd", "2"}},
			HelpArgs: []string{"play", "--help"}, VersionArgs: []string{"--version"},
			Since: map[string]string{"--crowd": "1.2"}, HelpLines: 2, Timeout: time.Minute,
		},
		{
			Name:     "head",
			Command:  engines.Command{Executable: "toy-head", Args: []string{"--join", "a"}},
			HelpArgs: []string{"--help"}, Timeout: time.Minute,
		},
	}, nil
}

// engine writes an executable that prints a help text and a version.
func engine(t *testing.T, dir, name, help, version string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	script := "#!/bin/sh\ncase \"$*\" in --version) echo '" + version + "';; *--help) cat <<'END'\n" + help + "END\n;; esac\n"
	if err := os.WriteFile(file, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestEngineCheck(t *testing.T) {
	const whole = "  --port N  port\n  --name N  name\n  --crowd N  crowd\n"
	dir, old := t.TempDir(), t.TempDir()
	toy := engine(t, dir, "toy", whole, "toy 1.4")
	engine(t, dir, "toy-head", "  --join A  whom\n", "")
	older := engine(t, old, "toy", "  --port-range N  ports\n  --name N  name\n", "toy 1.1")
	helpFile := filepath.Join(dir, "help.txt")
	if err := os.WriteFile(helpFile, []byte("  --port N  port\n  --name N  na"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	tests := []struct {
		name string
		cmd  engineCheckCmd
		code int
		want []string // in what is printed and the error
		not  []string
	}{
		{"all is known", engineCheckCmd{Adapter: "toy"}, 0, []string{
			"toy play: " + toy + ", version 1.4, 3 lines of help\n  the engine knows all 3 flags",
			"toy head: " + filepath.Join(dir, "toy-head") + ", version not known, 1 line of help",
		}, nil},
		{"two versions side by side", engineCheckCmd{Adapter: "toy", Exe: []string{toy, older}}, 1, []string{
			"toy play: " + toy + ", version 1.4",
			"toy play: " + older + ", version 1.1, 2 lines of help\n  missing  --port (did you mean --port-range?)\n  skipped  --crowd, which is there since 1.2\n",
			"does not know 1 flag", "(1.4)",
		}, []string{"all 2 flags"}},
		{"a file that is cut off", engineCheckCmd{Adapter: "toy", HelpFile: []string{helpFile}, EngineVersion: "1.4"}, 1, []string{
			helpFile + ", version 1.4, 2 lines", "missing  --crowd", "warning  it ends without the end of a line",
		}, []string{"toy-head"}},
		{"a file of an older version", engineCheckCmd{Adapter: "toy", HelpFile: []string{helpFile}, EngineVersion: "1.0"}, 0, []string{"skipped  --crowd", "all 2 flags"}, nil},
		{"one check", engineCheckCmd{Adapter: "toy", Check: "head"}, 0, []string{"toy head"}, []string{"toy play"}},
		{"no such file", engineCheckCmd{Adapter: "toy", HelpFile: []string{filepath.Join(dir, "none")}}, 2, []string{"not checked", "no such file", "give a file with what the engine prints with play --help", "1 of 1 check could not be made"}, nil},
		{"another program", engineCheckCmd{Adapter: "toy", Check: "head", Exe: []string{toy}}, 1, []string{"missing  --join", "warning  the help knows nothing of what the adapter uses: is it that of toy-head?"}, nil},
		{"a file without help", engineCheckCmd{Adapter: "toy", HelpFile: []string{toy + "-empty"}}, 2, []string{"it has no flag; save what the engine prints with play --help"}, nil},
		{"no such executable", engineCheckCmd{Adapter: "toy", Check: "play", Exe: []string{"/nowhere/toy"}}, 2, []string{"not checked  /nowhere/toy: no such file or directory; give the path"}, nil},
		{"a missing flag weighs more", engineCheckCmd{Adapter: "toy", Check: "play", Exe: []string{"/nowhere/toy", older}}, 1, []string{"not checked", "missing  --port"}, nil},
		{"no such adapter", engineCheckCmd{Adapter: "doll"}, 2, []string{`no adapter is called "doll"; there are ["toy"]`}, nil},
		{"no such check", engineCheckCmd{Adapter: "toy", Check: "sing"}, 2, []string{`no check "sing"; there are ["play" "head"]`}, nil},
	}
	if err := os.WriteFile(toy+"-empty", []byte("hello\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, asJSON := range []bool{false, true} {
				var out bytes.Buffer
				tt.cmd.JSON = asJSON
				err := tt.cmd.run(t.Context(), Streams{Out: &out}, []engines.Adapter{checkedToy{}})
				code := 0
				if err != nil {
					code = exitFailed
					if c, ok := errors.AsType[command.Coded](err); ok {
						code = c.Code
					}
					out.WriteString(err.Error())
				}
				if code != tt.code {
					t.Fatalf("exit code %d, want %d\n%s", code, tt.code, out.String())
				}
				if asJSON {
					continue
				}
				for _, want := range tt.want {
					if !strings.Contains(out.String(), want) {
						t.Errorf("it does not say %q\n%s", want, out.String())
					}
				}
				for _, not := range tt.not {
					if strings.Contains(out.String(), not) {
						t.Errorf("it says %q\n%s", not, out.String())
					}
				}
			}
		})
	}
}

// An adapter need not say which versions it was tested with.
func TestEngineCheckWithoutTestedVersions(t *testing.T) {
	e := engineCheck{Results: []engineCheckResult{{Report: flagcheck.Report{Missing: []flagcheck.Missing{{Name: "--join"}}}}}}
	const want = "ctl engine-check: the engine does not know 1 flag: it would not start with them. Use another version of the engine, or mend the adapter"
	if err := e.verdict(); err == nil || err.Error() != want {
		t.Errorf("%v; want %s", err, want)
	}
}

func TestEngineCheckAsJSON(t *testing.T) {
	dir := t.TempDir()
	cmd := engineCheckCmd{Adapter: "toy", Check: "play", JSON: true, Exe: []string{engine(t, dir, "toy", "  --port N  port\n", "1.1"), "/nowhere/toy"}}
	var out bytes.Buffer
	if err := cmd.run(t.Context(), Streams{Out: &out}, []engines.Adapter{checkedToy{}}); err == nil {
		t.Error("no error")
	}
	var got engineCheck
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if got.Adapter != "toy" || len(got.Results) != 2 {
		t.Fatalf("%s", out.String())
	}
	r := got.Results[0]
	if r.Version != "1.1" || r.Known != 1 || len(r.Missing) != 1 || r.Missing[0].Name != "--name" || len(r.Skipped) != 1 || len(r.Warnings) != 1 || r.Error != "" {
		t.Errorf("%+v", r)
	}
	if got.Results[1].Error == "" || got.Results[1].From != "/nowhere/toy" {
		t.Errorf("%+v", got.Results[1])
	}
}
